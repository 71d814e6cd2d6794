"""The study `torchserve`: base64 is what our handler takes, answers are read alike, claims judge made-up ratios."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from torchserve.inference_pb2 import PredictionResponse, PredictionsRequest

from bench.analysis import claims
from bench.measure.measured import Cell
from bench.studies import STUDIES
from bench.studies.torchserve import SIZES, TORCHSERVE
from locustfiles import payloads
from locustfiles.answers import WrongAnswer
from locustfiles.clients import Answer
from locustfiles.payloads import Images
from locustfiles.routes import ROUTES
from locustfiles.study_routes import WAYS
from locustfiles.study_routes.torchserve import ROWS
from servers.torchserve.handler import jpeg_of

IMAGES = Images(payloads.photos("360x640")[:1], Path(), "tiny")
JPEG = payloads.jpeg(IMAGES).body


def test_base64_arrives_as_the_photo() -> None:
    """Over HTTP by its content type, over gRPC in the map of bytes by its first byte: the handler finds the JPEG."""
    row = WAYS["torchserve-http-base64"].format
    assert jpeg_of({"body": row.encode(IMAGES).body}, row.headers["content-type"]) == JPEG
    message = PredictionsRequest.FromString(WAYS["torchserve-grpc-base64"].format.encode(IMAGES).body)
    assert message.model_name == "tiny"
    assert jpeg_of(message.input, "") == JPEG
    assert base64.b64decode(json.loads(message.input["data"])["image"]) == JPEG


@pytest.mark.parametrize("row", ["torchserve-http-base64", "torchserve-grpc-base64"])
def test_an_answer_is_checked_and_read(row: str) -> None:
    """One embedding; an error's JSON is a wrong answer, whatever its status."""

    def answer(body: bytes) -> Answer:
        return Answer(PredictionResponse(prediction=body).SerializeToString() if "grpc" in row else body)

    form = WAYS[row].format
    assert form.read
    good = answer(b'{"embedding":[0.5,-1.25],"classes":[{"index":1}]}')
    form.check(good, 1)
    assert form.read(good) == [[0.5, -1.25]]
    with pytest.raises(WrongAnswer):
        form.check(answer(b'{"code":400,"type":"InvalidInput","message":"no JPEG"}'), 1)


def test_the_cells_are_those_of_the_issue() -> None:
    """Six rows at three sizes, alone and in gathers of 20; the quick form has the smallest size."""
    full, quick = TORCHSERVE.cells(False), TORCHSERVE.cells(True)
    assert len(full) == len(set(full)) == 6 * 3 * 2
    assert {cell.photo for cell in full} == set(SIZES) == {"360x640", "720x1280", "1080x1920"}
    assert {(cell.users, cell.gather) for cell in full} == {(1, False), (20, True)}
    assert set(quick) == {cell for cell in full if cell.photo == "360x640"}
    assert {cell.name for cell in quick} == set(ROWS)


def test_rows_of_the_stack_are_the_stack_s() -> None:
    """Four rows are routes as they are; the base64 rows ask two of them, and are counted there."""
    assert {name for name in ROWS if ROWS[name] is ROUTES.get(name)} == set(ROWS) & set(ROUTES)
    assert {ROWS[name].cluster for name in set(ROWS) - set(ROUTES)} == {"torchserve-http", "torchserve-grpc"}
    assert STUDIES["torchserve"] is TORCHSERVE


@pytest.mark.parametrize(
    ("row", "size", "expected"),
    [
        ("torchserve-http", "360x640", 0.628),
        ("torchserve-http-base64", "1080x1920", 2.188),
        ("torchserve-grpc", "720x1280", 0.927),
        ("torchserve-grpc-base64", "720x1280", None),
        ("typed-grpc", "360x640", None),
    ],
)
def test_published_numbers_stand_beside_their_rows(row: str, size: str, expected: float | None) -> None:
    """For gathers only; base64 over gRPC was left out."""
    found = TORCHSERVE.published({"name": row, "photo": size, "gather": True})
    assert list(found.values()) == ([] if expected is None else [expected])
    assert not TORCHSERVE.published({"name": row, "photo": size, "gather": False})


def test_every_pair_of_a_claim_is_compared() -> None:
    """A claim rests on ratios that the study makes, of rows that it has."""
    for claim in TORCHSERVE.claims:
        assert set(claim.pairs) <= set(TORCHSERVE.pairs), claim.id
    assert {name for pair in TORCHSERVE.pairs for name in pair} == set(ROWS)


def ratio(a: str, b: str, value: float, *, gather: bool = True) -> dict[str, Any]:
    """A ratio with a narrow interval around `value`: of calls per second in a gather, of latencies alone."""
    users = 20 if gather else 1
    return {
        "a": Cell(a, a, users=users, photo=SIZES[0], gather=gather).id,
        "b": Cell(b, b, users=users, photo=SIZES[0], gather=gather).id,
        "a_name": a,
        "b_name": b,
        "measure": "images_per_s" if gather else "p50_ms",
        "value": value,
        "low": value * 0.99,
        "high": value * 1.01,
        "verdict": "lower" if value < 0.99 else "higher" if value > 1.01 else "no difference shown",
        "why": [],
    }


@pytest.mark.parametrize(
    ("grpc", "base64_", "typed", "verdicts"),
    [
        (1.0, 0.7, 0.8, ["reproduced", "reproduced", "reproduced"]),
        (0.95, 0.97, 1.2, ["reproduced", "not reproduced", "not reproduced"]),
        (1.3, 1.1, 1.0, ["not reproduced", "not reproduced", "not reproduced"]),
    ],
)
def test_claims_are_judged(grpc: float, base64_: float, typed: float, verdicts: list[str]) -> None:
    """No significant difference is within a tenth; base64 has to cost about a third."""
    cells = {cell.id: {"gather": cell.gather} for cell in TORCHSERVE.cells(False)}
    ratios = [
        ratio("torchserve-grpc", "torchserve-http", grpc),
        ratio("torchserve-http-base64", "torchserve-http", base64_),
        ratio("typed-grpc", "torchserve-grpc", typed, gather=False),
    ]
    assert [one["verdict"] for one in claims.judge(TORCHSERVE, cells, ratios)] == verdicts


def test_the_answer_names_the_ratios() -> None:
    """Of gathers with a verdict; without one there is no answer."""
    cells = [{"id": cell.id, "gather": cell.gather} for cell in TORCHSERVE.cells(False)]
    ratios = [
        ratio("torchserve-grpc", "torchserve-http", 0.97),
        ratio("typed-grpc", "torchserve-grpc", 2, gather=False),
    ]
    found = {"cells": cells, "analysis": {"ratios": ratios}}
    assert TORCHSERVE.answer(found) == "As many calls per second in gathers of 20: 0.97x with gRPC as REST."
    assert TORCHSERVE.answer({"cells": cells, "analysis": {"ratios": []}}) == ""
