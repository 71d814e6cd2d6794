"""A load test without the page, in one command and bounded in time: all routes at once, unless some are named.

    docker compose run --rm --no-deps locust-worker python -m locustfiles.headless --seconds 60 > result.json

Prints Locust's own log and tables to stderr and one JSON object to stdout. Exit status: 0 when every route answered and
nothing failed, else 1.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from locustfiles import bounded, settings
from locustfiles.study_routes import offered

# Seconds for Locust to start and to stop its processes, beyond the run itself.
MARGIN_S = 90
LOCUSTFILE = Path(__file__).with_name("locustfile.py")


def main() -> int:
    parser = settings.command_line("A load test without the page.")
    parser.add_argument("--seconds", type=int, default=60, help="length of the run (default: %(default)s)")
    parser.add_argument("--users", type=int, help="over all routes (default: two per route)")
    parser.add_argument("--processes", type=int, default=2, help="that make the load (default: %(default)s)")
    parser.add_argument("--at-least", type=int, default=1, metavar="N", help="fail below so many requests")
    options, names, _ = settings.chosen(parser, offered())
    users = options.users or 2 * len(names)
    if users < len(names):
        parser.error(f"{users} users for {len(names)} routes: each route needs one")

    with tempfile.TemporaryDirectory() as folder:
        result_file = Path(folder, "result.json")
        command = [sys.executable, "-m", "locust", "--locustfile", LOCUSTFILE, "--headless", "--only-summary"]
        command += ["--host", options.host, "--run-time", f"{options.seconds}s", "--processes", options.processes]
        command += ["--users", users, "--spawn-rate", users, "--result", result_file]
        command += [*(f"--{name}={getattr(options, name)}" for name in settings.CHOICES), *names]
        try:
            # Locust prints its tables to stdout; stdout is for the result.
            status = bounded.run([*map(str, command)], options.seconds + MARGIN_S, stdout=sys.stderr).returncode
        except subprocess.TimeoutExpired as late:
            sys.exit(f"fiveway: Locust did not end within {late.timeout:g} s")
        if not result_file.exists():
            sys.exit(f"fiveway: Locust ended with status {status} and no result: see its log above")
        result = json.loads(result_file.read_text())
    json.dump(result | {"seconds": options.seconds, "users": users, "batch": options.batch}, sys.stdout, indent=2)
    print()
    problems = problems_of(result, options.at_least)
    if status and not problems:
        problems.append(f"Locust ended with status {status}")
    for problem in problems:
        print(f"fiveway: {problem}", file=sys.stderr)
    return 1 if problems else 0


def problems_of(result: Mapping[str, Any], at_least: int) -> list[str]:
    """Why a run failed; empty if it succeeded."""
    routes = result["routes"]
    problems = [f"{name}: no request was answered" for name, row in routes.items() if not row["requests"]]
    problems += [f"{error['route']}: {error['count']} x {error['error']}" for error in result["errors"]]
    if result["late_workers"]:
        problems.append(f"the last numbers of {result['late_workers']} processes are missing: this machine is too busy")
    total = sum(row["requests"] for row in routes.values())
    if total < at_least:
        problems.append(f"{total} requests, at least {at_least} wanted")
    return problems


if __name__ == "__main__":
    sys.exit(main())
