"""The studies as data: every row can be asked, every claim is about measured cells, every question is answered."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.analysis import claims
from bench.analysis.statistics import Estimate
from bench.measure.cells import parsed_settings
from bench.measure.measured import Cell
from bench.measure.plan import START_S
from bench.result import SAME, Analysis, Interval, Ratio
from bench.studies import STUDIES
from bench.studies.distance import FEW, WORLD
from bench.studies.format import FORMAT_ONLY, SERVER, WHOLE
from bench.studies.study import P50, PER_SECOND, VERDICTS, Claim, Measure, Ratios, Study, per_calls
from locustfiles.routes import ROUTES
from locustfiles.study_routes import WAYS, first_size, offered
from locustfiles.study_routes import distance as lists
from locustfiles.study_routes.encodings import KSERVE
from tests.unit.tiny_artifacts import declare

REPRODUCED, IN_DIRECTION, NOT_REPRODUCED, INCONCLUSIVE = VERDICTS
QUICK_S, FULL_S = 120, 900
"""How long a study may take: the quick form is a test of the stack's, the whole one fits into a break."""

every = pytest.mark.parametrize("study", STUDIES.values(), ids=lambda study: study.name)
# Findings of the 5-way comparison are about several cells at once: test_bench_analysis.py.
others = pytest.mark.parametrize("study", list(STUDIES.values())[1:], ids=lambda study: study.name)


@every
@pytest.mark.parametrize("quick", [True, False], ids=["quick", "full"])
def test_every_cell_can_be_asked(study: Study, quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its factors are accepted, no two cells have one name, and each row has one; by its windows it is not too long."""
    monkeypatch.setenv("ARTIFACTS", str(tmp_path))
    declare(tmp_path)
    cells = study.cells(quick)
    seconds = 0.0
    for cell in cells:
        parsed_settings(cell, "http://edge:8080")
        window = max(study.seconds / (3 if quick else 1), study.least(cell))
        seconds += window + max(study.warm_s, study.least(cell)) + START_S
    assert len({cell.id for cell in cells}) == len(cells)
    assert {cell.route for cell in cells} <= set(study.routes) == {cell.route for cell in study.cells(False)}
    if study.name != "fiveway":  # which has windows of its own (plan.py)
        assert (3 * seconds <= QUICK_S) if quick else (study.blocks * seconds <= FULL_S)


@every
def test_pairs_claims_and_rows_fit(study: Study) -> None:
    """A claim compares pairs that the study compares, of rows that it has; published numbers have a source. Two studies
    may share a row, but never give one name to two ways; one without a model says what it is asked."""
    rows = {cell.name for cell in study.cells(False)}
    assert rows == {name for pair in study.pairs for name in pair}
    for name, claim in study.claims.items():
        assert set(claim.shown_by.pairs) <= set(study.pairs), name
    beside = [study.measures[0].published(cell) for cell in study.cells(False)]
    assert study.question.endswith("?")
    assert bool(study.source) or not any(beside)
    assert study.advice
    assert all(set(numbers) == rows for numbers in study.declared.values())
    for name, route in study.routes.items():
        assert WAYS[name] == route
        assert route.name == name
        assert name not in ROUTES or route is ROUTES[name]


def test_a_long_call_has_a_long_visit() -> None:
    """A channel per call across the world takes seconds: its visit has three calls, and one before them."""
    least = STUDIES["distance"].least
    near, world = (
        Cell(lists.GRPC_NEW, lists.GRPC_NEW, size=lists.LIST, distance=where) for where in ("0ms-1000mbit", WORLD)
    )
    assert least(near) < 1 < 3 * 2.4 < least(world)
    assert least(Cell(lists.GZIP, lists.GZIP, size="100000", distance=WORLD)) > 3 * 0.3


def between(a: Cell, b: str, value: float, measure: Any = P50) -> Ratio:
    """The ratio of a cell to the same one of row `b`, with an interval around `value`."""
    low, high = value * 0.99, value * 1.01
    verdict: Any = "lower" if high < 1 else "higher" if low > 1 else SAME
    return Ratio.of("protocol", a, replace(a, name=b, route=b), measure, Interval(value, low, high), verdict)


def ratio(verdict: Any, value: float, low: float | None, high: float | None, measure: Any = P50) -> Ratio:
    found = Ratio.of("protocol", Cell("a", "a"), Cell("b", "b"), measure, Interval(value, low, high), verdict)
    found.why = ["bytes sent: 1"]
    return found


@others
@pytest.mark.parametrize("strength", [50, 1.3, 0.4])
def test_claims_are_judged_by_their_own_cells(study: Study, strength: float) -> None:
    """Reproduced on the side of the finding, in direction only where it names another size; not reproduced on the other
    side. Cells that it is not about show the opposite, and that says nothing."""
    cells = {cell.id: cell for cell in study.cells(False)}
    for name, claim in study.claims.items():
        shown = claim.shown_by
        right = {"equal": min(strength, 1.0), "lower": 1 / strength, "higher": strength}[shown.expected]
        wrong = 3.0 if shown.expected == "equal" else 1 / right
        ratios = [
            between(cell, b, right if shown.about(cell) else wrong, shown.measure)
            for a, b in shown.pairs
            for cell in cells.values()
            if cell.name == a
        ]
        (one,) = [one for one in claims.judge(study, cells, ratios) if one.id == name]
        holds = strength >= 1 or (shown.expected == "equal" and right == 1)
        in_size = not shown.size or 0.8 < right ** {"lower": -1}.get(shown.expected, 1) / shown.size < 1.25
        assert one.verdict == (NOT_REPRODUCED if not holds else REPRODUCED if in_size else IN_DIRECTION), name


def test_a_claim_is_about_some_cells() -> None:
    """What other cells show says nothing of it."""
    large = Cell("", "", gather=True, photo="1080x1920")
    across = Cell("", "", size=lists.LIST, distance=WORLD)
    base, distance = (STUDIES[study].claims[claim].shown_by for study, claim in (("base", "B3a"), ("distance", "D1")))
    assert (base.about(replace(large, photo="360x640")), base.about(large)) == (True, False)
    assert (distance.about(across), distance.about(replace(across, policy="cold"))) == (True, False)


@pytest.mark.parametrize(
    ("compressed", "marks", "verdicts"),
    [
        (580_000, [], [REPRODUCED, REPRODUCED]),
        (900_000, [], [NOT_REPRODUCED, REPRODUCED]),
        (580_000, ["its answers do not agree"], [INCONCLUSIVE, REPRODUCED]),
    ],
)
def test_claims_about_sizes_are_judged_by_the_bytes(compressed: int, marks: list[str], verdicts: list[str]) -> None:
    """Of equal cells, as they were counted; a cell with a mark says nothing."""
    study = STUDIES["distance"]
    received = {lists.JSON: 1_600_000, lists.GZIP: compressed, lists.PROTOBUF: 605_000}
    cells = [Cell(row, row, size=lists.LIST) for row in received]
    cells.append(replace(cells[0], size=FEW))  # its like is not there
    by_id = {cell.id: cell for cell in cells}
    found: list[Any] = [
        SimpleNamespace(
            id=cell.id, received_bytes_per_image=received[cell.route], marks=marks * (cell.route == lists.GZIP)
        )
        for cell in cells
    ]
    ratios = claims.sizes(study, by_id, found)
    assert len(ratios) == 2
    judged = {one.id: one for one in claims.judge(study, by_id, ratios)}
    assert [judged[name].verdict for name in ("D8", "D9")] == verdicts
    assert "vectors-json is 2.6 times larger than vectors-protobuf. Supports" in judged["D9"].text


FASTER = Ratios([("a", "b")], "lower")
FOUR_TIMES = Ratios([("a", "b")], "lower", size=4)
EQUAL = Ratios([("a", "b")], "equal")
TWICE = Ratios([("a", "b")], "higher", size=2)


@pytest.mark.parametrize(
    ("claim", "found", "side"),
    [
        (FASTER, ratio("lower", 0.5, 0.4, 0.6), claims.SUPPORTS),
        (FASTER, ratio("higher", 1.5, 1.4, 1.6), claims.CONTRADICTS),
        (FASTER, ratio("no difference shown", 1.0, 0.95, 1.05), claims.CONTRADICTS),
        (FASTER, ratio("no difference shown", 1.0, 0.5, 2.0), claims.UNCLEAR),
        (FASTER, ratio("no verdict", 0.5, 0.4, 0.6), claims.UNCLEAR),
        (FASTER, ratio("lower", 0.5, None, None), claims.UNCLEAR),
        (FOUR_TIMES, ratio("lower", 0.5, 0.4, 0.6), claims.DIRECTION),  # 2.5 times at most
        (FOUR_TIMES, ratio("lower", 0.25, 0.2, 0.35), claims.DIRECTION),  # 2.9 times at least: wide shows no size
        (FOUR_TIMES, ratio("lower", 0.26, 0.21, 0.31), claims.SUPPORTS),  # 3.2 to 4.8 times
        (FOUR_TIMES, ratio("no difference shown", 0.8, 0.5, 1.3), claims.CONTRADICTS),  # twice at most
        (FOUR_TIMES, ratio("no difference shown", 0.6, 0.2, 1.8), claims.UNCLEAR),
        (TWICE, ratio("higher", 2.9, 2.6, 3.2), claims.DIRECTION),  # more than the claim says
        (EQUAL, ratio("no difference shown", 1.0, 0.95, 1.05), claims.SUPPORTS),
        (EQUAL, ratio("higher", 1.05, 1.02, 1.08), claims.SUPPORTS),  # within a tenth all the same
        (EQUAL, ratio("higher", 1.2, 1.05, 1.4), claims.UNCLEAR),
        (EQUAL, ratio("higher", 1.5, 1.2, 1.9), claims.CONTRADICTS),
        (EQUAL, ratio("no difference shown", 1.5, 1.2, 1.9), claims.UNCLEAR),  # perhaps chance
    ],
)
def test_a_ratio_supports_a_claim_or_contradicts_it(claim: Ratios, found: Ratio, side: str) -> None:
    """By its interval, on the right side of 1, and as far from it as a claim with a size says."""
    assert claims.side(claim, found) == side


@pytest.mark.parametrize(
    ("blocks", "true", "least", "most"), [(3, 1.15, 0, 0.03), (6, 1.15, 0, 0.03), (6, 1.5, 0.95, 1)]
)
def test_a_size_is_reproduced_by_the_size_alone(blocks: int, true: float, least: float, most: float) -> None:
    """In simulated runs whose blocks differ by 3 %, a claimed 1.5 is seen where it is true, and not where 1.15 is."""
    rng, claim = np.random.default_rng([blocks, round(100 * true)]), Ratios([("a", "b")], "higher", size=1.5)
    sides = []
    for _ in range(1000):
        logs = rng.normal(np.log(true), 0.03 * 2**0.5, blocks)
        one = Estimate({block: float(np.exp(log)) for block, log in enumerate(logs)}).interval
        verdict = "higher" if one.low and one.low > 1 else "no difference shown"
        sides.append(claims.side(claim, ratio(verdict, one.value, one.low, one.high)))
    assert least <= sides.count(claims.SUPPORTS) / len(sides) <= most


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([ratio("lower", 0.5, 0.4, 0.6)], REPRODUCED),
        ([ratio("higher", 1.5, 1.4, 1.6)], NOT_REPRODUCED),
        ([ratio("lower", 0.5, 0.4, 0.6), ratio("higher", 1.5, 1.4, 1.6)], INCONCLUSIVE),
        ([ratio("lower", 0.5, 0.4, 0.6, measure=PER_SECOND)], INCONCLUSIVE),  # another measure: nothing of it measured
        ([], INCONCLUSIVE),
    ],
)
def test_only_all_together_decide_a_claim(found: list[Ratio], verdict: str) -> None:
    """Reproduced where every ratio shows it, not reproduced where every one contradicts it; the cause is a factor."""
    claims_ = {"C1": Claim("a is faster", "0.5x", FASTER)}
    study = Study("s", "Q?", "", lambda _: [], {("a", "b"): "x"}, [Measure("p50, ms", P50)], claims=claims_)
    (judged,) = claims.judge(study, {cell.id: cell for cell in (Cell("a", "a"), Cell("b", "b"))}, found)
    assert (judged.id, judged.verdict) == ("C1", verdict)
    assert ("bytes sent (1)" in judged.cause) == (bool(found) and found[0].measure == P50)


def test_a_measure_turns_its_interval_with_its_value() -> None:
    """20 calls at 10 a second take 2 s; the highest rate is the shortest time."""
    cell: Any = {PER_SECOND: Interval(10.0, 8.0, 16.0), P50: None}
    assert per_calls(20)(cell) == Interval(2.0, 1.25, 2.5)
    assert Measure("p50, ms", P50)(cell) is None


def test_the_page_offers_a_study_where_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """STUDY names whose rows are user classes and what size they ask for; another name is refused."""
    assert (offered(), first_size()) == (ROUTES, "")
    for study in STUDIES.values():
        monkeypatch.setenv("STUDY", study.name)
        assert offered() == {name: row for name, row in study.routes.items() if not row.format.generator}
        assert first_size() in {cell.size for cell in study.cells(True)}
    monkeypatch.setenv("STUDY", "speed")
    with pytest.raises(SystemExit, match="STUDY=speed: choose"):
        offered()


# ---- the questions answered: with the numbers of a result in tests/static/test_results.py


def said(study: str, cells: Sequence[Cell] = (), analysed: Sequence[Any] = (), ratios: Sequence[Ratio] = ()) -> str:
    """The study's answer to a result with these cells and ratios."""
    analysis = Analysis(0.95, list(analysed), list(ratios), [])
    result: Any = SimpleNamespace(cells=cells, analysis=analysis, options={})
    return " ".join(STUDIES[study].answer(result))


@every
def test_without_a_verdict_there_is_no_answer(study: Study) -> None:
    """A result without ratios answers nothing."""
    assert said(study.name) == ""


def test_the_answer_of_encodings_counts_encode_and_call() -> None:
    """The least sum is named first; a marked cell is not ranked, and one row alone gives no answer."""
    costs = {"onnx-http-json": (90, 40), "onnx-http": (1, 9), "onnx-grpc-typed": (0.1, 0.1), "onnx-grpc": (2, 9.5)}
    cells = [Cell(name, name) for name in KSERVE]
    analysed = []
    for cell in cells:
        encode, p50 = costs[cell.name]
        marks = ["its answers do not agree"] * (cell.name == "onnx-grpc-typed")
        numbers = {"p50_ms": Interval(p50), "encode_ms": encode, "decode_ms": 0.5}
        analysed.append(SimpleNamespace(id=cell.id, marks=marks, **numbers))
    found = said("encodings", cells, analysed)
    for words in ("as bytes over HTTP (onnx-http), and 13 times slower as JSON over HTTP", "onnx-grpc-typed)"):
        assert words in found
    assert said("encodings", cells, analysed[:1]) == ""


def three(format_: float, server: float) -> list[Ratio]:
    """What the answer of study format is made of, for one cell of each row."""
    values = {WHOLE: format_ * server, FORMAT_ONLY: format_, SERVER: server}
    return [between(Cell(a, a), b, value) for (a, b), value in values.items()]


@pytest.mark.parametrize(
    ("format_", "server", "says"),
    [
        (0.8, 0.5, "is 2.5 times faster than PyTorch with JPEGs, mostly because of the server and engine."),
        (1.0, 1.0, "and PyTorch with JPEGs are the same within 10 % (1 % faster to 1 % slower)."),
        (4.0, 0.5, "is 2 times slower than PyTorch with JPEGs, only because of the format: a tensor is 25 times"),
        (8.0, 2.0, "is 16 times slower than PyTorch with JPEGs, mostly because of the format: a tensor is 25 times"),
        (0.5, 4.0, "is 2 times slower than PyTorch with JPEGs, only because of the server and engine."),
    ],
)
def test_the_answer_of_format_says_where_a_difference_is_from(format_: float, server: float, says: str) -> None:
    """From the format or the server alone, or mostly, on the log scale. Without a verdict on one of the two there is no
    reason, and without a row no answer."""
    ratios, cells = three(format_, server), STUDIES["format"].cells(False)
    sent = [SimpleNamespace(id=one.id, sent_bytes_per_image=50 if one.name == "onnx-http" else 2) for one in cells]
    assert said("format", cells, sent, ratios).startswith(f"Nearby, Triton with tensors {says}")
    assert said("format", cells, sent, ratios[:2]) == ""
    ratios[1].verdict = "no verdict"
    assert "because" not in said("format", cells, sent, ratios)
    ratios[0].verdict = "no verdict"
    assert "no verdict on Triton" in said("format", cells, sent, ratios)
