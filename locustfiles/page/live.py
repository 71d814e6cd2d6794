"""The live numbers of the routes: recorded where the calls are made, put together where the page is served.

    worker:  events.request -> Recorder -> events.report_to_master, every 3 s
    master:  events.worker_report -> Table -> the page (routes_tab.py)

Locust rounds response times (1 ms below 100 ms, then 10 ms); these histograms do not, and are merged without loss.
"""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
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


class Table:
    """The calls of all workers, by route and step."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.refresh: Callable[[], None] = lambda: None
        """Called before reading; a process that makes its calls itself brings them in here."""
        self.reset()

    def reset(self) -> None:
        self._latency: defaultdict[Key, Histogram] = defaultdict(Histogram)
        self._workers: defaultdict[Key, defaultdict[str, Counts]] = defaultdict(lambda: defaultdict(Counter))
        """What each worker has reported."""
        self._recent: deque[tuple[float, str, Key, Counts]] = deque()
        """(arrival time, worker, ...): the reports of the last WINDOW_S, and perhaps older ones."""

    def add(self, worker: str, shares: Iterable[Mapping[str, Any]]) -> None:
        """Add a worker's Recorder.take(); raises ValueError if it is something else."""
        now = self._clock()
        for share in shares:
            key, counts = (share["route"], share["step"]), Counter(share["counts"])
            self._latency[key].merge(share["latency"])
            self._workers[key][worker].update(counts)
            self._recent.append((now, worker, key, counts))
        while self._recent and self._recent[0][0] <= now - WINDOW_S:
            self._recent.popleft()

    def routes(self) -> dict[str, Row]:
        """A row per route that was called, in the order of the first calls.

        In a run with steps a percentile or a rate over all of them would mean nothing, and is None.
        """
        mixed = any(step for _, step in self._workers)
        of_route: defaultdict[str, list[Key]] = defaultdict(list)
        for key in self._workers:
            of_route[key[0]].append(key)
        return {route: self._row(keys, mixed=mixed) for route, keys in of_route.items()}

    def steps(self) -> dict[str, Row]:
        """A row per step of a load shape in which there were calls, by label."""
        return {key[1]: self._row([key]) for key in self._workers if key[1]}

    def _row(self, keys: Sequence[Key], *, mixed: bool = False) -> Row:
        since = self._clock() - WINDOW_S
        total: Counts = Counter()
        recent: defaultdict[str, Counts] = defaultdict(Counter)
        for key in keys:
            for counts in self._workers[key].values():
                total.update(counts)
        for when, worker, key, counts in self._recent:
            if key in keys and when > since:
                recent[worker].update(counts)
        latency, images = self._latency[keys[0]], total["images"]
        return {
            "requests": total["requests"],
            "failures": total["failures"],
            **{
                f"p{percent}_ms": latency.percentile_ms(percent) if latency.count >= least and not mixed else None
                for percent, least in MIN_CALLS.items()
            },
            "images_per_s_now": _rate(recent.values()),
            "images_per_s": None if mixed else _rate(self._workers[keys[0]].values()),
            "sent_per_image": total["sent"] / images if images else None,
            "received_per_image": total["received"] / images if images else None,
            "connections": total["connections"],
        }


def _rate(workers: Iterable[Counts]) -> float | None:
    """Images per second of all workers: the sum of what each made in its own time."""
    rates = [counts["timed_images"] / counts["timed_us"] * 1e6 for counts in workers if counts["timed_us"]]
    return sum(rates) if rates else None
