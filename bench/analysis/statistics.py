"""Estimates with 95 % intervals from a few visits: one number per block, and Student's t for their spread.

Visits differ by more than their calls do: a machine is a little faster or slower for seconds at a time. So an interval
must come from how far the blocks agree. Three things follow.

* A number of a cell, a percentile or images per second, is taken in each block. The estimate is the geometric mean over
  the blocks, and its interval is Student's t on their logarithms (Student, *The Probable Error of a Mean*, Biometrika
  6(1), 1908).
* A ratio of two cells is taken in each block that both have, so what slows a whole block cancels. Then the same holds:
  this is the paired t test on logarithms. In simulations with 3 to 16 blocks, 94 to 96 % of its intervals hold the true
  ratio (tests/unit/test_bench_statistics.py). Fewer than three blocks have no interval.
* Many comparisons: of forty ratios between equals, two would show a difference by chance. `p_value` is the level at
  which a ratio's interval just reaches 1, and `beyond_chance` takes the ratios of a run that stand out of all of them
  (Y. Benjamini and Y. Hochberg, *Controlling the False Discovery Rate*, JRSS B 57, 1995).
"""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.measure.measured import Visit
from bench.result import Interval
from locustfiles.recorder import Histogram

CONFIDENCE = 0.95
LEAST_P = 1e-6
MIN_BLOCKS = 3
RESOLUTION = 0.001
"""How well the recorder knows a latency: no interval of a percentile is narrower than this to either side."""
IMAGES_PER_S: Final = "images_per_s"

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Window:
    """The steady window of one visit: latencies in ms (ascending) and how many calls had each; images in `seconds`."""

    block: int
    latency_ms: Floats
    counts: NDArray[np.int64]
    images: float
    seconds: float

    @property
    def calls(self) -> int:
        return int(self.counts.sum())


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number above 0 in each of some blocks, one at least: block -> number."""

    by_block: Mapping[int, float]
    resolution: float = 0.0
    """The relative error that the recording alone may have."""

    @property
    def value(self) -> float:
        """The geometric mean of the blocks."""
        return math.exp(fmean(self._logs))

    @property
    def interval(self) -> Interval:
        """The value with its 95 % limits; without them below MIN_BLOCKS blocks."""
        if (error := self.error) is None:
            return Interval(self.value)
        width = math.exp(error * student_t(1 - (1 - CONFIDENCE) / 2, len(self.by_block) - 1))
        return Interval(self.value, self.value / width, self.value * width)

    @property
    def error(self) -> float | None:
        """The standard error of the value's logarithm; None below MIN_BLOCKS blocks."""
        blocks = len(self.by_block)
        if blocks < MIN_BLOCKS:
            return None
        # So that the interval reaches as far as the resolution, at least.
        least = self.resolution / student_t(1 - (1 - CONFIDENCE) / 2, blocks - 1)
        return max(stdev(self._logs) / math.sqrt(blocks), least)

    @property
    def _logs(self) -> list[float]:
        return [math.log(number) for number in self.by_block.values()]


def windows(visits: Iterable[Visit], batch: int) -> list[Window]:
    """The visits that have a call and some time in their steady window, by block; raises ValueError on a broken one."""
    found = []
    for visit in visits:
        latency_ms, counts = _steps(visit.latency)
        if counts.sum() and visit.steady_s > 0 and visit.steady_requests > 0:
            images = visit.steady_requests * batch
            found.append(Window(visit.block, latency_ms, counts, images, visit.steady_s))
    return sorted(found, key=lambda window: window.block)


def percentile(window: Window, percent: float) -> float:
    """The latency, in ms, that `percent` of the window's calls do not exceed.

    Definition 8 of Hyndman and Fan (*Sample Quantiles in Statistical Packages*, The American Statistician 50(4), 1996),
    numpy's `median_unbiased`: windows with few calls and with many have the same median error, so ratios of them too.
    """
    upto = window.counts.cumsum()
    calls = int(upto[-1])
    rank = min(max((calls + 1 / 3) * percent / 100 + 1 / 3, 1), calls)
    below, above = window.latency_ms[np.searchsorted(upto, [math.floor(rank), math.ceil(rank)])]
    return float(below + (rank - math.floor(rank)) * (above - below))


def estimates(found: Sequence[Window], percents: Mapping[str, float]) -> dict[str, Estimate]:
    """IMAGES_PER_S and the percentiles, by name, of a cell's windows; {} without any."""
    if not found:
        return {}
    made = {IMAGES_PER_S: Estimate({window.block: window.images / window.seconds for window in found})}
    for name, percent in percents.items():
        made[name] = Estimate({window.block: percentile(window, percent) for window in found}, RESOLUTION)
    return made


def ratio(a: Estimate | None, b: Estimate | None) -> Estimate | None:
    """a / b in the blocks that both have; None without any, or where one of the two is not known."""
    if not a or not b:
        return None
    quotients = {block: number / b.by_block[block] for block, number in a.by_block.items() if block in b.by_block}
    return Estimate(quotients, max(a.resolution, b.resolution)) if quotients else None


def difference(a: Estimate, b: Estimate) -> tuple[float, float, float]:
    """a - b with its 95 % limits, by Student's t on the differences of common blocks: MIN_BLOCKS at least."""
    found = [number - b.by_block[block] for block, number in a.by_block.items() if block in b.by_block]
    half = student_t(1 - (1 - CONFIDENCE) / 2, len(found) - 1) * stdev(found) / math.sqrt(len(found))
    return fmean(found), fmean(found) - half, fmean(found) + half


def pooled(found: Sequence[Estimate]) -> Estimate | None:
    """Their geometric mean in each block that all of them have; None without any."""
    blocks = set.intersection(*(set(one.by_block) for one in found)) if found else set()
    means = {block: math.exp(fmean(math.log(one.by_block[block]) for one in found)) for block in sorted(blocks)}
    return Estimate(means) if means else None


def p_value(ratio: Estimate) -> float | None:
    """The smallest level (1 - confidence, at least LEAST_P) at which the ratio's interval has 1 outside.

    It is below 1 - CONFIDENCE exactly where 1 is outside of its interval, and None where there is no interval.
    """
    if (error := ratio.error) is None:
        return None
    away = abs(math.log(ratio.value))
    beyond = 2 - 2 * _student_cdf(away / error, len(ratio.by_block) - 1) if error else float(not away)
    return max(beyond, LEAST_P)


def beyond_chance(p_values: Sequence[float]) -> float:
    """The level up to which these p-values count as differences, 0 for none: then at most 1 - CONFIDENCE of the
    differences that a run shows are chance, on average (Benjamini and Hochberg, 1995)."""
    levels = (((1 - CONFIDENCE) * rank / len(p_values), p) for rank, p in enumerate(sorted(p_values), 1))
    return max((level for level, p in levels if p <= level), default=0.0)


@functools.cache
def student_t(probability: float, freedom: int) -> float:
    """Student's t quantile (probability >= 0.5, whole degrees of freedom), by bisection of its distribution."""
    low, high = 0.0, 1.0
    while _student_cdf(high, freedom) < probability:
        low, high = high, high * 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_cdf(middle, freedom) < probability else (low, middle)
    return (low + high) / 2


def _student_cdf(t: float, freedom: int) -> float:
    """P(T <= t) for t >= 0: the finite sums of Abramowitz and Stegun 26.7.3 (odd) and 26.7.4 (even)."""
    angle, odd = math.atan(t / math.sqrt(freedom)), freedom % 2
    sine, cosine = math.sin(angle), math.cos(angle)
    term, total = (cosine if odd else 1.0), 0.0
    for step in range(1 + odd, freedom, 2):
        total += term
        term *= cosine * cosine * step / (step + 1)
    middle = (angle + sine * total) * 2 / math.pi if odd else sine * total
    return (1 + middle) / 2


# A run is judged after each of its blocks: its histograms, slow to decode, are decoded once.
@functools.lru_cache(maxsize=4096)
def _steps(encoded: str) -> tuple[Floats, NDArray[np.int64]]:
    latency_us, counts = Histogram(encoded or None).steps()
    latency_ms = latency_us / 1e3
    latency_ms.flags.writeable = counts.flags.writeable = False
    return latency_ms, counts
