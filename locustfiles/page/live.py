"""The live numbers of the routes: recorded where the calls are made, put together where the page is served.

    worker:  events.request -> Recorder -> events.report_to_master, every 3 s
    master:  events.worker_report -> Table -> the page (routes_tab.py)

Locust rounds response times (1 ms below 100 ms, then 10 ms); these histograms do not, and are merged without loss.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from locustfiles.recorder import MIN_CALLS, Histogram

if TYPE_CHECKING:
    from locust.env import Environment
    from locust.event import EventHook

REPORT = "fiveway"
"""The key of a worker's shares in its report to the master."""
STEP = "fiveway-step"
"""The message that tells the workers which step of a load shape begins: {"step": its label or "", "counts": bool}."""

WINDOW_S = 10.0

Key = tuple[str, str]
"""(route, step of a load shape or "")."""


@dataclass(slots=True)
class Counts:
    """What was counted of some calls. A call is a request, answered or failed: Locust counts the same."""

    requests: int = 0
    failures: int = 0
    images: int = 0
    """Of answered calls, as are the bytes."""
    sent: int = 0
    received: int = 0
    connections: int = 0
    """Opened by these calls, and in a step by those of its warm-up too."""
    timed_images: int = 0
    timed_s: float = 0.0
    """Images per second is the quotient: from one answer to the last, without the images of the one."""

    def add(self, other: "Counts") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Recorder:
    """One process's calls, by route and step, since they were last taken."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._step = ""
        self._counts_for_step = False
        self.reset()

    def reset(self) -> None:
        self._new: dict[Key, tuple[Counts, Histogram]] = {}
        self._last_answer: dict[Key, float] = {}

    def begin(self, step: str, *, counts: bool) -> None:
        """From now on calls belong to this step; in its warm-up (`counts` is false) only their connections do."""
        self._step = step
        self._counts_for_step = counts
        self._last_answer.clear()  # nobody calls between steps: no time of any

    def record(
        self,
        response_time: float,
        response_length: int,
        exception: BaseException | None,
        context: Mapping[str, Any],
        **_: object,
    ) -> None:
        """Locust's request event, as RouteUser fires it: the time in ms, unrounded."""
        route = context["route"]
        self._of((route, self._step))[0].connections += context["connections"]
        key = (route, self._step if self._counts_for_step else "")
        counts, latency = self._of(key)
        counts.requests += 1
        if exception is not None:
            counts.failures += 1
            return
        now = self._clock()
        if key in self._last_answer:
            counts.timed_images += context["images"]
            counts.timed_s += now - self._last_answer[key]
        self._last_answer[key] = now
        counts.images += context["images"]
        counts.sent += context["sent"]
        counts.received += response_length
        latency.record(response_time / 1000)

    def take(self) -> list[dict[str, Any]]:
        """What is new, in words that msgpack knows; each is handed out once."""
        new, self._new = self._new, {}
        return [
            {"route": route, "step": step, "latency": latency.encode(), "counts": asdict(counts)}
            for (route, step), (counts, latency) in new.items()
        ]

    def _of(self, key: Key) -> tuple[Counts, Histogram]:
        if key not in self._new:
            self._new[key] = Counts(), Histogram()
        return self._new[key]


@dataclass(frozen=True, slots=True)
class Row:
    """The numbers of one row; None where too few calls make none."""

    requests: int
    failures: int
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    images_per_s_now: float | None
    """Over the last WINDOW_S or so: workers report every 3 s."""
    images_per_s: float | None
    """Over all of the run, or of the step."""
    sent_per_image: float | None
    """Bytes of the request bodies."""
    received_per_image: float | None
    connections: int


@dataclass(slots=True)
class _Worker:
    """What one worker has said of a route and step."""

    counts: Counts = field(default_factory=Counts)
    recent: deque[tuple[float, Counts]] = field(default_factory=deque)
    """(when it came, what it said): not older than WINDOW_S."""


@dataclass(slots=True)
class _Entry:
    latency: Histogram = field(default_factory=Histogram)
    workers: dict[str, _Worker] = field(default_factory=dict)
    percentiles: tuple[float | None, ...] | None = None
    """Kept until there are new calls: they cost 3 ms."""


class Table:
    """The calls of all workers, by route and step."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: dict[Key, _Entry] = {}
        self.refresh: Callable[[], None] = lambda: None
        """Called before reading; a process that makes its calls itself brings them in here."""

    def reset(self) -> None:
        self._entries.clear()

    def add(self, worker: str, shares: Iterable[Mapping[str, Any]]) -> None:
        """What a worker's Recorder.take() gave; raises ValueError when it is something else."""
        for share in shares:
            entry = self._entries.setdefault((share["route"], share["step"]), _Entry())
            entry.latency.merge(share["latency"])
            entry.percentiles = None
            counts = Counts(**share["counts"])
            about = entry.workers.setdefault(worker, _Worker())
            about.counts.add(counts)
            about.recent.append((self._clock(), counts))
            self._forget_old(about)

    def stepped(self) -> bool:
        """Did a load shape step through this run?"""
        return any(step for _, step in self._entries)

    def routes(self) -> dict[str, Row]:
        """A row per route that was called, in the order of the first calls.

        In a run with steps a percentile or a rate over all of them would mean nothing, and is None.
        """
        names = dict.fromkeys(route for route, _ in self._entries)
        stepped = self.stepped()
        return {name: self._row([key for key in self._entries if key[0] == name], mixed=stepped) for name in names}

    def steps(self) -> dict[str, Row]:
        """A row per step of a load shape in which there were calls, by label."""
        return {step: self._row([key]) for key in self._entries if (step := key[1])}

    def _row(self, keys: Iterable[Key], *, mixed: bool = False) -> Row:
        entries = [self._entries[key] for key in keys]
        total = Counts()
        recent: dict[str, list[Counts]] = {}
        for entry in entries:
            for name, worker in entry.workers.items():
                total.add(worker.counts)
                self._forget_old(worker)
                recent.setdefault(name, []).extend(counts for _, counts in worker.recent)
        p50, p90, p99 = _percentiles(entries[0]) if not mixed else (None, None, None)
        return Row(
            requests=total.requests,
            failures=total.failures,
            p50_ms=p50,
            p90_ms=p90,
            p99_ms=p99,
            images_per_s_now=_rate(recent.values()),
            images_per_s=None if mixed else _rate([worker.counts] for worker in entries[0].workers.values()),
            sent_per_image=total.sent / total.images if total.images else None,
            received_per_image=total.received / total.images if total.images else None,
            connections=total.connections,
        )

    def _forget_old(self, worker: _Worker) -> None:
        while worker.recent and worker.recent[0][0] <= self._clock() - WINDOW_S:
            worker.recent.popleft()


def _percentiles(entry: _Entry) -> tuple[float | None, ...]:
    if entry.percentiles is None:
        calls = entry.latency.count
        entry.percentiles = tuple(
            entry.latency.percentile_ms(percent) if calls >= least else None for percent, least in MIN_CALLS.items()
        )
    return entry.percentiles


def _rate(workers: Iterable[Iterable[Counts]]) -> float | None:
    """Images per second of all workers: the sum of what each made in its own time."""
    rates = []
    for worker in workers:
        total = Counts()
        for counts in worker:
            total.add(counts)
        if total.timed_s > 0:
            rates.append(total.timed_images / total.timed_s)
    return sum(rates) if rates else None


def on(event: "EventHook", listener: Callable[..., None]) -> None:
    """Have Locust call the listener when the event is fired."""
    event.add_listener(listener)  # type: ignore[no-untyped-call]


def listen(environment: "Environment") -> Table:
    """Have this process do its part; the table stays empty in a worker.

    Numbers begin anew when Locust's own do: with a new test, and when statistics are reset.
    """
    # This import patches the standard library; recording and adding up do without.
    from locust.runners import MasterRunner, WorkerRunner

    table = Table()
    events = environment.events
    if isinstance(environment.runner, MasterRunner):
        on(events.worker_report, lambda client_id, data: table.add(client_id, data.get(REPORT, ())))
    else:
        recorder = Recorder()
        on(events.request, recorder.record)
        on(events.test_start, lambda **_: recorder.reset())
        assert environment.runner
        environment.runner.register_message(STEP, lambda msg, **_: recorder.begin(**msg.data))
        if isinstance(environment.runner, WorkerRunner):
            on(events.report_to_master, lambda data, **_: data.update({REPORT: recorder.take()}))
        else:
            on(events.reset_stats, lambda **_: recorder.reset())
            table.refresh = lambda: table.add("local", recorder.take())
    on(events.test_start, lambda **_: table.reset())
    on(events.reset_stats, lambda **_: table.reset())
    return table
