"""Latencies in an HDR histogram: microseconds, to three digits, merged over processes without loss.

Locust rounds response times, to 1 ms below 100 ms: two routes that differ by 5 % would look equal.
"""

from collections.abc import Mapping

import numpy as np
from hdrh.histogram import HdrHistogram
from numpy.typing import NDArray

LOWEST_US, HIGHEST_US = 1, 600_000_000
DIGITS = 3

MIN_CALLS: Mapping[float, int] = {50: 10, 90: 100, 99: 1000}
"""How many calls a percentile needs: ten of them beyond it, and ten in all for the median."""


class Histogram:
    """Latencies of successful calls. A value is kept to 0.1 %: 8.123 ms stays between 8.120 and 8.124 ms."""

    def __init__(self, encoded: str | None = None) -> None:
        self._counts = HdrHistogram(LOWEST_US, HIGHEST_US, DIGITS)
        if encoded is not None:
            self.merge(encoded)

    def record(self, seconds: float, calls: int = 1) -> None:
        """Below 1 us counts as 1 us, above 600 s as 600 s: nothing is dropped."""
        self._counts.record_value(min(max(round(seconds * 1e6), LOWEST_US), HIGHEST_US), calls)

    def merge(self, encoded: str) -> None:
        """Add another histogram in its encoded form; raises ValueError if it is invalid."""
        try:
            self._counts.decode_and_add(encoded.encode())
        except Exception as error:  # the library's own exceptions share no base class
            raise ValueError("not an encoded HDR histogram") from error

    def encode(self) -> str:
        """HdrHistogram's standard form (V2, compressed, base64): other tools read it too."""
        return str(self._counts.encode().decode())

    @property
    def count(self) -> int:
        return int(self._counts.get_total_count())

    def percentile_ms(self, percent: float) -> float | None:
        """The latency in ms that `percent` of the calls do not exceed; None without calls."""
        if not self.count:
            return None
        return float(self._counts.get_value_at_percentile(percent)) / 1e3

    def steps(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(latencies in us, ascending; how many calls had each): what the statistics work on."""
        counts = np.array(self._counts.counts, np.int64)
        # Few of the many buckets have a call: the library's own iterator would visit each of them.
        recorded = np.flatnonzero(counts)
        values = [self._counts.get_value_from_index(int(index)) for index in recorded]
        latencies = [self._counts.get_highest_equivalent_value(value) for value in values]
        return np.array(latencies, np.int64), counts[recorded]
