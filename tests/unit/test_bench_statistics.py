"""Estimates and intervals of the bench, against numpy and scipy, and in runs whose truth is known."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import scipy.stats  # type: ignore[import-untyped]
from numpy.typing import NDArray

from bench.analysis import statistics
from bench.analysis.statistics import IMAGES_PER_S, Estimate, Window
from bench.figures import digits
from bench.measure.measured import Visit
from bench.result import Interval
from tests.unit.bench_runs import encoded

P50 = "p50_ms"
SIMULATED = 1000
# Blocks, the visits' standard deviation, and the drift from block to block, on the log scale. Calls spread by 10 %.
NULLS = [(3, 0.05, 0.1), (4, 0.04, 0.0), (6, 0.04, 0.05), (10, 0.02, 0.05), (16, 0.05, 0.1)]


def window(block: int, latencies_ms: NDArray[np.float64]) -> Window:
    """One user's closed loop with exactly these latencies."""
    values, counts = np.unique(latencies_ms, return_counts=True)
    return Window(block, values, counts, float(len(latencies_ms)), float(latencies_ms.sum()) / 1e3)


def visits(
    rng: np.random.Generator, blocks: int, sd: float, drift: float, times: float = 1.0, calls: int = 50
) -> list[Window]:
    """One window per block around `times` 8 ms; the drift that blocks have in common is the same in every call."""
    medians = 8 * times * np.exp(drift * np.arange(blocks) + rng.normal(0, sd, blocks))
    latencies = [median * np.exp(rng.normal(0, 0.1, calls)) for median in medians]
    return [window(block, ms.round(2)) for block, ms in enumerate(latencies, 1)]


CALL = encoded([8.0])


def estimate(found: Sequence[Window]) -> dict[str, Estimate]:
    return statistics.estimates(found, {P50: 50.0})


def ratio(a: Estimate, b: Estimate) -> Estimate:
    found = statistics.ratio(a, b)
    assert found
    return found


def holds(interval: Interval, true: float) -> bool:
    return (interval.low or 0) <= true <= (interval.high or 0)


def held(blocks: int, sd: float, drift: float, times: float) -> NDArray[np.float64]:
    """The share of simulated pairs of cells whose ratio's interval holds the truth: (p50, throughput)."""
    rng = np.random.default_rng([blocks, round(1000 * sd), round(1000 * drift)])
    rows = []
    for _ in range(SIMULATED):
        a, b = estimate(visits(rng, blocks, sd, drift, times)), estimate(visits(rng, blocks, sd, drift, calls=80))
        found = ((times, ratio(a[P50], b[P50])), (1 / times, ratio(a[IMAGES_PER_S], b[IMAGES_PER_S])))
        rows.append([holds(one.interval, true) for true, one in found])
    return np.array(rows).mean(axis=0)


@pytest.mark.parametrize("times", [1.0, 1.2])
def test_95_percent_of_the_intervals_hold_the_truth(times: float) -> None:
    """With 3 to 16 blocks, with and without a difference: no fewer, and no more, which would be intervals too wide."""
    shares = np.array([held(*null, times) for null in NULLS])
    # Of 1,000 true 95 %, 929 to 969 are seen in 998 of 1,000 such tests; of all 5,000 together 940 to 960.
    assert 0.925 <= shares.min() <= shares.max() <= 0.973, dict(zip(NULLS, shares.tolist(), strict=True))
    assert shares.mean(axis=0) == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("blocks", [3, 4, 9])
def test_a_ratio_is_the_paired_t_test_on_logarithms(blocks: int) -> None:
    """Interval and p-value are scipy's, for blocks that both have; p is below 0.05 where the interval is without 1."""
    rng = np.random.default_rng(15)
    for times in (1.0, 1.05, 1.4, 9.0):
        a = {block: 8 * times * math.exp(rng.normal(0, 0.03)) for block in range(blocks + 1)}
        b = {block: 8 * math.exp(rng.normal(0, 0.03)) for block in range(blocks)}
        found = ratio(Estimate(a), Estimate(b | {99: 1.0}))
        exact = scipy.stats.ttest_rel(*(np.log([side[block] for block in b]) for side in (a, b)))
        limits = np.exp(exact.confidence_interval(0.95))
        assert [found.interval.low, found.interval.high] == pytest.approx(limits.tolist())
        p = statistics.p_value(found)
        assert p == pytest.approx(max(exact.pvalue, statistics.LEAST_P), rel=1e-6)
        assert p is not None
        assert (p < 0.05) is not holds(found.interval, 1)
    two = Estimate({1: 2.0, 2: 8.0})
    assert (two.interval, statistics.p_value(two)) == (Interval(4.0), None)
    assert statistics.ratio(two, Estimate({3: 1.0})) is None


def test_what_stands_out_of_many_comparisons() -> None:
    """The example of Benjamini and Hochberg (1995, section 3.2) counts four differences; scipy agrees on others."""
    example = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.324, 0.4262, 0.5719, 0.6528]
    assert 0.0095 <= statistics.beyond_chance([*example, 0.759, 1.0]) < 0.0201
    rng = np.random.default_rng(17)
    for _ in range(50):
        p_values = rng.uniform(size=28) ** 3
        counted = p_values <= statistics.beyond_chance(list(p_values))
        assert np.array_equal(counted, scipy.stats.false_discovery_control(p_values) <= 0.05)
    assert statistics.beyond_chance([]) == statistics.beyond_chance([0.4]) == 0


def test_percentiles_are_numpy_s_median_unbiased() -> None:
    """Of a window's calls, however few; within 0.1 % from the recorder to the estimate."""
    rng = np.random.default_rng(1)
    for size in (1, 2, 3, 7, 100, 333):
        sample = rng.integers(1, 500, size).astype(float)
        for percent in (0.1, 1, 50, 55, 90, 99, 100):
            exact = np.percentile(sample, percent, method="median_unbiased")
            assert statistics.percentile(window(1, sample), percent) == pytest.approx(exact)
    visit = Visit(1, 1, "", steady_s=10.0, steady_requests=333.0, latency=encoded(sample))
    (read,) = statistics.windows([visit], 1)
    for percent in (50, 90, 99):
        exact = np.percentile(sample, percent, method="median_unbiased")
        assert statistics.percentile(read, percent) == pytest.approx(exact, rel=0.001)


def test_what_a_window_holds() -> None:
    """Images are calls times the batch; a visit without calls or time is left out; no window, no estimate."""
    (batched,) = statistics.windows([Visit(2, 1, "", steady_s=2.0, steady_requests=1.0, latency=CALL)], 32)
    assert (batched.block, batched.images, batched.seconds, batched.calls) == (2, 32.0, 2.0, 1)
    assert estimate([batched])[IMAGES_PER_S].by_block == {2: 16.0}
    nothing = [Visit(1, 1, ""), Visit(2, 1, "", steady_requests=1.0, latency=CALL)]
    assert statistics.windows(nothing, 1) == []
    assert estimate([]) == {}


def test_one_bucket_is_known_to_the_recorder_s_resolution() -> None:
    """Calls that all took the same time still have an interval: one step of the histogram is not a difference."""
    a, b = (
        estimate([Window(i, np.array([ms]), np.array([50]), 50.0, 0.4) for i in range(1, 4)])[P50]
        for ms in (8.0, 8.004)
    )
    assert [a.interval.low, a.interval.high] == pytest.approx([7.992, 8.008], abs=1e-3)
    assert holds(ratio(a, b).interval, 1)


def test_numbers_have_the_digits_that_say_something() -> None:
    """Three, as more would be noise and fewer would hide differences."""
    values = {8.4: "8.40", 59.24: "59.2", 1974.2: "1,974", 0.0123: "0.0123", 999.7: "1,000", 0: "0", None: "–"}
    assert {value: digits(value) for value in values} == values
