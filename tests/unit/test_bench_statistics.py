"""Estimates and intervals of the bench, against exact percentiles, scipy, and runs whose truth is known."""

from collections.abc import Sequence

import numpy as np
import pytest
import scipy.stats  # type: ignore[import-untyped]
from numpy.typing import NDArray

from bench.analysis import statistics
from bench.analysis.statistics import IMAGES_PER_S, Estimate, Window
from bench.figures import digits, figure
from bench.measure.measured import Visit
from bench.result import Interval
from tests.unit.bench_runs import encoded

P50 = "p50_ms"
SIMULATED = 200
RESAMPLES = 200
# Blocks, the visits' standard deviation, and the drift from block to block, on the log scale. Calls spread by 10 %.
NULLS = [(3, 0.05, 0.1), (4, 0.04, 0.0), (6, 0.04, 0.05)]


def window(block: int, latencies_ms: NDArray[np.float64]) -> Window:
    """One user's closed loop with exactly these latencies."""
    values, counts = np.unique(latencies_ms, return_counts=True)
    return Window(block, values, counts, float(len(latencies_ms)), float(latencies_ms.sum()) / 1e3)


def visits(
    rng: np.random.Generator, blocks: int, sd: float, drift: float, times: float = 1.0, calls: int = 150
) -> list[Window]:
    """One window per block around `times` 8 ms; the drift that blocks have in common is the same in every call."""
    medians = 8 * times * np.exp(drift * np.arange(blocks) + rng.normal(0, sd, blocks))
    latencies = [median * np.exp(rng.normal(0, 0.1, calls)) for median in medians]
    return [window(block, ms.round(2)) for block, ms in enumerate(latencies, 1)]


CALL = encoded([8.0])


def estimate(found: Sequence[Window], name: str, resamples: int = RESAMPLES) -> dict[str, Estimate]:
    return statistics.estimates(found, name, {P50: 50.0}, resamples)


def ratio(a: Estimate, b: Estimate) -> Interval:
    return statistics.ratio(a, b).interval


def held(blocks: int, sd: float, drift: float, times: float = 1.0) -> NDArray[np.bool_]:
    """For each simulated pair of cells, whether the ratio's interval has the truth in it: (p50, throughput)."""
    rng = np.random.default_rng([blocks, round(1000 * sd), round(1000 * drift)])
    rows = []
    for number in range(SIMULATED):
        a = estimate(visits(rng, blocks, sd, drift, times), f"a{number}")
        b = estimate(visits(rng, blocks, sd, drift), f"b{number}")
        found = ((times, ratio(a[P50], b[P50])), (1 / times, ratio(a[IMAGES_PER_S], b[IMAGES_PER_S])))
        rows.append([(interval.low or 0) <= true <= (interval.high or 0) for true, interval in found])
    return np.array(rows)


def test_equal_cells_show_no_difference() -> None:
    """Where nothing differs but visits and blocks, the 95 % interval of a ratio has 1 in it in 95 % of all runs; and
    where a cell takes 1.2x the time it has that in it as often."""
    shares = np.array([held(*null).mean(axis=0) for null in NULLS])
    # All rows are 600 runs: a true 95 % shows as 92.4 % or more in 998 of 1,000 such tests; one row as 90.5 %.
    assert shares.mean(axis=0).min() >= 0.935
    assert shares.min() >= 0.905, dict(zip(NULLS, shares.tolist(), strict=True))
    assert held(4, 0.04, 0.05, 1.2).mean(axis=0).min() >= 0.905


def test_a_real_difference_is_found() -> None:
    """A cell that takes 1.3x the time is told apart with three blocks and visits that differ by 2 %."""
    rng = np.random.default_rng(13)
    found = []
    for number in range(50):
        a = estimate(visits(rng, 3, 0.02, 0.05, 1.3), f"a{number}")
        b = estimate(visits(rng, 3, 0.02, 0.05), f"b{number}")
        slower, less = (ratio(a[measure], b[measure]) for measure in (P50, IMAGES_PER_S))
        found.append([(slower.low or 0) > 1, (less.high or 2) < 1])
    assert np.mean(found, axis=0).min() >= 0.98


@pytest.mark.parametrize("blocks", [3, 5])
def test_a_p_value_is_the_level_at_which_the_interval_reaches_one(blocks: int) -> None:
    """Below 0.05 exactly where the 95 % interval has 1 outside; smaller, the further away 1 is."""
    rng = np.random.default_rng(15)
    one = estimate(visits(rng, blocks, 0.03, 0.05), "one")[P50]
    p_values = []
    for times in (1.0, 1.05, 1.1, 1.2, 1.4, 3.0):
        found = statistics.ratio(
            estimate(visits(np.random.default_rng(16), blocks, 0.03, 0.05, times), "other")[P50], one
        )
        interval, p = found.interval, statistics.p_value(found)
        assert p is not None
        assert (p < 0.05) == (not (interval.low or 0) <= 1 <= (interval.high or 0))
        p_values.append(p)
    assert min(p_values) >= statistics.LEAST_P
    assert max(p_values) <= 1
    assert p_values[1:] == sorted(p_values[1:], reverse=True)
    assert statistics.p_value(estimate(visits(rng, 2, 0.03, 0.05), "two")[P50]) is None


def test_what_stands_out_of_many_comparisons() -> None:
    """The example of Benjamini and Hochberg (1995, section 3.2) counts four differences; scipy agrees on others."""
    example = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.324, 0.4262, 0.5719, 0.6528]
    assert statistics.beyond_chance([*example, 0.759, 1.0]) == 0.0095
    rng = np.random.default_rng(17)
    for _ in range(50):
        p_values = rng.uniform(size=28) ** 3
        counted = p_values <= statistics.beyond_chance(list(p_values))
        assert np.array_equal(counted, scipy.stats.false_discovery_control(p_values) <= 0.05)
    assert statistics.beyond_chance([]) == statistics.beyond_chance([0.4]) == 0


def test_percentiles_are_exact() -> None:
    """Over several windows together, a percentile is numpy's inverted_cdf of all their calls; within 0.1 % from the
    recorder to the estimate."""
    rng = np.random.default_rng(1)
    samples = [rng.integers(1, 500, size).astype(float) for size in (7, 100, 33)]
    found = [window(i, sample) for i, sample in enumerate(samples)]
    for percent in (0.1, 1, 50, 55, 90, 99, 100):
        exact = np.percentile(np.concatenate(samples), percent, method="inverted_cdf")
        assert statistics.percentile(found, percent) == exact
    visit = Visit(1, 1, "", steady_s=10.0, steady_requests=140.0, latency=encoded(np.concatenate(samples)))
    for percent in (50, 90, 99):
        exact = np.percentile(np.concatenate(samples), percent, method="inverted_cdf")
        assert statistics.percentile(statistics.windows([visit], 1), percent) == pytest.approx(exact, rel=0.001)


def test_resampled_windows_agree_with_numpy() -> None:
    """Windows of different speed and size are resampled each on its own: the spread is that of numpy's own drawing."""
    rng = np.random.default_rng(5)
    samples = [rng.normal(mean, 1, size).round(2) for mean, size in ((10, 50), (14, 200), (12, 80))]
    found = [window(i, sample) for i, sample in enumerate(samples)]
    drawn = statistics.draws(3, 1500)
    theirs = [np.concatenate([rng.choice(samples[i], len(samples[i])) for i in row]) for row in drawn]
    for percent in (50, 90):
        ours = statistics.resampled_percentile(found, drawn, percent, "x")
        exact = [np.percentile(calls, percent, method="inverted_cdf") for calls in theirs]
        for quantile in (0.025, 0.25, 0.5, 0.75, 0.975):
            assert np.quantile(ours, quantile) == pytest.approx(np.quantile(exact, quantile), abs=0.15)
    assert not np.array_equal(ours, statistics.resampled_percentile(found, drawn, 90, "y"))  # each has its own draws


def test_throughput_is_all_images_over_all_seconds() -> None:
    """Not a mean of rates: a long window counts for more. A window's images are its calls times the batch; a visit
    without calls or time is left out, and without any window there is no estimate."""
    one = np.ones(1, np.int64)
    numbers = ((1, 100.0, 1.0), (2, 900.0, 4.0), (3, 200.0, 5.0))
    found = [Window(block, np.array([8.0]), one, images, seconds) for block, images, seconds in numbers]
    assert estimate(found, "x")[IMAGES_PER_S].value == pytest.approx(120.0)
    (batched,) = statistics.windows([Visit(2, 1, "", steady_s=2.0, steady_requests=1.0, latency=CALL)], 32)
    assert (batched.block, batched.images, batched.seconds, batched.calls) == (2, 32.0, 2.0, 1)
    nothing = [Visit(1, 1, ""), Visit(2, 1, "", steady_requests=1.0, latency=CALL)]
    assert statistics.windows(nothing, 1) == []
    assert (statistics.percentile([], 50), estimate([], "x")) == (None, {})


def test_one_bucket_is_known_to_the_recorder_s_resolution() -> None:
    """Calls that all took the same time still have an interval: one step of the histogram is not a difference."""
    a, b = (
        estimate([Window(i, np.array([ms]), np.array([50]), 50.0, 0.4) for i in range(1, 4)], name)[P50]
        for name, ms in (("a", 8.0), ("b", 8.004))
    )
    alone, together = a.interval, ratio(a, b)
    assert [alone.low, alone.high] == pytest.approx([7.992, 8.008], abs=1e-3)
    assert (together.low or 2) < 1 < (together.high or 0)


def test_numbers_have_the_digits_that_say_something() -> None:
    """Three, as more would be noise and fewer would hide differences; limits close to 1 keep those that say on which
    side they are."""
    values = {8.4: "8.40", 59.24: "59.2", 1974.2: "1,974", 0.0123: "0.0123", 999.7: "1,000", 0: "0", None: "–"}
    assert {value: digits(value) for value in values} == values
    ratios = {1.684: "1.68", 0.5: "0.50", 1.0: "1.00", 1.002: "1.002", 0.9996: "0.9996", 1.00001: "1.00"}
    assert {value: figure(value) for value in ratios} == ratios


def test_student_t_agrees_with_scipy() -> None:
    """Student's t quantiles are scipy's to ten digits."""
    for freedom in (1, 2, 3, 4, 5, 9, 30, 119):
        for probability in (0.5, 0.9, 0.975, 0.999):
            exact = pytest.approx(scipy.stats.t.ppf(probability, freedom), rel=1e-10, abs=1e-10)
            assert statistics.student_t(probability, freedom) == exact
