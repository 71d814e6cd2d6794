"""The study `format`: its cells, its claims on made-up ratios, and its answer in one sentence."""

from itertools import pairwise
from typing import Any

import pytest

from bench.analysis import claims
from bench.measure.measured import Cell
from bench.studies import STUDIES
from bench.studies.format import CLAIMS, FAR, FORMAT, FORMAT_ONLY, SERVER, WHOLE
from bench.studies.study import LOWER
from locustfiles.routes import ROUTES
from locustfiles.study_routes import WAYS
from locustfiles.study_routes.format import ROWS
from locustfiles.toxiproxy import parse


def ratio(a: str, b: str, value: float, measure: str = "p50_ms", wide: float = 0.01, **factors: Any) -> dict[str, Any]:
    """A ratio with an interval around `value`."""
    one, other = (Cell(name, name, **factors) for name in (a, b))
    low, high = value * (1 - wide), value * (1 + wide)
    return {
        "a": one.id,
        "b": other.id,
        "a_name": a,
        "b_name": b,
        "batch": one.batch,
        "users": one.users,
        "measure": measure,
        "value": value,
        "low": low,
        "high": high,
        "verdict": "lower" if high < 1 else "higher" if low > 1 else "no difference shown",
        "why": [],
    }


def result(*ratios: dict[str, Any]) -> dict[str, Any]:
    cells = [{"id": cell.id, "distance": cell.distance} for cell in FORMAT.cells(False)]
    return {"cells": cells, "analysis": {"ratios": list(ratios)}}


def three(format_: float, server: float, distance: str = "", **more: Any) -> list[dict[str, Any]]:
    """What the answer is made of, for one distance."""
    values = {WHOLE: format_ * server, FORMAT_ONLY: format_, SERVER: server}
    return [ratio(*pair, value, distance=distance, **more) for pair, value in values.items()]


def test_the_cells_are_those_of_the_issue() -> None:
    """Near: one image alone and by 8 users, and 8 images. Over 100 Mbit/s at 0, 25 and 150 ms: one image."""
    full, quick = FORMAT.cells(False), FORMAT.cells(True)
    settings = {(cell.batch, cell.users, cell.distance) for cell in full}
    assert settings == {
        (1, 1, ""), (1, 8, ""), (8, 1, ""), (1, 1, "0ms-100mbit"), (1, 1, "25ms-100mbit"), (1, 1, "150ms-100mbit"),
    }  # fmt: skip
    assert len(full) == len(set(full)) == len(settings) * len(ROWS) == 30
    assert {(cell.name, cell.route) for cell in full} == {(row, row) for row in ROWS}
    assert len(quick) == 10
    assert set(quick) < set(full)


def test_its_rows_are_routes_of_the_stack() -> None:
    """As they are: a study of the stack's own."""
    assert all(WAYS[row] is ROUTES[row] for row in ROWS)
    assert STUDIES["format"] is FORMAT


def test_the_published_numbers_are_those_of_the_5_way_comparison() -> None:
    """Beside the cells near by, where it has them."""
    near = {"route": "onnx-http", "batch": 8, "users": 1, "distance": ""}
    assert FORMAT.published(near) == {"A100-SXM4-80GB": 869.2, "RTX-4090": 1466.9}
    assert FORMAT.published(near | {"distance": FAR}) == FORMAT.published(near | {"route": "onnx-jpeg-http"}) == {}


def test_the_published_ratios_are_in_the_claims() -> None:
    """PyTorch's lead as it was published: 208.7 ms against 64.2 ms, and the other device's."""
    published = {claim.id: claim.published for claim in CLAIMS}
    assert published["F1"].startswith("onnx-http / jpeg-http 3.25x on A100-SXM4-80GB and 1.98x on RTX-4090;")
    assert published["F6"] == ("images per second: onnx-grpc / onnx-http 0.58x on A100-SXM4-80GB and 0.23x on RTX-4090")


def test_every_pair_of_a_claim_is_compared() -> None:
    """A claim rests on ratios that the study makes, of rows that it has."""
    for claim in CLAIMS:
        assert set(claim.pairs) <= set(FORMAT.pairs), claim.id
    assert {name for pair in FORMAT.pairs for name in pair} == set(ROWS)


def judged(right: float, wide: float = 0.01) -> set[str]:
    """The verdicts where every ratio in every cell is `right`, or its inverse where a claim expects the other side."""
    cells = {
        cell.id: {"batch": cell.batch, "users": cell.users, "distance": cell.distance} for cell in FORMAT.cells(False)
    }
    factors = list(cells.values())
    found = set()
    for claim in CLAIMS:
        value = right if claim.expected == LOWER else 1 / right
        ratios = [ratio(a, b, value, claim.measure, wide, **one) for a, b in claim.pairs for one in factors]
        found |= {one["verdict"] for one in claims.judge(FORMAT, cells, ratios) if one["id"] == claim.id}
    return found


@pytest.mark.parametrize(
    ("right", "wide", "verdict"),
    [
        (0.5, 0.01, "reproduced"),
        (2.0, 0.01, "not reproduced"),
        (1.0, 0.05, "not reproduced"),
        (1.0, 0.2, "cannot tell"),
    ],
)
def test_claims_are_judged(right: float, wide: float, verdict: str) -> None:
    """On the side of the finding it is reproduced; on the other, or the same, not; too wide an interval cannot tell."""
    assert judged(right, wide) == {verdict}


def test_near_and_far_are_claims_of_their_own() -> None:
    """A tensor that wins near and loses far reproduces one and contradicts the other."""
    cells = {cell.id: {"batch": 1, "users": 1, "distance": cell.distance} for cell in FORMAT.cells(False)}
    ratios = [*three(0.5, 0.5), *three(3.0, 1.1, FAR)]
    verdicts = {one["id"]: one["verdict"] for one in claims.judge(FORMAT, cells, ratios)}
    assert [verdicts[claim] for claim in ("F1", "F2", "F3", "F4")] == ["not reproduced", "reproduced"] * 2


def test_the_answer_splits_the_lead_into_its_factors() -> None:
    """Near and at the largest distance, for one image and one user, on the log scale: 4 = 2 x 2 is half."""
    ratios = [*three(2.0, 2.0), *three(8.0, 0.5, "25ms-100mbit"), *three(8.0, 2.0, FAR), *three(9.0, 9.0, batch=8)]
    assert FORMAT.answer(result(*ratios)) == (
        "Of PyTorch's lead over Triton with tensors, near 50 % was the format (4.00x (3.96 to 4.04) in all = 2.00x "
        "(1.98 to 2.02) by the format x 2.00x (1.98 to 2.02) by server and engine); at a round trip of 150 ms and "
        "100 Mbit/s 75 % was the format (16.00x (15.84 to 16.16) in all = 8.00x (7.92 to 8.08) by the format x 2.00x "
        "(1.98 to 2.02) by server and engine)."
    )


@pytest.mark.parametrize(
    ("format_", "server", "wide", "says"),
    [
        (0.8, 0.5, 0.01, "near there is none (0.40x"),
        (1.0, 1.0, 0.01, "near none is shown ("),
        (4.0, 0.5, 0.01, "near all was the format, and server and engine alone would lose it (2.00x"),
        (0.5, 4.0, 0.01, "near nothing was the format (2.00x"),
    ],
)
def test_the_answer_says_what_kind_of_lead_it_was(format_: float, server: float, wide: float, says: str) -> None:
    """No lead at all, none shown, more than the whole, or none of it."""
    said = FORMAT.answer(result(*three(format_, server, wide=wide)))
    assert said.startswith(f"Of PyTorch's lead over Triton with tensors, {says}")
    assert said.endswith(" by server and engine).")


def test_without_a_verdict_there_is_no_number() -> None:
    """A row that may not be judged is no answer, nor is a run without all three rows."""
    ratios = three(2.0, 2.0)
    assert FORMAT.answer(result(*ratios[:2])) == ""
    ratios[1] |= {"verdict": "no verdict", "low": None, "high": None}
    assert FORMAT.answer(result(*ratios)).endswith("near nothing can be said: a row has no verdict.")


@pytest.mark.parametrize("text", ["0ms-100mbit", "25ms-100mbit", "150ms-100mbit"])
def test_any_whole_round_trip_is_a_distance(text: str) -> None:
    """An odd one too."""
    assert f"{parse(text).round_trip_ms}ms-{parse(text).mbit_per_s}mbit" == text


def test_a_distance_without_a_bandwidth_is_refused() -> None:
    """The text says how to write one."""
    for text in ("25ms", "25ms-0mbit", "2.5ms-100mbit"):
        with pytest.raises(ValueError, match="write a round trip and a bandwidth, like 150ms-100mbit"):
            parse(text)


def test_the_distances_grow() -> None:
    """The answer takes the last one as the largest."""
    trips = [parse(cell.distance).round_trip_ms for cell in FORMAT.cells(False) if cell.distance][:: len(ROWS)]
    assert all(a < b for a, b in pairwise(trips))
