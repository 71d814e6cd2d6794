"""Latencies, kept to three digits and merged without loss."""

from collections.abc import Iterable

import numpy as np
import pytest

from locustfiles.recorder import Histogram


def histogram(seconds: Iterable[float]) -> Histogram:
    made = Histogram()
    for one in seconds:
        made.record(one)
    return made


def test_merging_loses_nothing() -> None:
    """Two workers' histograms, sent as text and merged, are the histogram of all their calls. Other text is refused."""
    drawn = np.random.default_rng(3).lognormal(np.log(0.020), 0.5, 5_000)
    merged = Histogram(histogram(drawn[:1234]).encode())
    merged.merge(histogram(drawn[1234:]).encode())
    assert [part.tolist() for part in merged.steps()] == [part.tolist() for part in histogram(drawn).steps()]
    assert merged.count == 5_000
    with pytest.raises(ValueError, match="not an encoded HDR histogram"):
        merged.merge("garbage")


def test_every_call_counts() -> None:
    """Each latency with how often it was seen, ascending; 0 s as 1 us, an hour as 600 s. No calls, no percentile."""
    made = histogram([0.002, 0.0, 0.001, 3600.0, 0.001])
    values, counts = made.steps()
    assert values[:3].tolist() == [1, 1000, 2000]
    assert counts.tolist() == [1, 2, 1, 1]
    assert made.percentile_ms(0) == pytest.approx(0.001)
    assert made.percentile_ms(100) == pytest.approx(600_000, rel=1e-3)
    assert Histogram().percentile_ms(50) is None
    assert Histogram().steps()[0].size == 0
