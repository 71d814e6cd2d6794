"""Where throughput stops growing: at the first level that no larger one beats by more than LEAST."""

from collections.abc import Mapping, Sequence

import pytest

from bench.analysis.knee import knees
from bench.analysis.statistics import IMAGES_PER_S, Estimate
from bench.measure.measured import Cell

SPREAD = (0.98, 1.0, 1.02, 1.01, 0.99, 1.0)
"""Of a cell's blocks."""


def measured(
    rates: Mapping[int, float], by: str = "users", spread: Sequence[float] = SPREAD
) -> list[tuple[Cell, dict[str, Estimate]]]:
    return [
        (Cell("a", "a", **{by: level}), {IMAGES_PER_S: Estimate({n: rate * s for n, s in enumerate(spread)})})  # type: ignore[arg-type]
        for level, rate in rates.items()
    ]


@pytest.mark.parametrize(
    ("rates", "at", "still"),
    [
        ({1: 100, 2: 190, 4: 200, 8: 201}, 4, False),  # 4 beats 2 by 5.3 %
        ({1: 100, 2: 200, 4: 205, 8: 150}, 2, False),  # 2.5 % is not worth two callers, and more of them lose
        ({1: 100, 2: 200, 4: 400}, 4, True),
        ({8: 200, 1: 200, 2: 199}, 1, False),  # in any order
    ],
)
def test_it_is_the_first_that_no_larger_one_beats(rates: Mapping[int, float], at: int, still: bool) -> None:
    """By the same blocks: what slows a whole block is in both."""
    for by in ("users", "batch"):
        (found,) = knees(measured(rates, by))
        assert (found.name, found.by, found.at, found.still) == ("a", by, at, still)
        assert found.per_second.low
        assert found.per_second.low < rates[at] < (found.per_second.high or 0)


def test_two_levels_are_no_curve_and_noise_is_no_growth() -> None:
    """Nor are cells of several settings one curve."""
    assert knees(measured({1: 100, 2: 200})) == []
    noisy = (0.5, 1.5, 1.0, 0.7, 1.3, 1.0)
    wild = [*measured({1: 100}, spread=noisy), *measured({2: 110, 4: 120}, spread=noisy[::-1])]
    assert knees(wild)[0].at == 1
