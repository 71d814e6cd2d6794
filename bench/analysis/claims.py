"""The claims of a published study, judged on our ratios: a verdict is on the published finding.

A finding is *reproduced* when every ratio that was measured shows it, *not reproduced* when every one contradicts it,
and else we *cannot tell*. "No difference shown" contradicts nothing by itself: it does where the whole interval lies
within hypotheses.SAME, because that shows that the two are the same. That is what shows a finding that they are EQUAL,
which is contradicted where the whole interval lies outside. A finding with a size is contradicted by every interval
that does not reach SIZE_SHARE of it, whatever else it shows.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.analysis.hypotheses import CANNOT_TELL, NOT_REPRODUCED, REPRODUCED, SAME
from bench.figures import figure
from bench.studies.study import EQUAL, HIGHER, LOWER, P50, PER_SECOND, RECEIVED, SIZE_SHARE, Claim, Study

SHOWS, CONTRADICTS, UNCLEAR = "shows it", "contradicts it", "does not tell"
REASONS = 3
"""How many measured factors a cause names."""

Ratio = Mapping[str, Any]


def judge(study: Study, cells: Mapping[str, Mapping[str, Any]], ratios: Sequence[Ratio]) -> list[dict[str, str]]:
    """A verdict per claim, in the form of the hypotheses of a result; `cells` are factors by id."""
    return [_judge(claim, [ratio for ratio in ratios if _about(claim, ratio, cells)]) for claim in study.claims]


def sizes(study: Study, factors: Mapping[str, Mapping[str, Any]], cells: Iterable[Mapping[str, Any]]) -> list[Ratio]:
    """Ratios of the bytes received per call, of the analysed `cells` that claims about RECEIVED set side by side."""
    pairs = {pair for claim in study.claims if claim.measure == RECEIVED for pair in claim.pairs}
    known = {_row_and_rest(factors[cell["id"]]): cell for cell in cells}
    found = []
    for (row, rest), mine in known.items():
        for pair in pairs:
            other = known.get((pair[1], rest))
            if pair[0] == row and other and mine[RECEIVED] and other[RECEIVED]:
                found.append(_size(pair, mine, other))
    return found


def _row_and_rest(cell: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]]:
    return cell["name"], tuple(value for name, value in cell.items() if name not in ("name", "route"))


def _size(pair: tuple[str, str], a: Mapping[str, Any], b: Mapping[str, Any]) -> Ratio:
    """Counted, so its interval is a point."""
    value = a[RECEIVED] / b[RECEIVED]
    about = {"a": a["id"], "b": b["id"], "a_name": pair[0], "b_name": pair[1], "measure": RECEIVED, "why": []}
    verdict = "no verdict" if a["marks"] or b["marks"] else LOWER if value < 1 else HIGHER
    return about | {"value": value, "low": value, "high": value, "verdict": verdict}


def side(claim: Claim, ratio: Ratio) -> str:
    """What one ratio says of a claim."""
    if ratio["verdict"] == "no verdict" or ratio["low"] is None:
        return UNCLEAR
    same, differs = SAME[0] <= ratio["low"] and ratio["high"] <= SAME[1], ratio["verdict"] in (LOWER, HIGHER)
    if claim.expected == EQUAL:
        beyond = ratio["high"] < SAME[0] or ratio["low"] > SAME[1]
        return SHOWS if same else CONTRADICTS if differs and beyond else UNCLEAR
    most = 1 / ratio["low"] if claim.expected == LOWER else ratio["high"]
    if claim.size is not None and most < SIZE_SHARE * claim.size:
        return CONTRADICTS
    if not differs:
        return CONTRADICTS if same else UNCLEAR
    return SHOWS if ratio["verdict"] == claim.expected else CONTRADICTS


def _about(claim: Claim, ratio: Ratio, cells: Mapping[str, Mapping[str, Any]]) -> bool:
    pair = ratio["a_name"], ratio["b_name"]
    return pair in claim.pairs and ratio["measure"] == claim.measure and claim.where(cells[ratio["a"]])


def _judge(claim: Claim, ratios: Sequence[Ratio]) -> dict[str, str]:
    about = {"id": claim.id, "claim": claim.says, "published_verdict": claim.published}
    if not ratios:
        return about | {"verdict": CANNOT_TELL, "text": "No cell of it was measured: run the whole study.", "cause": ""}
    sides = [side(claim, ratio) for ratio in ratios]
    verdict = REPRODUCED if set(sides) == {SHOWS} else NOT_REPRODUCED if set(sides) == {CONTRADICTS} else CANNOT_TELL
    found = "; ".join(f"{_number(ratio)}: {word}" for ratio, word in zip(ratios, sides, strict=True))
    # Of the ratios that decide, the first: the tables have all of them.
    deciding = next((r for r, word in zip(ratios, sides, strict=True) if word != UNCLEAR), ratios[0])
    nothing = "it was counted" if claim.measure == RECEIVED else "no measured factor differs by more than 5 %"
    why = "; ".join(deciding["why"][:REASONS]) or nothing
    cause = f"{deciding['a_name']} against {deciding['b_name']}: {why}."
    return about | {"verdict": verdict, "text": f"{found}.", "cause": cause}


def _number(ratio: Ratio) -> str:
    what = {P50: "the time", PER_SECOND: "the calls per second", RECEIVED: "the bytes"}[ratio["measure"]]
    limits = "no interval" if ratio["low"] is None else f"{figure(ratio['low'])} to {figure(ratio['high'])}"
    limits = "counted" if ratio["measure"] == RECEIVED else limits
    value = "no ratio" if ratio["value"] is None else f"{figure(ratio['value'])}x {what}"
    where = ratio["a"].partition("/")[2]
    return f"{ratio['a_name']} has {value} of {ratio['b_name']} ({limits}; {where})"
