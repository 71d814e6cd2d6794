"""Latencies, kept to three digits and merged without loss."""

import numpy as np
import pytest

from locustfiles.recorder import Histogram


def histogram(seconds: list[float]) -> Histogram:
    made = Histogram()
    for one in seconds:
        made.record(one)
    return made


def test_merging_loses_nothing() -> None:
    """Two workers' histograms, sent as text and merged, are the histogram of all their calls."""
    drawn = [float(one) for one in np.random.default_rng(3).lognormal(np.log(0.020), 0.5, 5_000)]
    merged = Histogram(histogram(drawn[:1234]).encode())
    merged.merge(histogram(drawn[1234:]).encode())
    assert [part.tolist() for part in merged.steps()] == [part.tolist() for part in histogram(drawn).steps()]
    assert merged.count == 5_000


def test_steps_are_ascending_and_count_every_call() -> None:
    """What the statistics resample: each latency with how often it was seen. No calls have no percentile."""
    values, counts = histogram([0.001, 0.002, 0.001]).steps()
    assert values.tolist() == [1000, 2000]
    assert counts.tolist() == [2, 1]
    assert Histogram().percentile_ms(50) is None
    assert Histogram().steps()[0].size == 0


def test_what_is_out_of_range_counts_at_the_end_of_it() -> None:
    """Nothing is dropped: 0 s counts as 1 us, an hour as 600 s."""
    made = histogram([0.0, 3600.0])
    assert made.count == 2
    assert made.percentile_ms(0) == pytest.approx(0.001)
    assert made.percentile_ms(100) == pytest.approx(600_000, rel=1e-3)


def test_garbage_is_refused() -> None:
    """A text that is no histogram is an error with words."""
    with pytest.raises(ValueError, match="not an encoded HDR histogram"):
        Histogram("garbage")
