"""A ratio in words: the same number and the same interval wherever it is said, and never more than it shows."""

from typing import Any

import pytest

from bench import words
from bench.measure.measured import Cell
from bench.result import FASTER, NO_DIFFERENCE, NO_VERDICT, SLOWER, Interval, Ratio, no_difference


def ratio(value: float, low: float, high: float, verdict: Any = "", measure: Any = "p50_ms") -> Ratio:
    """a / b, with the verdict that its interval has."""
    judged: Any = verdict or (no_difference(low, high) if low <= 1 <= high else "lower" if high < 1 else "higher")
    return Ratio.of("protocol", Cell("a", "a"), Cell("b", "b"), measure, Interval(value, low, high), judged)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0.07, "14 times faster"),
        (1 / 1.17, "17 % faster"),
        (1.49, "49 % slower"),
        (1.5, "1.5 times slower"),
        (9.96, "10 times slower"),
        (1500.0, "1,500 times slower"),
        (1.004, "0.4 % slower"),
    ],
)
def test_a_ratio_of_times_is_a_multiple_or_a_percentage(value: float, said: str) -> None:
    """How much longer the slower one takes, whichever of the two is named first."""
    assert words.compared(value) == said
    other = said.replace(FASTER, SLOWER) if FASTER in said else said.replace(SLOWER, FASTER)
    assert words.compared(1 / value) == other


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (ratio(1.17, 1.16, 1.18), "a is 17 % slower than b (16 to 18 %)"),
        (ratio(1.6, 1.58, 1.62), "a is 1.6 times slower than b"),
        (ratio(0.5, 0.4, 0.8, measure="images_per_s"), "a is 2 times slower than b (25 % to 2.5 times)"),
        (ratio(1.02, 0.97, 1.07), "a and b are the same within 10 % (3.1 % faster to 7 % slower)"),
        (ratio(1.1, 0.8, 2.5), "no difference is shown between a and b (25 % faster to 2.5 times slower)"),
        (
            ratio(1.2, 1.1, 1.3, NO_DIFFERENCE),
            "no difference is shown between a and b (10 to 30 % slower, which may be",
        ),
        (ratio(1.23, 1.1, 1.3, NO_VERDICT), "no verdict on a against b, by the estimate 23 % slower"),
        (ratio(2.66, 2.66, 2.66, measure=words.BYTES), "a is 2.7 times larger than b"),
    ],
)
def test_a_clause_says_the_verdict_and_the_interval(found: Ratio, said: str) -> None:
    """A throughput is turned into time; what was counted has no interval; equal is said where the interval shows it."""
    assert words.one(found).startswith(said)


SLOW, SLOWEST, FAST, NONE = ratio(1.1, 1.05, 1.2), ratio(2.1, 2, 2.2), ratio(0.8, 0.7, 0.9), ratio(1.1, 0.8, 1.5)
EQUAL = ratio(1.02, 0.97, 1.07)
OTHERS = ", and no difference is shown in the others"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([SLOW], "A is 10 % slower than B"),
        ([SLOW, SLOWEST], "A is 10 % to 2.1 times slower than B"),
        ([SLOW, SLOWEST, NONE, NONE], f"A is up to 2.1 times slower than B in 2 of 4 sizes{OTHERS}"),
        ([SLOW, NONE], "A is 10 % slower than B in 1 of 2 sizes, and no difference is shown in the other"),
        ([SLOW, FAST, FAST], "A is up to 25 % faster than B in 2 of 3 sizes and 10 % slower in 1"),
        ([NONE, ratio(2.0, 1, 3, NO_VERDICT)], "no difference is shown between A and B"),
        ([EQUAL, EQUAL], "A and B are the same within 10 %"),
        ([EQUAL, NONE, NONE], f"A and B are the same within 10 % in 1 of 3 sizes{OTHERS}"),
        ([SLOW, EQUAL, EQUAL], "A is 10 % slower than B in 1 of 3 sizes and the same within 10 % in the others"),
        ([SLOW, EQUAL, NONE, NONE], f"A is 10 % slower than B in 1 of 4 sizes and the same within 10 % in 1{OTHERS}"),
        ([ratio(2.0, 1, 3, NO_VERDICT)], "no verdict is possible on A against B"),
    ],
)
def test_several_ratios_are_one_clause(found: list[Ratio], said: str) -> None:
    """By their verdicts: on how many sides they are, and in how many cases no difference is shown."""
    assert words.several("A", "B", found, "sizes") == said


def test_a_clause_can_leave_the_amounts_out_and_become_a_sentence() -> None:
    """A name keeps its first letter."""
    assert words.several("gRPC", "HTTP", [SLOW], amounts=False) == "gRPC is slower than HTTP"
    assert words.sentence("gRPC is slower") == "gRPC is slower."
    assert words.sentence("no difference is shown") == "No difference is shown."
    SLOW.why = ["servers: x against y", "bytes sent: 1 against 2"]
    assert words.differing(SLOW, 1) == "servers (x against y)"
