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
    return [_knee(cell.name, by, levels) for (by, cell), levels in series.items() if len(levels) >= LEVELS]


def _knee(name: str, by: str, levels: Mapping[int, Estimate]) -> Knee:
    ordered = sorted(levels)
    at = next(
        level
        for place, level in enumerate(ordered)
        if not any(_beats(levels[more], levels[level]) for more in ordered[place + 1 :])
    )
    return Knee(name, by, at, levels[at].interval, at == ordered[-1])  # type: ignore[arg-type]


def _beats(more: Estimate, less: Estimate) -> bool:
    grown = statistics.ratio(more, less)
    low = grown.interval.low if grown else None
    return low is not None and low > LEAST
