"""The live numbers of the routes: recorded where the calls are made, put together where the page is served.

    worker:  events.request -> Recorder -> events.report_to_master, every 3 s
    master:  events.worker_report -> Table -> the page (routes_tab.py)

Locust rounds response times (1 ms below 100 ms, then 10 ms); these histograms do not, and are merged without loss.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from locustfiles.recorder import MIN_CALLS, Histogram

WINDOW_S = 10.0

Key = tuple[str, str]
"""(route, step of a load shape or "")."""
Counts = Counter[str]
"""Of some calls: `requests`, answered or failed as Locust counts them; `failures` of these; `images` of answered calls,
as are the bytes `sent` and `received`; `connections` opened by them, and in a step by its warm-up too. Images per
second is `timed_images` in `timed_us`: from one answer to the last, without the images of the one."""
Row = dict[str, float | None]
"""The numbers of one row by the names of routes_tab.COLUMNS; None where too few calls make none."""


class Recorder:
    """One process's calls, by route and step, since they were last taken."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._step = self._counted_for = ""
        self.reset()

    def reset(self) -> None:
        self._new: defaultdict[Key, tuple[Counts, Histogram]] = defaultdict(lambda: (Counter(), Histogram()))
        self._last_answer: dict[Key, float] = {}

    def begin(self, step: str, *, counts: bool) -> None:
        """From now on calls belong to this step; in its warm-up (`counts` is false) only their connections do."""
        self._step, self._counted_for = step, step if counts else ""
        self._last_answer.clear()  # no calls are made between steps, so that time counts for none

    def record(
        self, name: str, response_time: float, response_length: int, exception: Any, context: Any, **_: Any
    ) -> None:
        """Locust's request event, as RouteUser fires it: the time in ms, unrounded."""
        self._new[name, self._step][0]["connections"] += context["connections"]
        key = name, self._counted_for
        counts, latency = self._new[key]
        counts["requests"] += 1
        if exception is not None:
            counts["failures"] += 1
            return
        now = self._clock()
        if key in self._last_answer:
            counts["timed_images"] += context["images"]
            counts["timed_us"] += round((now - self._last_answer[key]) * 1e6)
        self._last_answer[key] = now
        counts["images"] += context["images"]
        counts["sent"] += context["sent"]
        counts["received"] += response_length
        latency.record(response_time / 1000)

    def take(self) -> list[dict[str, Any]]:
        """The calls since the last take(), in types that msgpack knows."""
        shares = [
            {"route": route, "step": step, "latency": latency.encode(), "counts": dict(counts)}
            for (route, step), (counts, latency) in self._new.items()
        ]
        self._new.clear()
        return shares


@dataclass(slots=True)
class _Worker:
    """One worker's reports on a route and step."""

    total: Counts = field(default_factory=Counter)
    recent: list[tuple[float, Counts]] = field(default_factory=list)
    """(arrival time, report): the reports of the last WINDOW_S."""


@dataclass(slots=True)
class _Entry:
    latency: Histogram = field(default_factory=Histogram)
    workers: defaultdict[str, _Worker] = field(default_factory=lambda: defaultdict(_Worker))


class Table:
    """The calls of all workers, by route and step."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._entries: defaultdict[Key, _Entry] = defaultdict(_Entry)
        self.refresh: Callable[[], None] = lambda: None
        """Called before reading; a process that makes its calls itself brings them in here."""

    def reset(self) -> None:
        self._entries.clear()

    def add(self, worker: str, shares: Iterable[Mapping[str, Any]]) -> None:
        """Add a worker's Recorder.take(); raises ValueError if it is something else."""
        now = self._clock()
        for share in shares:
            entry = self._entries[share["route"], share["step"]]
            entry.latency.merge(share["latency"])
            about, counts = entry.workers[worker], Counter(share["counts"])
            about.total.update(counts)
            about.recent = [said for said in about.recent if said[0] > now - WINDOW_S] + [(now, counts)]

    def routes(self) -> dict[str, Row]:
        """A row per route that was called, in the order of the first calls.

        In a run with steps a percentile or a rate over all of them would mean nothing, and is None.
        """
        mixed = any(step for _, step in self._entries)
        rows = defaultdict(list)
        for (route, _), entry in self._entries.items():
            rows[route].append(entry)
        return {route: self._row(entries, mixed=mixed) for route, entries in rows.items()}

    def steps(self) -> dict[str, Row]:
        """A row per step of a load shape in which there were calls, by label."""
        return {step: self._row([entry]) for (_, step), entry in self._entries.items() if step}

    def _row(self, entries: list[_Entry], *, mixed: bool = False) -> Row:
        since = self._clock() - WINDOW_S
        total: Counts = Counter()
        recent: defaultdict[str, Counts] = defaultdict(Counter)
        for entry in entries:
            for name, worker in entry.workers.items():
                total.update(worker.total)
                for when, counts in worker.recent:
                    if when > since:
                        recent[name].update(counts)
        latency, images = entries[0].latency, total["images"]
        return {
            "requests": total["requests"],
            "failures": total["failures"],
            **{
                f"p{percent}_ms": latency.percentile_ms(percent) if latency.count >= least and not mixed else None
                for percent, least in MIN_CALLS.items()
            },
            "images_per_s_now": _rate(recent.values()),
            "images_per_s": None if mixed else _rate(worker.total for worker in entries[0].workers.values()),
            "sent_per_image": total["sent"] / images if images else None,
            "received_per_image": total["received"] / images if images else None,
            "connections": total["connections"],
        }


def _rate(workers: Iterable[Counts]) -> float | None:
    """Images per second of all workers: the sum of what each made in its own time."""
    rates = [counts["timed_images"] / counts["timed_us"] * 1e6 for counts in workers if counts["timed_us"]]
    return sum(rates) if rates else None
