"""Ratios in words: every report and page says `14 times faster` or `17 % slower` by these functions.

`N times` and `N %` both say how much longer the slower of two takes: a ratio of times of 0.07 is 14 times faster, 0.83
is 20 % faster and 1.2 is 20 % slower. A ratio of throughputs is turned into one of times first.
"""

from collections.abc import Sequence

from bench.figures import callers, digits
from bench.result import NO_DIFFERENCE, NO_VERDICT, SAME, Interval, Knee, Pooled, Ratio

SPEED, SIZE, AMOUNT = ("faster", "slower"), ("smaller", "larger"), ("less", "more")
BYTES = "received_bytes_per_image"
"""The one measure that is a size and not a speed."""
NONE = "no difference is shown"
TIMES = 1.495
"""From this ratio on it is `1.5 times`, below it `49 %`."""


def compared(ratio: float, words: tuple[str, str] = SPEED) -> str:
    """One ratio of times, or of sizes: `14 times faster`, `17 % slower`."""
    return f"{amount(ratio)} {words[ratio > 1]}"


def one(ratio: Ratio) -> str:
    """A ratio as a clause with its interval: `a is 17 % slower than b (16 to 18 %)`."""
    return between(ratio.a_name, ratio.b_name, ratio, SIZE if ratio.measure == BYTES else SPEED)


def between(a: str, b: str, found: Ratio | Pooled, words: tuple[str, str] = SPEED) -> str:
    """The same between sides of these names."""
    time, verdict = found.time, found.verdict
    if verdict == NO_VERDICT or not time:
        return f"no verdict on {a} against {b}" + (f", by the estimate {compared(time.value, words)}" if time else "")
    low, high = time.low or time.value, time.high or time.value
    if verdict in (SAME, NO_DIFFERENCE):
        said = f"{a} and {b} are {SAME}" if verdict == SAME else f"{NONE} between {a} and {b}"
        chance = "" if low <= 1 <= high else ", which may be chance"
        return f"{said} ({_limits(low, high, words)}{chance})"
    # Counted bytes have no interval, and one that is narrower than the rounding says nothing more.
    limits = f" ({amount(low, high)})" if amount(low, high) != amount(time.value) else ""
    return f"{a} is {compared(time.value, words)} than {b}{limits}"


def interval(found: Interval, words: tuple[str, str] = SPEED) -> str:
    """A ratio of times with its limits: `17 % slower (16 to 18 %)`, `0.4 % slower (1 % faster to 2 % slower)`."""
    said = compared(found.value, words)
    if not found.low or not found.high:
        return said
    around = found.low < 1 < found.high
    return f"{said} ({_limits(found.low, found.high, words) if around else amount(found.low, found.high)})"


def several(a: str, b: str, ratios: Sequence[Ratio], cases: str = "comparisons", *, amounts: bool = True) -> str:
    """What ratios of `a` / `b` say together, as a clause without intervals: `gRPC is up to 2.1 times slower than REST
    in 2 of 3 sizes, and no difference is shown in the others`. Ratios without a verdict are left out. With
    amounts=False it says which is faster, and not by how much.
    """
    judged = [(ratio.time.value, ratio.verdict) for ratio in ratios if ratio.time and ratio.verdict != NO_VERDICT]
    if not judged:
        return f"no verdict is possible on {a} against {b}"
    factors = [value for value, verdict in judged if verdict not in (SAME, NO_DIFFERENCE)]
    same = sum(verdict == SAME for _, verdict in judged)
    none = len(judged) - len(factors) - same
    if not factors and not same:
        return f"{NONE} between {a} and {b}"
    if not factors:
        return f"{a} and {b} are {SAME}" + (f" in {same} of {len(judged)} {cases}{_others(none)}" if none else "")
    sides = {SPEED[over]: found for over in (False, True) if (found := [one for one in factors if (one > 1) == over])}
    if len(factors) == len(judged) and len(sides) == 1:
        (word,) = sides
        return f"{a} is {f'{amount(*factors)} ' if amounts else ''}{word} than {b}"
    said: list[str] = []
    for word, found in sides.items():
        most = f"{'up to ' * (len(found) > 1)}{amount(max(found, key=_far))} " if amounts else ""
        than, of = ("", "") if said else (f" than {b}", f" of {len(judged)} {cases}")
        said.append(f"{most}{word}{than} in {len(found)}{of}")
    if same:
        said.append(f"{SAME} in {same if none else f'the other{"s" * (same > 1)}'}")
    return f"{a} is {' and '.join(said)}{_others(none)}"


def differing(ratio: Ratio, most: int | None = None) -> str:
    """The measured factors that differ, `most` of them at most: `servers (a against b), connections (1 against 20)`."""
    found = (why.partition(": ") for why in ratio.why[:most])
    return ", ".join(f"{name} ({values})" for name, _, values in found)


def grows(knee: Knee) -> str:
    """Up to where, as a predicate of the row: `stops growing at 8 callers: 129 per second (128–130)`."""
    what = callers(knee.at) if knee.by == "users" else f"batch {knee.at}"
    until = f"still grew at {what}, the most that was tried" if knee.still else f"stops growing at {what}"
    return f"{until}: {digits(knee.per_second.value)} per second ({knee.per_second.limits})"


def sentence(clause: str) -> str:
    """A clause as a sentence. A name keeps its first letter: gRPC, onnx-http."""
    capital = clause.partition(" ")[0] in ("no", "the")
    return f"{clause[0].upper() if capital else clause[0]}{clause[1:]}."


def _others(none: int) -> str:
    return f", and {NONE} in the other{'s' * (none > 1)}" if none else ""


def _far(ratio: float) -> float:
    return max(ratio, 1 / ratio)


def _amount(ratio: float) -> tuple[str, str]:
    """How far a ratio is from 1, with the unit."""
    far = _far(ratio)
    if far < TIMES:
        percent = 100 * (far - 1)
        return f"{percent:.0f}" if percent >= 9.95 else f"{percent:.1f}".removesuffix(".0"), "%"
    return f"{far:.1f}".removesuffix(".0") if far < 9.95 else f"{far:,.0f}", "times"


def amount(*ratios: float) -> str:
    """How far the nearest and the farthest of these ratios are from 1: `14 times`, `16 to 18 %`, `40 % to 2 times`."""
    (least, unit), (most, other) = (_amount(found) for found in (min(ratios, key=_far), max(ratios, key=_far)))
    if (least, unit) == (most, other):
        return f"{most} {other}"
    return f"{least} to {most} {other}" if unit == other else f"{least} {unit} to {most} {other}"


def _limits(low: float, high: float, words: tuple[str, str]) -> str:
    """An interval: `2 % faster to 25 % slower`, or `1 to 9 % slower`."""
    if low < 1 < high:
        return f"{compared(low, words)} to {compared(high, words)}"
    return f"{amount(low, high)} {words[high > 1]}"
