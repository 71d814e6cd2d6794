"""What a headless run leaves behind: a row per route, and the failures by kind."""

import json
from collections.abc import Collection
from pathlib import Path

from locust.env import Environment
from locust.runners import MasterRunner
from locust.stats import StatsEntry

from locustfiles.study_routes import WAYS


def write(path: Path, environment: Environment, routes: Collection[str]) -> None:
    """{"routes": {name: numbers}, "errors": [...], "late_workers": n}; a route without requests has zeros.

    `late_workers` counts those whose last numbers (up to 3 s of them) had not reached the master when it ended.
    """
    stats = environment.stats
    rows = {name: _row(stats.get(name, WAYS[name].format.protocol)) for name in WAYS if name in routes}
    errors = [
        {"route": error.name, "count": error.occurrences, "error": error.to_name()} for error in stats.errors.values()
    ]
    late = len(environment.runner.clients) if isinstance(environment.runner, MasterRunner) else 0
    path.write_text(json.dumps({"routes": rows, "errors": errors, "late_workers": late}))


def _row(entry: StatsEntry) -> dict[str, float]:
    """Times as Locust keeps them, rounded to 1 ms below 100 ms and to two digits above."""
    return {
        "requests": entry.num_requests,
        "failures": entry.num_failures,
        "requests_per_s": round(entry.total_rps, 2),
        "p50_ms": entry.get_response_time_percentile(0.5),
        "p95_ms": entry.get_response_time_percentile(0.95),
        "max_ms": round(entry.max_response_time, 2),
        "answer_bytes": round(entry.avg_content_length),
    }
