"""Where a row's throughput stops growing with callers or with the batch."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from bench.analysis import statistics
from bench.analysis.statistics import IMAGES_PER_S, Estimate
from bench.measure.measured import Cell
from bench.result import Knee

LEAST = 1.05
"""Growth that counts: below it another caller is not worth having."""
LEVELS = 3
"""Fewer of them say nothing about a curve."""


def knees(found: Iterable[tuple[Cell, Mapping[str, Estimate]]]) -> list[Knee]:
    """Of cells with their estimates: one for each row and each of `users` and `batch`, where enough levels of it were
    measured and all else was equal.

    The knee is the smallest level that no larger one beats by more than LEAST: the ratio's whole interval, taken in the
    same blocks, would have to be above it.
    """
    series: dict[tuple[str, Cell], dict[int, Estimate]] = defaultdict(dict)
    for cell, estimates in found:
        if IMAGES_PER_S in estimates:
            for by, other in (("users", "batch"), ("batch", "users")):
                if getattr(cell, other) == 1:
                    series[by, replace(cell, users=1, batch=1)][getattr(cell, by)] = estimates[IMAGES_PER_S]
    knees = []
    for (by, cell), levels in series.items():
        if len(levels) >= LEVELS:
            at = next(one for one in sorted(levels) if not any(_beats(levels, more, one) for more in levels))
            knees.append(Knee(cell.name, by, at, levels[at].interval, at == max(levels)))  # type: ignore[arg-type]
    return knees


def _beats(levels: Mapping[int, Estimate], more: int, less: int) -> bool:
    grown = statistics.ratio(levels[more], levels[less])
    return more > less and grown is not None and (grown.interval.low or 0) > LEAST
