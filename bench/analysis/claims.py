"""The claims of a published study, judged on our ratios: a verdict is on the published finding.

A finding is *reproduced* when every ratio that was measured supports it, *not reproduced* when every one contradicts
it, and else *inconclusive*; a finding about all cells (Ratios.everywhere) is refuted by one ratio. "No difference
shown" contradicts nothing by itself. SAME does (Ratios.same_shows may say otherwise), and supports a finding that the
two are EQUAL, which is contradicted where the whole interval lies outside of SAME_WITHIN.

A finding with a size is supported where the whole interval is within SIZE_WITHIN times that size: a wide interval holds
many sizes and shows none. Where the difference alone is shown, the finding is *reproduced in direction, not in size*. A
difference that is not shown contradicts it where the interval does not reach that size either.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from bench import words
from bench.result import SAME_WITHIN, Found, Judged, Verdict, is_same
from bench.studies.study import (
    EQUAL,
    HIGHER,
    IN_DIRECTION,
    INCONCLUSIVE,
    LOWER,
    NOT_REPRODUCED,
    P50,
    PER_SECOND,
    RECEIVED,
    REPRODUCED,
    SIZE_WITHIN,
    TIME,
    Ratios,
    Study,
    case,
)  # fmt: skip

SUPPORTS, CONTRADICTS, UNCLEAR = "Supports the finding.", "Contradicts the finding.", "Inconclusive."
DIRECTION = "Supports the direction, and not the size"
REASONS = 3
"""How many measured factors a cause names, and how many ratios a refutation."""

Factors = Mapping[str, Mapping[str, Any]]
"""The factors of cells, by id."""


class Ratio(Protocol):
    """A result.Ratio, or an object with the same fields."""

    def __getitem__(self, name: str, /) -> Any: ...


def judge(study: Study, cells: Factors, ratios: Sequence[Ratio], found: Iterable[Found] = ()) -> list[Judged]:
    """A verdict per claim; `found` has the analysed cells, which name the causes."""
    first = next(iter(cells.values()), {})
    ours = {id_ for id_, cell in cells.items() if all(cell[name] == first[name] for name in study.setting)}
    here = [ratio for ratio in ratios if ratio["a"] in ours]
    known = {cell.id: cell for cell in found}
    return [
        _judge(study, name, _about(claim.shown_by, here, cells), cells, known) for name, claim in study.claims.items()
    ]


def sizes(study: Study, factors: Factors, cells: Iterable[Any]) -> list[Ratio]:
    """Ratios of the bytes received per call, of the analysed `cells` that claims about RECEIVED set side by side."""
    shown = [claim.shown_by for claim in study.claims.values()]
    pairs = dict.fromkeys(pair for ratios in shown if ratios.measure == RECEIVED for pair in ratios.pairs)
    known = {}
    for cell in cells:
        rest = tuple(value for name, value in factors[cell["id"]].items() if name not in ("name", "route"))
        known[factors[cell["id"]]["name"], rest] = cell
    found: list[Ratio] = []
    for (row, rest), a in known.items():
        for pair in pairs:
            b = known.get((pair[1], rest))
            if pair[0] == row and b and a[RECEIVED] and b[RECEIVED]:
                # Counted, so its interval is a point.
                value = a[RECEIVED] / b[RECEIVED]
                verdict = "no verdict" if a["marks"] or b["marks"] else LOWER if value < 1 else HIGHER
                about = {"a": a["id"], "b": b["id"], "a_name": row, "b_name": pair[1], "measure": RECEIVED, "why": []}
                found.append(about | dict.fromkeys(("value", "low", "high"), value) | {"verdict": verdict})
    return found


def side(claim: Ratios, ratio: Ratio) -> str:
    """What one ratio says of a claim that these ratios would show."""
    if ratio["verdict"] == "no verdict" or ratio["low"] is None:
        return UNCLEAR
    low, high, verdict = ratio["low"], ratio["high"], ratio["verdict"]
    if claim.measure == TIME and ratio["measure"] == PER_SECOND:
        low, high, verdict = 1 / high, 1 / low, {LOWER: HIGHER, HIGHER: LOWER}.get(verdict, verdict)
    equal, differs = is_same(low, high), verdict in (LOWER, HIGHER)
    if claim.expected == EQUAL:
        beyond = high < SAME_WITHIN[0] or low > SAME_WITHIN[1]
        return SUPPORTS if equal else CONTRADICTS if differs and beyond else UNCLEAR
    if equal and (claim.material or not differs):
        return {True: SUPPORTS, False: CONTRADICTS, None: UNCLEAR}[claim.same_shows]
    least, most = (1 / high, 1 / low) if claim.expected == LOWER else (low, high)
    if not differs:
        return CONTRADICTS if claim.size and most < SIZE_WITHIN[0] * claim.size else UNCLEAR
    if verdict != claim.expected:
        return CONTRADICTS
    if claim.size and (least < SIZE_WITHIN[0] * claim.size or most > SIZE_WITHIN[1] * claim.size):
        return DIRECTION
    return SUPPORTS


def _about(claim: Ratios, ratios: Iterable[Ratio], cells: Factors) -> list[Ratio]:
    """The ratios of its pairs and measure, where its cells are; with `largest`, in the cells with the most of it."""
    found = [
        ratio
        for ratio in ratios
        if (ratio["a_name"], ratio["b_name"]) in claim.pairs
        and ratio["measure"] == _measure(claim, ratio)
        and claim.about(cells[ratio["a"]])
    ]
    if not claim.largest:
        return found
    most = max((ratio[claim.largest] for ratio in found), default=1)
    return [ratio for ratio in found if ratio[claim.largest] == most > 1]


def _measure(claim: Ratios, ratio: Ratio) -> str:
    if claim.measure != TIME:
        return claim.measure
    return P50 if ratio["users"] == 1 else PER_SECOND


def _judge(study: Study, name: str, ratios: Sequence[Ratio], cells: Factors, found: Mapping[str, Found]) -> Judged:
    claim = study.claims[name]
    if not ratios:
        text = "No cell of this finding was measured. Run the whole study."
        return Judged(name, claim.says, claim.published, INCONCLUSIVE, text, "")
    sides = [(ratio, side(claim.shown_by, ratio)) for ratio in ratios]
    shown = {word for _, word in sides}
    refuted = shown == {CONTRADICTS} or (claim.shown_by.everywhere and CONTRADICTS in shown)
    verdict: Verdict = INCONCLUSIVE
    if shown <= {SUPPORTS, DIRECTION}:
        verdict = IN_DIRECTION if DIRECTION in shown else REPRODUCED
    elif refuted:
        verdict = NOT_REPRODUCED
    counted = []
    if claim.shown_by.everywhere and refuted:  # a few that refute it are enough
        against = [(ratio, word) for ratio, word in sides if word == CONTRADICTS]
        sides, counted = (
            against[:REASONS],
            [f"{len(against)} of {len(ratios)} ratios contradict the finding, among them:"],
        )
    told = {DIRECTION: f"{DIRECTION}: published {words.amount(claim.shown_by.size or 1)}."}
    lines = counted + [
        f"{case(study, cells[ratio['a']])}: {words.one(ratio)}. {told.get(word, word)}" for ratio, word in sides
    ]
    # Of the ratios that decide, the first: the tables have all of them.
    deciding = next((ratio for ratio, word in sides if word != UNCLEAR), ratios[0])
    a, b = deciding["a"], deciding["b"]
    kind = study.pairs.get((deciding["a_name"], deciding["b_name"]), "")
    more = study.explain(found[a], found[b], kind) if a in found and b in found else ""
    why, rows = words.differing(deciding, REASONS), f"{deciding['a_name']} and {deciding['b_name']}"
    cause = f"{rows} differ in {why}." if why else f"No measured factor of {rows} differs by more than 5 %."
    if claim.shown_by.measure == RECEIVED:
        cause = "The bytes were counted."
    return Judged(name, claim.says, claim.published, verdict, "\n".join(lines), f"{more} {cause}".lstrip())
