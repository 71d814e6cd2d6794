"""Good load on all routes for a long time: failures, and whether memory, descriptors or latency grow."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from statistics import linear_regression, variance
from typing import Any

import gevent
import gevent.event

from bench.analysis.statistics import student_t
from chaos import docker
from chaos.load import Call, Target, errors, good, looped, percentile, steady

SHARE = 0.7
"""Of what the machine can do on all routes together."""
SAMPLE_S = 20.0
CROWD = 32
"""Callers of each route before it: an engine keeps memory for the largest batch that it ever had."""
SETTLED = 0.2
"""The part of the run before which growth does not count: caches fill, connections open."""


def rate(routes: Mapping[str, Target], seconds: float = 3.0) -> float:
    """Calls per second on every route at once that use SHARE of the machine: each takes the time of a call on a route
    that is alone."""
    each_s = [seconds / max(1, len(good(looped(target, 4, seconds)))) for target in routes.values()]
    return SHARE / sum(each_s)


def rows(routes: Mapping[str, Target], *, minutes: float) -> Iterator[dict[str, Any]]:
    """A row per route: calls, errors, p50 and p99, and p99 of the last third over the first's. Then one per container:
    every reading of the memory in MiB, and its growth per hour with its 95 % interval; so for descriptors, of which
    there is the last reading alone."""
    for target in routes.values():
        looped(target, CROWD, 3.0)
    per_s, seconds = rate(routes), 60 * minutes
    samples: list[tuple[float, dict[str, float], dict[str, int]]] = []
    over = gevent.event.Event()

    def sample() -> None:
        while not over.is_set():
            samples.append((time.monotonic(), docker.memory_mib(), docker.descriptors()))
            over.wait(SAMPLE_S)

    begin = time.monotonic()
    with steady(dict.fromkeys(routes.values(), per_s), compare=True) as calls:
        sampler = gevent.spawn(sample)
        time.sleep(seconds)
        over.set()
        sampler.join()
    for name in routes:
        mine = [call for call in calls if call.route == name]
        third = [
            [call for call in good(mine) if part <= 3 * (call.start - begin) / seconds < part + 1] for part in range(3)
        ]
        yield {
            "route": name,
            "per_s": round(per_s, 2),
            "calls": len(mine),
            "errors": errors(mine),
            "p50_ms": percentile(good(mine), 50),
            "p99_ms": percentile(good(mine), 99),
            "p99_drift": _over(third[2], third[0]),
        }
    late = [one for one in samples if one[0] - begin > SETTLED * seconds]
    hours = [(at - begin) / 3600 for at, _, _ in late]
    for service in sorted(late[-1][1] if late else ()):
        yield {
            "container": service,
            "mib": [round(memory.get(service, 0.0), 1) for _, memory, _ in samples],
            "mib_per_hour": slope(hours, [memory.get(service, 0.0) for _, memory, _ in late]),
            "descriptors": late[-1][2].get(service),
            "descriptors_per_hour": slope(hours, [float(open_.get(service, 0)) for _, _, open_ in late]),
        }


def slope(hours: Sequence[float], values: Sequence[float]) -> list[float] | None:
    """Least squares: growth per hour, and its 95 % interval by Student's t; None of fewer than 3 values."""
    if len(hours) < 3:
        return None
    fitted = linear_regression(hours, values)
    left = [value - fitted.intercept - fitted.slope * hour for hour, value in zip(hours, values, strict=True)]
    freedom = len(hours) - 2
    error = math.sqrt(math.fsum(one**2 for one in left) / freedom / (variance(hours) * (len(hours) - 1)))
    half = error * student_t(0.975, freedom)
    return [round(one, 1) for one in (fitted.slope, fitted.slope - half, fitted.slope + half)]


def _over(late: Sequence[Call], early: Sequence[Call]) -> float | None:
    now, then = percentile(late, 99), percentile(early, 99)
    return round(now / then, 3) if now and then else None
