"""The studies as data: every row can be asked, every claim is about cells that are measured."""

import itertools
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bench.analysis import claims
from bench.measure.plan import START_S
from bench.result import Interval
from bench.studies import STUDIES
from bench.studies.fiveway import FIVEWAY
from bench.studies.study import (
    CANNOT_TELL,
    EQUAL,
    HIGHER,
    LOWER,
    NOT_REPRODUCED,
    P50,
    PER_SECOND,
    REPRODUCED,
    Claim,
    Measure,
    Study,
    per_calls,
)  # fmt: skip
from locustfiles.routes import ROUTES
from locustfiles.settings import parse
from locustfiles.study_routes import STUDY_ROUTES, WAYS, first_size, offered
from tests.unit.tiny_artifacts import declare

QUICK_S, FULL_S = 120, 900
"""How long a study may take: the quick form is a test of the stack's, the whole one fits into a break."""

every = pytest.mark.parametrize("study", STUDIES.values(), ids=lambda study: study.name)


@every
@pytest.mark.parametrize("quick", [True, False], ids=["quick", "full"])
def test_every_cell_can_be_asked(study: Study, quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its row is one of the study's, its factors are accepted, and no two cells have one name."""
    monkeypatch.setenv("ARTIFACTS", str(tmp_path))
    declare(tmp_path)
    cells = study.cells(quick)
    for cell in cells:
        assert cell.route in study.routes
        chosen = {name: getattr(cell, name) for name in ("batch", "photo", "target", "policy", "size", "distance")}
        parse(chosen | {"host": "http://edge:8080"}, [cell.route])
    assert len({cell.id for cell in cells}) == len(cells)
    assert {cell.route for cell in study.cells(False)} == set(study.routes)


@every
def test_a_study_is_not_longer_than_a_break(study: Study) -> None:
    """By its windows: three blocks of the quick form, all blocks of the whole one."""
    if study is FIVEWAY:  # the published matrix, with windows of its own (plan.py): under 5 and about 20 minutes
        return
    quick = 3 * len(study.cells(True)) * (study.seconds / 3 + 0.5 + START_S)
    full = study.blocks * len(study.cells(False)) * (study.seconds + 1 + START_S)
    assert quick <= QUICK_S
    assert full <= FULL_S


@every
def test_claims_and_pairs_are_about_rows(study: Study) -> None:
    """Each claim compares pairs that the study compares, in cells that the whole study measures."""
    names = {cell.name for cell in study.cells(False)}
    for pair in study.pairs:
        assert set(pair) <= names
    assert len({claim.id for claim in study.claims}) == len(study.claims)
    for claim in study.claims:
        assert set(claim.pairs) <= set(study.pairs), claim.id
        rows = [asdict(cell) for cell in study.cells(False)]
        met = [row for row in rows if claim.where(row) and row["name"] in set(itertools.chain(*claim.pairs))]
        assert met, claim.id


@every
def test_a_study_says_where_it_is_from(study: Study) -> None:
    """Published numbers stand beside cells of the whole study, and have a source."""
    beside = [study.published(asdict(cell)) for cell in study.cells(False)]
    assert study.question.endswith("?")
    assert bool(study.source) or not any(beside)
    assert study.advice


def test_a_row_is_one_way_to_ask() -> None:
    """Two studies may share a row; they never give one name to two ways. Each goes through a route of Envoy's."""
    for study in STUDIES.values():
        for name, route in study.routes.items():
            assert WAYS[name] == route
            assert route.name == name
            if name in ROUTES:
                assert route is ROUTES[name]


def ratio(verdict: str, value: float, low: float | None, high: float | None, **more: object) -> dict[str, object]:
    about = {"a": "a/b1/c1", "b": "b/b1/c1", "a_name": "a", "b_name": "b", "measure": P50, "why": ["bytes sent: 1"]}
    return about | {"verdict": verdict, "value": value, "low": low, "high": high} | more


FASTER = Claim("C1", "a is faster", "0.5x", [("a", "b")], LOWER)
FOUR_TIMES = Claim("C2", "a is four times faster", "0.25x", [("a", "b")], LOWER, size=4)
SAME = Claim("C4", "a and b are the same", "1.0x", [("a", "b")], EQUAL)
TWICE = Claim("C3", "a takes twice as long", "2x", [("a", "b")], HIGHER, size=2)


@pytest.mark.parametrize(
    ("claim", "found", "side"),
    [
        (FASTER, ratio("lower", 0.5, 0.4, 0.6), claims.SHOWS),
        (FASTER, ratio("higher", 1.5, 1.4, 1.6), claims.CONTRADICTS),
        (FASTER, ratio("no difference shown", 1.0, 0.95, 1.05), claims.CONTRADICTS),
        (FASTER, ratio("no difference shown", 1.0, 0.5, 2.0), claims.UNCLEAR),
        (FASTER, ratio("no verdict", 0.5, 0.4, 0.6), claims.UNCLEAR),
        (FASTER, ratio("lower", 0.5, None, None), claims.UNCLEAR),
        (FOUR_TIMES, ratio("lower", 0.5, 0.4, 0.6), claims.CONTRADICTS),  # 2.5 times at most
        (FOUR_TIMES, ratio("lower", 0.35, 0.3, 0.4), claims.SHOWS),  # 3.3 times at most: 80 % of four
        (
            FOUR_TIMES,
            ratio("no difference shown", 0.8, 0.5, 1.3),
            claims.CONTRADICTS,
        ),  # no difference, or twice at most
        (FOUR_TIMES, ratio("no difference shown", 0.6, 0.2, 1.8), claims.UNCLEAR),
        (FOUR_TIMES, ratio("no verdict", 0.9, 0.8, 1.0), claims.UNCLEAR),
        (TWICE, ratio("higher", 1.2, 1.1, 1.3), claims.CONTRADICTS),
        (TWICE, ratio("higher", 1.5, 1.2, 1.9), claims.SHOWS),
        (SAME, ratio("no difference shown", 1.0, 0.95, 1.05), claims.SHOWS),
        (SAME, ratio("higher", 1.05, 1.02, 1.08), claims.SHOWS),  # within a tenth all the same
        (SAME, ratio("higher", 1.2, 1.05, 1.4), claims.UNCLEAR),
        (SAME, ratio("higher", 1.5, 1.2, 1.9), claims.CONTRADICTS),
        (SAME, ratio("no difference shown", 1.5, 1.2, 1.9), claims.UNCLEAR),  # perhaps chance
    ],
)
def test_a_ratio_shows_a_claim_or_contradicts_it(claim: Claim, found: dict[str, object], side: str) -> None:
    """By its interval, on the right side of 1, and as far from it as a claim with a size says."""
    assert claims.side(claim, found) == side


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([ratio("lower", 0.5, 0.4, 0.6)], REPRODUCED),
        ([ratio("higher", 1.5, 1.4, 1.6)], NOT_REPRODUCED),
        ([ratio("lower", 0.5, 0.4, 0.6), ratio("higher", 1.5, 1.4, 1.6)], CANNOT_TELL),
        ([ratio("lower", 0.5, 0.4, 0.6, measure=PER_SECOND)], CANNOT_TELL),  # another measure: nothing of it measured
        ([], CANNOT_TELL),
    ],
)
def test_only_all_together_decide_a_claim(found: list[dict[str, object]], verdict: str) -> None:
    """Reproduced where every ratio shows it, not reproduced where every one contradicts it; the cause is a factor."""
    study = Study("s", "Q?", "", {}, lambda _: [], {("a", "b"): "x"}, [Measure("p50, ms", P50)], claims=[FASTER])
    (judged,) = claims.judge(study, {"a/b1/c1": {}, "b/b1/c1": {}}, found)
    assert (judged["id"], judged["verdict"]) == ("C1", verdict)
    assert ("bytes sent: 1" in judged["cause"]) == (bool(found) and found[0]["measure"] == P50)


def test_a_measure_turns_its_interval_with_its_value() -> None:
    """20 calls at 10 a second take 2 s; the highest rate is the shortest time."""
    cell: Any = {PER_SECOND: Interval(10.0, 8.0, 16.0), P50: None}
    assert per_calls(20)(cell) == Interval(2.0, 1.25, 2.5)
    assert Measure("ms per 10 calls", PER_SECOND, 10)(cell) == Interval(100.0, 80.0, 160.0)
    assert Measure("p50, ms", P50)(cell) is None


def test_the_page_offers_a_study_where_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """STUDY names whose rows are user classes; without it they are the stack's routes, and another name is refused."""
    assert offered() is ROUTES
    monkeypatch.setenv("STUDY", "base")
    assert offered() is STUDY_ROUTES["base"]
    for study in STUDIES.values():
        monkeypatch.setenv("STUDY", study.name)
        assert offered() is STUDY_ROUTES[study.name] is study.routes
        assert first_size() == next((cell.size for cell in study.cells(True) if not cell.gather), "")
    monkeypatch.setenv("STUDY", "speed")
    with pytest.raises(SystemExit, match="STUDY=speed: choose from"):
        offered()
