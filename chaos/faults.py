"""Faults, one at a time, while every route is asked: what its callers and those of other routes see."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from chaos import docker
from chaos.load import WRONG, Call, Target, errors, good, served, steady
from locustfiles.routes import Route

CALM_S, QUIET_S = 5.0, 5.0
"""Of load before a fault; and without a failure after it, for a route to count as recovered."""
HEALED_S = 180.0
HANG_S, DOWN_S, SLOW_S, FULL_S = 20.0, 5.0, 20.0, 15.0
SLOW_CPUS = "0.2"
CPUS = str(float(os.environ.get("CPUS") or 0) or os.cpu_count())
"""Their limit otherwise. Docker cannot take one away again, so without one it is all cores."""
FILL = "head -c 8G /dev/zero >{0}/full 2>/dev/null; ls {0}/full >/dev/null"
EDGE, LOAD = "edge", "locust-master"

Strike = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """What is done to a service. `begin` and `end` are apart by `hold_s` of load."""

    name: str
    service: str
    begin: Strike
    end: Strike = lambda: None
    hold_s: float = 0.0

    def hurts(self, route: Route) -> bool:
        """Whether calls of this route pass the service."""
        return self.service == EDGE or self.service in route.services


PROCESSES: Mapping[str, tuple[str, str]] = {
    "triton": ("triton", "^/\\S+/[t]ritonserver "),
    "torchserve": ("torchserve", "[M]odelServer"),
    "jpeg-http": ("jpeg-http", "[g]ateways.jpeg_http$"),
    "typed-grpc": ("typed-grpc", "[g]ateways.typed_grpc$"),
    EDGE: (EDGE, "^[e]nvoy "),
    LOAD: (LOAD, "[l]ocust "),
    "a model's process in triton": ("triton", "[t]riton_python_backend_stub .*/{model}/"),
    "the worker of torchserve": ("torchserve", "[m]odel_service_worker"),
}
"""What is struck: a service, and its process by the command line. Under a service's own name, the one that answers."""
SERVERS = [name for name, (service, _) in PROCESSES.items() if name == service]


def faults(model: str) -> Iterator[Fault]:
    """All of them, for the served model."""
    processes = {name: (service, pattern.format(model=model)) for name, (service, pattern) in PROCESSES.items()}
    models = {name: one for name, one in processes.items() if name not in (EDGE, LOAD)}
    for name, one in processes.items():
        yield Fault(f"kill -9: {name}", one[0], partial(docker.signal, *one, "KILL"))
    for name in SERVERS:
        stop, start = (partial(_compose, verb, name) for verb in ("stop", "start"))
        yield Fault(f"stop, then start: {name}", name, stop, start, DOWN_S)
    for name, one in models.items():
        stop = partial(docker.signal, *one, "STOP")
        yield Fault(f"hangs for {HANG_S:g} s: {name}", one[0], stop, partial(_resume, *one), HANG_S)
    for name in (name for name in SERVERS if name in models):
        slow, fast = (partial(_limit, name, cores) for cores in (SLOW_CPUS, CPUS))
        yield Fault(f"gets {SLOW_CPUS} cores for {SLOW_S:g} s: {name}", name, slow, fast, SLOW_S)
    for name, folder in [*((name, "/tmp") for name in SERVERS), ("triton", "/dev/shm")]:
        fill, empty = (partial(_run, name, command.format(folder)) for command in (FILL, "rm -f {0}/full"))
        yield Fault(f"{folder} is full for {FULL_S:g} s: {name}", name, fill, empty, FULL_S)


def _resume(service: str, pattern: str) -> None:
    """A health check may have ended the process meanwhile: then there is nothing to resume, or a new one."""
    with suppress(AssertionError, ValueError):
        docker.signal(service, pattern, "CONT")


def _compose(verb: str, service: str) -> None:
    docker.docker("compose", "--progress", "quiet", verb, service)


def _limit(service: str, cpus: str) -> None:
    """The CPU time of its containers, in cores."""
    for one in docker.containers(service):
        docker.docker("update", "--cpus", cpus, one["Id"])


def _run(service: str, command: str) -> None:
    docker.docker("exec", docker.container(service)["Id"], "sh", "-c", command)


def suffered(fault: Fault, routes: Mapping[str, Target], each_per_s: float) -> dict[str, Any]:
    """One fault under so many calls of each route.

    `failed_elsewhere`, of `calls_elsewhere`: calls of the routes that the service has no part in. On its own routes:
    `seen`, the errors by kind; `slowest_error_ms`; `longest_call_ms`, of those that were answered; `recovery_s`, from
    the fault's end to the last failed call; `wrong`, answers with other numbers than before, on all routes.
    """
    docker.wait_until(healthy, "everything healthy", seconds=HEALED_S)
    hurt = {name for name, one in routes.items() if fault.hurts(one.route)}
    with steady(dict.fromkeys(routes.values(), each_per_s), compare=True) as calls:
        time.sleep(CALM_S)
        begun = time.monotonic()
        try:
            fault.begin()
            time.sleep(fault.hold_s)
        finally:
            fault.end()
        ended = time.monotonic()
        _until_quiet(calls, ended, hurt)
    for target in routes.values():
        target.close()  # idle connections of before the fault
    since = [call for call in calls if call.end >= begun]
    mine = [call for call in since if call.route in hurt]
    others = [call for call in since if call.route not in hurt]
    failed = [call for call in mine if call.error]
    return {
        "fault": fault.name,
        "failed_before": errors(call for call in calls if call.end < begun),
        "calls_elsewhere": len(others),
        "failed_elsewhere": errors(others),
        "routes": len(hurt),
        "calls": len(mine),
        "seen": errors(mine),
        "texts": sorted({call.text for call in since if call.error})[:20],
        "slowest_error_ms": max((round(call.ms) for call in failed), default=None),
        "longest_call_ms": max((round(call.ms) for call in good(mine)), default=None),
        "recovery_s": round(max([0.0, *(call.start - ended for call in failed)]), 1) if hurt else None,
        "wrong": sum(call.error == WRONG for call in calls),
    }


def _until_quiet(calls: Sequence[Call], since: float, hurt: set[str]) -> None:
    """Wait until every route has answered and none has failed for QUIET_S. Gives up after HEALED_S."""
    while time.monotonic() < since + HEALED_S:
        time.sleep(0.5)
        now = time.monotonic()
        recent = [call for call in calls if call.end > max(since, now - QUIET_S)]
        answered = {call.route for call in good(recent) if call.start > since}
        if now > since + QUIET_S and hurt <= answered and not errors(recent):
            return


def healthy() -> bool:
    """Whether every container that has a health check is healthy; raises RuntimeError with those that are not."""
    states = [(docker.service_of(one), docker.health(one)) for one in docker.containers()]
    if wrong := sorted(f"{name} is {state}" for name, state in states if state not in ("healthy", "none")):
        raise RuntimeError(", ".join(wrong))
    return bool(states)


def rows(routes: Mapping[str, Target], *, times: int, only: str, rate: float) -> Iterator[dict[str, Any]]:
    """Every fault whose name holds `only`, so many times."""
    for fault in faults(served(routes)):
        for _ in range(times if only in fault.name else 0):
            yield suffered(fault, routes, rate)
