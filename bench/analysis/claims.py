"""The claims of a published study, judged on our ratios: a verdict is on the published finding.

A finding is *reproduced* when every ratio that was measured supports it, *not reproduced* when every one contradicts
it, and else *inconclusive*; a finding about all cells (Ratios.everywhere) is refuted by one ratio. "No difference
shown" contradicts nothing by itself. SAME does (Ratios.same_shows may say otherwise), and supports a finding that the
two are equal, which is contradicted where the whole interval lies outside of SAME_WITHIN.

A finding with a size is supported where the whole interval is within SIZE_WITHIN times that size: a wide interval holds
many sizes and shows none. Where the difference alone is shown, the finding is *reproduced in direction, not in size*. A
difference that is not shown contradicts it where the interval does not reach that size either.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from bench import words
from bench.measure.measured import Cell
from bench.result import NO_VERDICT, SAME_WITHIN, Found, Interval, Judged, Ratio, RatioVerdict, Verdict, is_same
from bench.studies.study import PER_SECOND, RECEIVED, SIZE_WITHIN, TIME, Ratios, Study, case

SUPPORTS, CONTRADICTS, UNCLEAR = "Supports the finding.", "Contradicts the finding.", "Inconclusive."
DIRECTION = "Supports the direction, and not the size"
REASONS = 3
"""How many measured factors a cause names, and how many ratios a refutation."""

Cells = Mapping[str, Cell]
"""By id."""


def judge(study: Study, cells: Cells, ratios: Sequence[Ratio], found: Iterable[Found] = ()) -> list[Judged]:
    """A verdict per claim; `found` has the analysed cells, which name the causes."""

    def setting(cell: Cell) -> list[object]:
        return [getattr(cell, name) for name in study.setting]

    first = next(iter(cells.values()), Cell("", ""))
    here = [ratio for ratio in ratios if setting(cells[ratio.a]) == setting(first)]
    known = {cell.id: cell for cell in found}
    return [
        _judge(study, name, _about(claim.shown_by, here, cells), cells, known) for name, claim in study.claims.items()
    ]


def sizes(study: Study, cells: Cells, found: Iterable[Found]) -> list[Ratio]:
    """Ratios of the bytes received per call, of the `cells` that claims about RECEIVED set side by side."""
    shown = [claim.shown_by for claim in study.claims.values()]
    pairs = dict.fromkeys(pair for ratios in shown if ratios.measure == RECEIVED for pair in ratios.pairs)
    analysed = {cells[one.id]: one for one in found}
    ratios: list[Ratio] = []
    for cell, a in analysed.items():
        for row, other in pairs:
            beside = replace(cell, name=other, route=other)
            b = analysed.get(beside)
            if row == cell.name and b and a.received_bytes_per_image and b.received_bytes_per_image:
                # Counted, so its interval is a point.
                value = a.received_bytes_per_image / b.received_bytes_per_image
                verdict: RatioVerdict = NO_VERDICT if a.marks or b.marks else "lower" if value < 1 else "higher"
                ratios.append(Ratio.of("size", cell, beside, RECEIVED, Interval(value, value, value), verdict))
    return ratios


def side(claim: Ratios, ratio: Ratio) -> str:
    """What one ratio says of a claim that these ratios would show."""
    low, high, verdict = ratio.low, ratio.high, str(ratio.verdict)
    if verdict == NO_VERDICT or not low or not high:
        return UNCLEAR
    if claim.measure == TIME and ratio.measure == PER_SECOND:
        low, high, verdict = 1 / high, 1 / low, {"lower": "higher", "higher": "lower"}.get(verdict, verdict)
    equal, differs = is_same(low, high), verdict in ("lower", "higher")
    if claim.expected == "equal":
        beyond = high < SAME_WITHIN[0] or low > SAME_WITHIN[1]
        return SUPPORTS if equal else CONTRADICTS if differs and beyond else UNCLEAR
    if equal and (claim.material or not differs):
        return {True: SUPPORTS, False: CONTRADICTS, None: UNCLEAR}[claim.same_shows]
    least, most = (1 / high, 1 / low) if claim.expected == "lower" else (low, high)
    if not differs:
        return CONTRADICTS if claim.size and most < SIZE_WITHIN[0] * claim.size else UNCLEAR
    if verdict != claim.expected:
        return CONTRADICTS
    if claim.size and (least < SIZE_WITHIN[0] * claim.size or most > SIZE_WITHIN[1] * claim.size):
        return DIRECTION
    return SUPPORTS


def _about(claim: Ratios, ratios: Iterable[Ratio], cells: Cells) -> list[Ratio]:
    """The ratios of its pairs and measure, where its cells are; with `largest`, in the cells with the most of it."""
    found = [
        ratio
        for ratio in ratios
        if (ratio.a_name, ratio.b_name) in claim.pairs
        and (ratio.main if claim.measure == TIME else ratio.measure == claim.measure)
        and claim.about(cells[ratio.a])
    ]
    if not claim.largest:
        return found
    most = max((ratio[claim.largest] for ratio in found), default=1)
    return [ratio for ratio in found if ratio[claim.largest] == most > 1]


def _judge(study: Study, name: str, ratios: Sequence[Ratio], cells: Cells, found: Mapping[str, Found]) -> Judged:
    claim = study.claims[name]
    if not ratios:
        text = "No cell of this finding was measured. Run the whole study."
        return Judged(name, claim.says, claim.published, "inconclusive", text, "")
    sides = [(ratio, side(claim.shown_by, ratio)) for ratio in ratios]
    shown = {word for _, word in sides}
    refuted = shown == {CONTRADICTS} or (claim.shown_by.everywhere and CONTRADICTS in shown)
    verdict: Verdict = "not reproduced" if refuted else "inconclusive"
    if shown <= {SUPPORTS, DIRECTION}:
        verdict = "reproduced in direction, not in size" if DIRECTION in shown else "reproduced"
    lines = []
    if claim.shown_by.everywhere and refuted:  # a few that refute it are enough
        against = [(ratio, word) for ratio, word in sides if word == CONTRADICTS]
        lines.append(f"{len(against)} of {len(ratios)} ratios contradict the finding, among them:")
        sides = against[:REASONS]
    told = {DIRECTION: f"{DIRECTION}: published {words.amount(claim.shown_by.size or 1)}."}
    lines += [f"{case(study, cells[ratio.a])}: {words.one(ratio)}. {told.get(word, word)}" for ratio, word in sides]
    # Of the ratios that decide, the first: the tables have all of them.
    deciding = next((ratio for ratio, word in sides if word != UNCLEAR), ratios[0])
    a, b = found.get(deciding.a), found.get(deciding.b)
    kind = study.pairs.get((deciding.a_name, deciding.b_name), "")
    more = study.explain(a, b, kind) if a and b else ""
    why, rows = words.differing(deciding, REASONS), f"{deciding.a_name} and {deciding.b_name}"
    cause = f"{rows} differ in {why}." if why else f"No measured factor of {rows} differs by more than 5 %."
    if claim.shown_by.measure == RECEIVED:
        cause = "The bytes were counted."
    return Judged(name, claim.says, claim.published, verdict, "\n".join(lines), f"{more} {cause}".lstrip())
