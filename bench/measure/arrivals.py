"""The schedule of an open loop: when requests are due, whatever became of those before them."""

import random
from collections.abc import Iterator


def arrivals(rate: float, start: float, seed: str) -> Iterator[float]:
    """Times at which requests are due, from `start` on: a Poisson process of `rate` per second, without end.

    The same seed gives the same schedule, so that the routes of a block meet the same bursts.
    """
    gaps = random.Random(seed)
    due = start
    while True:
        due += gaps.expovariate(rate)
        yield due
