"""The load: calls on a schedule or in closed loops, each kept with its outcome."""

import itertools
import math
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import gevent
import numpy as np
from gevent.pool import Pool
from numpy.typing import NDArray

from locustfiles.answers import WrongAnswer
from locustfiles.calls import check_of, requests_of
from locustfiles.clients import CallError, Client
from locustfiles.routes import ROUTES, Route
from locustfiles.settings import Settings, fit, parse

WRONG = "wrong answer"
MOST_AT_ONCE = 2_000
"""Calls of one route without an answer. A call that is due beyond that is not made, and counts as NOT_MADE."""
NOT_MADE = "not made"
TOLERANCE = 0.02
"""How far an answer's numbers may be from the first answer's to the same photo: other batches round otherwise."""


@dataclass(frozen=True, slots=True)
class Call:
    """Times are in seconds on time.monotonic's clock."""

    route: str
    start: float
    end: float
    error: str = ""
    """What the caller saw, without what differs from call to call: `HTTP 503`, `UNAVAILABLE`; empty: a right answer."""
    text: str = ""

    @property
    def ms(self) -> float:
        return (self.end - self.start) * 1e3


class Target:
    """A route under load, and its idle connections."""

    def __init__(self, route: Route, chosen: Settings) -> None:
        # Not above: Locust patches the standard library of whoever imports it.
        from locustfiles.user import connect

        self._connect = partial(connect, route, chosen)
        self.route, self.chosen = route, chosen
        self.payloads = requests_of(route, chosen)
        self._check = check_of(route, chosen)
        self._turn = itertools.count()
        self._idle: list[Client] = []
        self._known: dict[int, NDArray[np.float64]] = {}
        self.under_way = 0

    def call(self, *, compare: bool = False) -> Call:
        """Send the next request. `compare`: its answer must be the first one's to the same photo."""
        start = time.monotonic()
        if self.under_way >= MOST_AT_ONCE:
            return Call(self.route.name, start, start, NOT_MADE)
        self.under_way += 1
        number = next(self._turn) % len(self.payloads)
        payload = self.payloads[number]
        client = self._idle.pop() if self._idle else self._connect()
        error = text = ""
        try:
            answer = client.send(payload)
            end = time.monotonic()
            self._check(answer, payload.images)
            if compare:
                read = np.asarray(self.route.format.read(answer), np.float64)
                first = self._known.setdefault(number, read)
                if not np.allclose(read, first, rtol=TOLERANCE, atol=TOLERANCE):
                    raise WrongAnswer("other numbers than before")
        except CallError as failed:
            end, text = time.monotonic(), str(failed)
            error = text.partition(":")[0]
        except WrongAnswer as failed:
            end, error, text = time.monotonic(), WRONG, str(failed)
        finally:
            self.under_way -= 1
        self._idle.append(client)
        return Call(self.route.name, start, end, error, text)

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()


def targets(edge: str) -> dict[str, Target]:
    """By name, the routes that can ask the served model. `edge`: host:port. Raises BadSetting if there is none."""
    values = {"batch": 1, "photo": "224x224", "target": "edge", "policy": "pooled", "host": f"http://{edge}"}
    chosen = parse(values, [])
    return {name: Target(ROUTES[name], chosen) for name in fit(ROUTES, chosen.serving)}


def served(routes: Mapping[str, Target]) -> str:
    """The model that they ask."""
    return next(iter(routes.values())).chosen.serving.model


def edge_of(routes: Mapping[str, Target]) -> str:
    """host:port of the edge that they ask."""
    return next(iter(routes.values())).chosen.host


def aside(module: str, *arguments: object) -> subprocess.Popen[str]:
    """A process of this module, which gives way to the other callers: it would be on another machine."""
    command = ["nice", "-n", "19", sys.executable, "-m", module, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@contextmanager
def steady(rates: Mapping[Target, float], *, compare: bool = False) -> Iterator[list[Call]]:
    """Open loops with these calls per second until the body ends, and then until the last answer. Yields the finished
    calls."""
    calls, pool, begin, end = list[Call](), Pool(), time.monotonic(), math.inf

    def schedule(target: Target, per_s: float, first: float) -> None:
        for turn in itertools.count():
            due = begin + (first + turn) / per_s
            gevent.sleep(max(0.0, due - time.monotonic()))
            if due >= end:
                return
            pool.spawn(lambda: calls.append(target.call(compare=compare)))

    schedules = [gevent.spawn(schedule, *one, number / len(rates)) for number, one in enumerate(rates.items())]
    try:
        yield calls
    finally:
        end = time.monotonic()
        gevent.joinall(schedules)
        pool.join()


def offered(rates: Mapping[Target, float], seconds: float) -> list[Call]:
    """Open loops with these calls per second, for so long; until the last answer."""
    with steady(rates) as calls:
        gevent.sleep(seconds)
    return calls


def looped(target: Target, callers: int, seconds: float) -> list[Call]:
    """Closed loops: each caller's next request follows its answer."""
    calls, end = list[Call](), time.monotonic() + seconds

    def caller() -> None:
        while time.monotonic() < end:
            calls.append(target.call())

    gevent.joinall([gevent.spawn(caller) for _ in range(callers)])
    return calls


def answered(calls: Iterable[Call], since: float, until: float) -> float:
    """Right answers per second between two times."""
    return sum(since <= call.end < until for call in good(calls)) / (until - since)


def good(calls: Iterable[Call]) -> list[Call]:
    return [call for call in calls if not call.error]


def errors(calls: Iterable[Call]) -> dict[str, int]:
    """What the callers saw instead of an answer, and how often."""
    return dict(Counter(call.error for call in calls if call.error).most_common())


def percentile(calls: Sequence[Call], percent: float) -> float | None:
    """In ms; None of nothing."""
    return round(float(np.percentile([call.ms for call in calls], percent)), 1) if calls else None


def times(calls: Sequence[Call], calm: Sequence[Call]) -> float | None:
    """How many times as long calls take, by their p50."""
    now, then = percentile(good(calls), 50), percentile(good(calm), 50)
    return round(now / then, 2) if now and then else None
