"""Each route at 1, 2, 5 and 10 times what it can do, in an open loop, while another route is asked as usual."""

from gevent import monkey

if __name__ == "__main__":
    monkey.patch_all()

import json
import resource
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gevent

from chaos import docker
from chaos.load import Target, answered, aside, edge_of, errors, good, looped, offered, percentile, targets, times
from locustfiles.settings import BadSetting

FACTORS = (1, 2, 5, 10)
CALLERS = (8, 16, 32)
"""Closed loops, of which the best number makes the route's peak."""
FIRST_S = 1.0
"""Of closed loops, before what counts: the route's queue fills."""
AFTER_S = 5.0
"""Between the end of an overload and the check that all is as before."""
BESIDE = {
    "jpeg-http": "onnx-http",
    "onnx": "jpeg-http",
    "trt": "jpeg-http",
    "torchserve": "onnx-http",
    "typed": "onnx-http",
}
"""Which other route is asked meanwhile: of another server."""
BESIDE_PER_S = 5.0


def rows(every: Mapping[str, Target], *, routes: Sequence[str], seconds: float) -> Iterator[dict[str, Any]]:
    """One row per route and factor.

    `peak`: answers per second in closed loops, just before. `offered`: calls per second that were made; `load_cores`:
    what making them took. `goodput`: right answers per second. p50 and p99 are of those. `refused`: errors by kind;
    `refusal_ms`: their p50 and p99. `beside`: the other route's p50 over its p50 without load, its errors, and which
    share of its calls was answered within the load. `after`: p50 over unloaded, AFTER_S later, and errors. `mib`:
    memory of every service under load. Raises BadSetting.
    """
    if unknown := set(routes) - set(every):
        raise BadSetting(f"unknown route {', '.join(sorted(unknown))}: choose from {', '.join(every)}")
    for name in routes or every:
        target = every[name]
        beside = every[next(other for prefix, other in BESIDE.items() if name.startswith(prefix))]
        looped(target, 1, 1)
        alone = looped(target, 1, seconds)
        calm = offered({beside: BESIDE_PER_S}, seconds)
        callers = max(CALLERS, key=lambda number: peak_of(target, number, seconds))
        for factor in FACTORS:
            peak = peak_of(target, callers, seconds)
            time.sleep(AFTER_S)
            with aside("chaos.overload", edge_of(every), name, factor * peak, seconds) as load:
                assert load.stdout
                load.stdout.readline()  # it is ready, and begins
                memory = gevent.spawn_later(seconds / 2, docker.memory_mib)
                begin = time.monotonic()
                others = offered({beside: BESIDE_PER_S}, seconds)
                seen = json.loads(load.communicate()[0])
            time.sleep(AFTER_S)
            after = looped(target, 1, 2)
            yield {
                "route": name,
                "factor": factor,
                "peak": round(peak, 1),
                "alone_p99_ms": percentile(good(alone), 99),
                **seen,
                "beside": [
                    beside.route.name,
                    times(others, calm),
                    errors(others),
                    round(answered(others, begin, begin + seconds) / BESIDE_PER_S, 2),
                ],
                "after": [times(after, alone), errors(after)],
                "mib": memory.get(),
            }
        target.close()


def peak_of(target: Target, callers: int, seconds: float) -> float:
    """Answers per second to so many callers."""
    begin = time.monotonic() + FIRST_S
    return answered(looped(target, callers, FIRST_S + seconds), begin, begin + seconds)


def main() -> None:
    """One overload: prints a line when it begins, and at its end its part of a row."""
    edge, name, per_s, seconds = sys.argv[1:]
    target = targets(edge)[name]
    looped(target, 1, 0.5)
    print(flush=True)
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    calls = offered({target: float(per_s)}, float(seconds))
    after, lasted = resource.getrusage(resource.RUSAGE_SELF), time.monotonic() - begin
    end = begin + float(seconds)
    accepted, refused = good(calls), [call for call in calls if call.error]
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    row = {
        "offered": round(sum(call.start < end for call in calls) / float(seconds), 1),
        "load_cores": round(cpu_s / lasted, 2),
        "goodput": round(answered(calls, begin, end), 1),
        "p50_ms": percentile(accepted, 50),
        "p99_ms": percentile(accepted, 99),
        "refused": errors(refused),
        "refusal_ms": [percentile(refused, 50), percentile(refused, 99)],
        "texts": sorted({call.text for call in refused})[:10],
    }
    print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main()
