"""The plan of a run: its cells, the settings, number and order of visits, and the schedule of an open loop."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from bench.measure.launcher import Window
from bench.measure.measured import Cell
from locustfiles.clients.policy import PUBLISHED
from locustfiles.study_routes import fiveway

FAIR, PUBLISHED_METHOD = "fair", "published"

FULL_BLOCKS, FULL_S = 24, 1.0
QUICK_BLOCKS, QUICK_S = 7, 0.75
"""How long all windows of a visit at batch 1 are together; see in_turns()."""
TURN_S, WARM_S = 0.25, 0.2
"""A machine is faster or slower for a second at a time, so short windows that take turns have more in common than long
ones (docs/instrument.md)."""
START_S, BETWEEN_S = 0.35, 0.08
"""Seconds of a visit besides its warm-up and windows, and between two windows, for the estimate of the time left."""

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
    together: Sequence[str] = ("name", "route", "target")
    """Factors: cells that differ in these alone are compared."""

    def order(self, block: int) -> list[list[Cell]]:
        """The cells in the order of this block (from 1): drawn by chance, or as they are in the published method.

        Cells that are compared are visited together: their windows come in turns.
        """
        if self.method != FAIR:
            return [[cell] for cell in self.cells]
        chance = random.Random(f"{self.seed}/{block}")
        compared: dict[tuple[Any, ...], list[Cell]] = {}
        for cell in chance.sample(self.cells, len(self.cells)):
            alike = tuple(value for factor, value in asdict(cell).items() if factor not in self.together)
            compared.setdefault(alike, []).append(cell)
        return list(compared.values())

    @property
    def seconds(self) -> float:
        """About how long the run takes."""
        windows = [self.window(cell) for cell in self.cells]
        return self.blocks * sum(
            START_S + window.warm_s + window.rounds * (window.seconds + BETWEEN_S) for window in windows
        )


def matrix(base: Cell, batches: Sequence[int], concurrency: Sequence[int]) -> list[Cell]:
    """The published matrix for one route: every batch with one user, every number of users at batch 1."""
    return [replace(base, batch=batch, users=users) for batch, users in fiveway.matrix(batches, concurrency)]


def in_turns(seconds: float, cell: Cell) -> Window:
    """Windows of TURN_S that are so long together. Calls of more callers and of larger batches are longer: for 16
    callers and for batch 32 all windows are longer by half, and for that batch each is four times as long."""
    batch, users = (cell.batch - 1) / (fiveway.BATCHES[-1] - 1), (cell.users - 1) / (fiveway.CONCURRENCY[-1] - 1)
    seconds *= 1 + max(batch, users) / 2
    rounds = max(1, round(seconds / (TURN_S * (1 + max(3 * batch, users / 2)))))
    return Window(seconds / rounds, WARM_S, rounds=rounds)


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
