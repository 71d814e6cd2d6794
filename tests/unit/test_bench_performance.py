"""The goals of docs/performance.md: when one is met, and numbers that are made of others."""

import pytest

from bench.report.performance import MET, MISSED, NOT_SHOWN, Goal, _added, _two_cores
from bench.result import Interval


@pytest.mark.parametrize(
    ("value", "most", "least"),
    [
        (Interval(1.4, 1.3, 1.49), MET, MISSED),
        (Interval(1.4, 1.3, 1.6), NOT_SHOWN, NOT_SHOWN),
        (Interval(1.7, 1.6, 1.8), MISSED, MET),
        (Interval(1.4), MET, MISSED),
    ],
)
def test_a_goal_is_met_by_the_whole_interval(value: Interval, most: str, least: str) -> None:
    """The limit is 1.5, as the most and as the least. Without an interval the estimate decides."""
    assert Goal("", most=1.5).met(value) == most
    assert Goal("", least=1.5).met(value) == least


def test_what_one_adds_to_another_is_by_their_ratio() -> None:
    """5 to 20 % of 10 ms, and a ratio without limits."""
    found = _added(Interval(1.1, 1.05, 1.2), Interval(10, 8, 12))
    assert [found.value, found.low, found.high] == pytest.approx([1.0, 0.5, 2.0])
    assert _added(Interval(0.9), Interval(10)).low is None


def test_a_second_core_is_the_least_and_the_most_of_the_routes() -> None:
    """With sixteen callers, in turn, of the study that has every route."""
    ratios = {f"{name}/b1/c{users}/pooled": {"value": users + at, "low": 1.0, "high": 9.0}
              for at, name in enumerate(("b", "a", "c")) for users in (1, 16)}  # fmt: skip
    kept = {"kind": "in-turn", "study": "scaling", "ratios": {"images/s": ratios}}
    assert [(one.case, one.value.value) for one in _two_cores(kept)] == [
        ("b, the least of 3 routes", 16),
        ("c, the most of 3 routes", 18),
    ]
    assert not list(_two_cores(kept | {"study": "fiveway"}))
    assert not list(_two_cores({"kind": "budgets"}))
