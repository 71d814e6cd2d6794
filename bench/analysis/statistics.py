"""Estimates with 95 % intervals from the histograms of a few visits: a bootstrap that draws blocks, then calls.

Visits differ by more than their calls do: a machine is a little faster or slower for seconds at a time. So an interval
must come from how far the blocks agree, and a run has only three to six of them. Four things follow.

* Two levels: each resample draws blocks with replacement, then, within each drawn visit, as many calls as it has, and
  estimates again (Davison and Hinkley, *Bootstrap Methods and their Application*, 1997, section 3.8). All cells see the
  same drawn blocks, so a ratio of two cells is taken within blocks: what slows a whole block cancels.
* Expanded intervals: with K blocks a percentile interval is too narrow, by sqrt((K - 1) / K) and by the normal quantile
  where Student's belongs. Deviations from the estimate, on the log scale, are multiplied by both (the idea of T. C.
  Hesterberg, *What Teachers Should Know About the Bootstrap*, The American Statistician 69(4), 2015: expanded
  percentile intervals). Both sides get the longer tail: among so few blocks it is chance which one that is.
* Calibrated: an interval that says 95 % must hold the truth in 95 % of all runs, also by the throughput of three to six
  blocks whose visits are lognormal. With Student's quantile for 95 % it was 94 to 96 %; with the one for CALIBRATED it
  is 96 to 97 % (W.-Y. Loh, *Calibrating Confidence Coefficients*, JASA 82, 1987: the nominal level that gives the real
  one). tests/unit/test_bench_statistics.py simulates it.
* Many comparisons: of forty ratios between equals, two would show a difference by chance. `p_value` is the level at
  which a ratio's interval just reaches 1, and `beyond_chance` takes the ratios of a run that stand out of all of them
  (Y. Benjamini and Y. Hochberg, *Controlling the False Discovery Rate*, JRSS B 57, 1995).
* Fewer than three blocks have no interval: that of two would be eleven times as wide as the percentile interval.

The draws are seeded, so the same visits always give the same numbers.
"""

import functools
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from bench.measure.measured import Visit
from bench.result import Interval
from locustfiles.recorder import Histogram

CONFIDENCE = 0.95
CALIBRATED = 0.8
"""The part of a tail that Student's quantile leaves out, so that 95 % is 95 % in simulations."""
RESAMPLES = 2000
LEAST_P = 1e-6
MIN_BLOCKS = 3
SEED = 20_260_220
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
    """A number, the same number from each resample (none below MIN_BLOCKS blocks), and the blocks that it is from."""

    value: float
    resampled: Floats
    blocks: tuple[int, ...]
    resolution: float = 0.0
    """The relative error that the recording alone may have."""

    @property
    def interval(self) -> Interval:
        """The number with its expanded percentile interval."""
        if not self.resampled.size:
            return Interval(self.value)
        width = math.exp(_reach(self, 1 - CONFIDENCE))
        return Interval(self.value, self.value / width, self.value * width)


def windows(visits: Iterable[Visit], batch: int) -> list[Window]:
    """The visits that have a call and some time in their steady window, by block; raises ValueError on a broken one."""
    found = []
    for visit in visits:
        latency_ms, counts = _steps(visit.latency)
        if counts.sum() and visit.steady_s > 0 and visit.steady_requests > 0:
            images = visit.steady_requests * batch
            found.append(Window(visit.block, latency_ms, counts, images, visit.steady_s))
    return sorted(found, key=lambda window: window.block)


def percentile(found: Sequence[Window], percent: float) -> float | None:
    """The smallest recorded latency, in ms, that `percent` of all calls do not exceed; None without calls.

    This is definition 1 of Hyndman and Fan (*Sample Quantiles in Statistical Packages*, 1996), numpy's `inverted_cdf`.
    """
    if not found:
        return None
    latency_ms, counts = _merged(found)
    upto = counts.sum(axis=0).cumsum()
    return float(latency_ms[np.searchsorted(upto, _rank(upto[-1], percent))])


def estimates(
    found: Sequence[Window], name: str, percents: Mapping[str, float], resamples: int = RESAMPLES
) -> dict[str, Estimate]:
    """IMAGES_PER_S and the percentiles, by name, of a cell's windows; {} without any. `name` seeds its own draws.

    Throughput resamples the blocks only. A closed loop's users share one server, so their calls are not independent,
    and what a window holds is already one draw of that dependent process: the blocks show its spread.
    """
    if not found:
        return {}
    blocks = tuple(window.block for window in found)
    drawn = draws(len(blocks), resamples if len(blocks) >= MIN_BLOCKS else 0)
    images, seconds = np.array([(window.images, window.seconds) for window in found]).T
    rates = images[drawn].sum(axis=1) / seconds[drawn].sum(axis=1)
    made = {IMAGES_PER_S: Estimate(float(images.sum() / seconds.sum()), rates, blocks)}
    for key, percent in percents.items():
        if value := percentile(found, percent):
            resampled = resampled_percentile(found, drawn, percent, f"{name} {key}")
            made[key] = Estimate(value, resampled, blocks, RESOLUTION)
    return made


def resampled_percentile(found: Sequence[Window], drawn: NDArray[np.int64], percent: float, name: str) -> Floats:
    """The percentile of each resample: the `drawn` windows (resamples, windows), each with as many calls of its own.

    Drawing calls is a multinomial over the latencies. Only where the rank lies matters, so it is drawn by halves: how
    many calls fall into the lower half of the latencies is binomial; then the half with the rank is halved again.
    """
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode())])
    latency_ms, counts = _merged(found)
    upto = np.concatenate([np.zeros((len(found), 1), np.int64), counts.cumsum(axis=1)], axis=1)
    calls = upto[drawn, -1]
    rank = _rank(calls.sum(axis=1), percent)
    low: NDArray[np.int64] = np.zeros(len(drawn), np.int64)
    high: NDArray[np.int64] = np.full(len(drawn), len(latency_ms))
    while (high - low > 1).any():
        middle = (low + high) // 2
        below, within = (upto[drawn, to[:, None]] - upto[drawn, low[:, None]] for to in (middle, high))
        lower = rng.binomial(calls, below / np.maximum(within, 1))
        here = lower.sum(axis=1)
        left = rank <= here
        low, high = np.where(left, low, middle), np.where(left, middle, high)
        calls = np.where(left[:, None], lower, calls - lower)
        rank = np.where(left, rank, rank - here)
    return latency_ms[low]


def as_json(estimate: Estimate | None) -> dict[str, float | None] | None:
    """Its interval as JSON has it, {"value", "low", "high"}; None without an estimate."""
    return msgspec.to_builtins(estimate.interval) if estimate else None


def ratio(a: Estimate, b: Estimate) -> Estimate:
    """a / b, paired by block: ValueError where the two are from different blocks."""
    if a.blocks != b.blocks:
        raise ValueError(f"a ratio pairs equal blocks, not {a.blocks} with {b.blocks}: take shared blocks")
    return Estimate(a.value / b.value, a.resampled / b.resampled, a.blocks, max(a.resolution, b.resolution))


def p_value(ratio: Estimate) -> float | None:
    """The smallest level (1 - confidence, at least LEAST_P) at which the ratio's interval has 1 outside.

    It is below 1 - CONFIDENCE exactly where 1 is outside of its interval, and None where there is no interval.
    """
    if not ratio.resampled.size:
        return None
    away = abs(math.log(ratio.value))
    outside, inside = 1.0, LEAST_P
    if away > _reach(ratio, inside):
        return inside
    for _ in range(40):
        level = math.sqrt(outside * inside)
        outside, inside = (level, inside) if away > _reach(ratio, level) else (outside, level)
    return outside


def beyond_chance(p_values: Sequence[float]) -> float:
    """The largest of these p-values that still counts as a difference, 0 for none: then at most 1 - CONFIDENCE of the
    differences that a run shows are chance, on average (Benjamini and Hochberg, 1995)."""
    counted = (p for rank, p in enumerate(sorted(p_values), 1) if p <= (1 - CONFIDENCE) * rank / len(p_values))
    return max(counted, default=0.0)


def shared(a: Sequence[Window], b: Sequence[Window]) -> tuple[list[Window], list[Window]]:
    """The windows of the blocks that both have."""
    common = {window.block for window in a} & {window.block for window in b}
    return [window for window in a if window.block in common], [window for window in b if window.block in common]


def draws(blocks: int, resamples: int = RESAMPLES) -> NDArray[np.int64]:
    """Which blocks each resample has, by position (resamples, blocks): the same for every cell of a run."""
    return np.random.default_rng(SEED).integers(0, blocks, (resamples, blocks))


@functools.cache
def expansion(blocks: int, level: float) -> float:
    """How much wider than the percentile interval of a level (0.05 for 95 %) that of so few blocks must be."""
    student, normal = student_t(1 - CALIBRATED * level / 2, blocks - 1), NormalDist().inv_cdf(1 - level / 2)
    return math.sqrt(blocks / (blocks - 1)) * student / normal


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


def _merged(found: Sequence[Window]) -> tuple[Floats, NDArray[np.int64]]:
    """All latencies that occur (ascending), and each window's calls at them (windows, latencies)."""
    latency_ms = np.unique(np.concatenate([window.latency_ms for window in found]))
    counts = np.zeros((len(found), len(latency_ms)), np.int64)
    for row, window in zip(counts, found, strict=True):
        row[np.searchsorted(latency_ms, window.latency_ms)] = window.counts
    return latency_ms, counts


def _rank(calls: Any, percent: float) -> Any:
    """Which call, from 1 in the order of latency, is the percentile of so many calls (a number or an array)."""
    # A percentage is rarely a binary fraction: 55 % of 100 calls are 55 of them, not 56.
    return np.maximum(np.ceil(calls * percent / 100 - 1e-9), 1)


def _reach(estimate: Estimate, level: float) -> float:
    """How far the interval of a level (0.05 for 95 %) goes to either side, on the log scale."""
    away = np.log(estimate.resampled / estimate.value)
    low, high = np.quantile(away, [level / 2, 1 - level / 2]) * expansion(len(estimate.blocks), level)
    return float(max(-low, high, estimate.resolution))
