"""The plan of a run: its cells, the settings, number and order of visits, and the schedule of an open loop."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from bench.measure.launcher import Window
from bench.measure.measured import Cell
from locustfiles.clients.policy import PUBLISHED
from locustfiles.study_routes import fiveway

FAIR, PUBLISHED_METHOD = "fair", "published"

FULL_BLOCKS, FULL_WINDOW = 24, Window(seconds=0.8, warm_s=0.4)
QUICK_BLOCKS, QUICK_WINDOW = 6, Window(seconds=0.5, warm_s=0.3)
"""For batch 1; see scaled(). Many short blocks: a machine is faster or slower for seconds at a time, so two visits in
the same second differ less than two means over ten (docs/instrument.md)."""
START_S = 0.4
"""Seconds of a visit besides its warm-up and window, for the estimate of the time left."""

# The published study (published/README.md): 30 calls serial, 60 concurrent, after 5 that its metrics window counts too.
PUBLISHED_SERIAL, PUBLISHED_CONCURRENT, PUBLISHED_WARM = 30, 60, 5
PUBLISHED_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Plan:
    """One run."""

    study: str
    cells: tuple[Cell, ...]
    blocks: int
    window: Callable[[Cell], Window]
    seed: int
    method: str = FAIR
    most_calls: int | None = None
    """After so many the run ends."""

    def order(self, block: int) -> list[Cell]:
        """The cells in the order of this block (from 1): drawn by chance, or as they are in the published method.

        Cells that are compared, which differ in their row or target alone, are visited one after the other: the machine
        changes less between them.
        """
        if self.method != FAIR:
            return list(self.cells)
        chance = random.Random(f"{self.seed}/{block}")
        compared: dict[Cell, list[Cell]] = {}
        for cell in chance.sample(self.cells, len(self.cells)):
            compared.setdefault(replace(cell, name="", route="", target=""), []).append(cell)
        return [cell for cells in compared.values() for cell in cells]

    @property
    def seconds(self) -> float:
        """About how long the run takes."""
        windows = [self.window(cell) for cell in self.cells]
        return self.blocks * sum(window.seconds + window.warm_s + START_S for window in windows)


def matrix(base: Cell, batches: Sequence[int], concurrency: Sequence[int]) -> list[Cell]:
    """The published matrix for one route: every batch with one user, every number of users at batch 1."""
    return [replace(base, batch=batch, users=users) for batch, users in fiveway.matrix(batches, concurrency)]


def scaled(window: Window, batch: int) -> Window:
    """A longer window for larger batches, whose calls are longer: twice as long for the largest."""
    return replace(window, seconds=window.seconds * (1 + (batch - 1) / (fiveway.BATCHES[-1] - 1)))


def published_window(cell: Cell) -> Window:
    """So many calls as the published study made."""
    if cell.users > 1:
        return Window(PUBLISHED_LIMIT_S, 0.0, PUBLISHED_CONCURRENT)
    return Window(PUBLISHED_LIMIT_S, 0.0, PUBLISHED_SERIAL, PUBLISHED_WARM)


def published(cells: Sequence[Cell], seed: int) -> Plan:
    """The published method on these cells: cold clients, each cell once, route after route."""
    cold = tuple(replace(cell, policy=PUBLISHED) for cell in cells)
    return Plan("fiveway", cold, 1, published_window, seed, PUBLISHED_METHOD)


def arrivals(rate: float, start: float, seed: str) -> Iterator[float]:
    """Times at which requests of an open loop are due, from `start` on: a Poisson process of `rate` per second.

    The same seed gives the same schedule, so that the routes of a block meet the same bursts.
    """
    gaps = random.Random(seed)
    due = start
    while True:
        due += gaps.expovariate(rate)
        yield due
