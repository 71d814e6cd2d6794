"""The users of one cell, and the meter of their process, which starts and stops them and records their calls."""

import itertools
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import gevent
from gevent.event import Event

from bench.measure import split
from bench.measure.measured import RAMP, Cell, timed_ms
from bench.measure.plan import arrivals
from locustfiles import settings
from locustfiles.clients import Answer
from locustfiles.recorder import Histogram
from locustfiles.study_routes import WAYS
from locustfiles.user import Call, RouteUser

LATE_S = 0.001
"""Open loop: a start that is later than this had to wait for a user."""


class CellUser(RouteUser):
    """A user that calls while the window is open, waits otherwise, and reports to its process's Meter."""

    abstract = True
    meter: ClassVar["Meter"]
    chosen: ClassVar[settings.Settings]

    def choose(self) -> settings.Settings:
        return self.chosen

    def turn(self) -> float | None:
        return self.meter.turn()

    def report(self, call: Call) -> None:
        self.meter.add(call)


class Meter:
    """Records the calls of one load process in one window after the other. go() opens a window; `idle` is set when all
    users wait again after it.

    After `warm_most` calls of the warm-up its users wait.
    """

    def __init__(self, cell: Cell, seed: str, warm_most: int | None = None) -> None:
        self.idle = Event()
        self.users = 0
        """The number of users in this process, known once they all run."""
        self._cell = cell
        self._seed = seed
        self._gate = Event()
        self._gate.set()
        self._waiting = 0
        self._warm_calls: Counter[int] = Counter()
        self._warm_most = warm_most
        self._recording = False
        self._windows = 0
        self._schedule: Iterator[float] | None = None
        self._calls_left: int | None = None
        self._gathered = 0
        self._together = Event()
        self._answer: Answer | None = None

    def turn(self) -> float | None:
        """Wait for the gate. In an open loop wait for the next scheduled start too, and return it."""
        if self._cell.gather:
            self._gather()
            return None
        while True:
            if not self._gate.is_set():
                self._waiting += 1
                if self._waiting == self.users:
                    self.idle.set()
                self._gate.wait()
                self._waiting -= 1
            if self._calls_left is not None:
                if not self._calls_left:
                    self._gate.clear()
                    continue
                self._calls_left -= 1
            if self._schedule is None:
                return None
            due = next(self._schedule)
            if due >= self._end:
                self._gate.clear()
                continue
            early = due - time.perf_counter()
            if early > 0:
                gevent.sleep(early)
            elif -early > LATE_S:
                self._missed += 1
            return due

    def _gather(self) -> None:
        """Wait until all users of the cell have arrived, and then together for the gate. All of them are in this
        process. If the gate let only some through, both groups would wait for each other.
        """
        self._gathered += 1
        if self._gathered < self._cell.users:
            self._together.wait()
            return
        self._gathered = 0
        if not self._gate.is_set():
            self._waiting = self._cell.users
            self.idle.set()
            self._gate.wait()
            self._waiting = 0
        self._together.set()
        self._together = Event()

    def warm(self, calls: int) -> bool:
        """Whether every user has made so many calls."""
        made = self._warm_calls
        return len(made) == self.users and min(made.values()) >= calls

    def hold(self) -> None:
        """Close the gate: users finish their calls; `idle` is set when all of them wait."""
        self.idle.clear()
        self._gate.clear()
        if self._waiting == self.users:
            self.idle.set()

    def go(self, seconds: float, calls: int | None) -> None:
        """Open the gate for so long, or for so many calls in all, and record."""
        self._windows += 1
        self._latency = Histogram()
        self._steady_requests = self._sum_s = 0.0
        self._requests = self._failures = self._missed = 0
        self._errors: Counter[str] = Counter()
        self._stages_ms: defaultdict[str, float] = defaultdict(float)
        self._calls_left = calls
        self._cpu = time.process_time()
        self._begin = time.perf_counter()
        # A gather counts whole, however long: its first calls end early, and part of it would look faster.
        self._end = math.inf if self._cell.gather else self._begin + seconds
        # A window of so many calls is used as the published comparisons use theirs: ramp and tail included. That all
        # calls begin together is what a gather is: it has no ramp.
        self._steady_from = self._begin if calls or self._cell.gather else self._begin + RAMP * seconds
        if self._cell.rate is not None:
            seed = f"{self._seed}/{self._windows}"
            self._schedule = arrivals(self._cell.rate * self.users / self._cell.users, self._begin, seed)
        self._recording = True
        self.idle.clear()
        self._gate.set()
        if calls is None:
            gevent.spawn_later(seconds, self.hold)

    def add(self, call: Call) -> None:
        """One call is over."""
        if not self._recording:
            self._warm_calls[id(gevent.getcurrent())] += 1  # a user is a greenlet
            if self._warm_calls.total() == self._warm_most:
                self._gate.clear()
            return
        if call.error is not None:
            self._failures += 1
            self._errors[str(call.error)] += 1
            return
        elapsed = call.end - call.start
        self._answer = call.answer
        self._requests += 1
        self._sum_s += elapsed
        for name, ms in split.stages_of(call.answer.headers).items():
            self._stages_ms[name] += ms
        if self._steady_from <= call.start < self._end:
            self._latency.record(elapsed)
        inside = min(call.end, self._end) - max(call.start, self._steady_from)
        self._steady_requests += max(0.0, inside) / elapsed

    def share(self) -> dict[str, Any]:
        """This process's share of the Visit; sums where the Visit has means."""
        wall = time.perf_counter() - self._begin
        cpu = time.process_time() - self._cpu
        return {
            "latency": self._latency.encode(),
            "steady_s": min(self._end, self._begin + wall) - self._steady_from,
            "counted_s": wall,
            "steady_requests": self._steady_requests,
            "requests": self._requests,
            "failures": self._failures,
            "errors": dict(self._errors.most_common(20)),
            "sum_ms": self._sum_s * 1e3,
            "stages_ms": dict(self._stages_ms),
            "missed": self._missed,
            "unanswered": len(left := self._left()),
            "oldest_unanswered_s": self._end - left[0] if left else 0.0,
            "client_cpu": cpu / wall,
            "cpu_ms": cpu * 1e3,
            "decode_ms": self._decode_ms(),
        }

    def _left(self) -> list[float]:
        """Open loop: when the calls were due that no user was free for until the window closed."""
        return list(itertools.takewhile(lambda due: due < self._end, self._schedule or ()))

    def _decode_ms(self) -> float | None:
        """Median time to read the window's last answer."""
        try:
            return timed_ms(partial(WAYS[self._cell.route].format.read, self._answer)) if self._answer else None
        except (ValueError, LookupError, TypeError):  # no embeddings: a model that takes tensors
            return None
