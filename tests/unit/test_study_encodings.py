"""The study `encodings`: every form says the same values, answers are read alike, claims judge made-up ratios."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from seldon import prediction_pb2
from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelInferResponse

from bench.analysis import claims
from bench.measure.measured import Cell
from bench.studies import STUDIES
from bench.studies.encodings import CLAIMS, ENCODINGS, ONE
from bench.studies.study import LOWER
from gateways.core.timing import Stages
from gateways.transport.seldon import payload
from locustfiles import payloads
from locustfiles.answers import WrongAnswer
from locustfiles.clients import Answer
from locustfiles.payloads import Images
from locustfiles.study_routes import WAYS
from locustfiles.study_routes.encodings import KSERVE, MANY, RAW, SELDON, kserve_json, kserve_typed, values
from tests.unit.tiny_artifacts import tiny

SIZES = pytest.mark.parametrize("size", [ONE, MANY])
ROWS = pytest.mark.parametrize("row", SELDON)


def sent(row: str, size: str) -> bytes:
    return WAYS[row].format.encode(Images((), Path(), "", size)).body


def answered(row: str, size: str) -> Answer:
    """What the gateway answers to a row's request."""
    route = WAYS[row]
    serve = payload.answer_json if route.cluster == "seldon-http" else payload.answer_proto
    return Answer(serve(sent(row, size), route.headers.get("x-mode"), Stages()))


@SIZES
@ROWS
def test_every_form_holds_the_same_values(row: str, size: str) -> None:
    """Whatever the form, the gateway's array has the published benchmark's values: integers from 0, in one row."""
    if WAYS[row].cluster == "seldon-http":
        form, decoded = payload.decode_json(json.loads(sent(row, size)))
    else:
        form, decoded = payload.decode_proto(prediction_pb2.SeldonMessage.FromString(sent(row, size)))
    assert form == row.removesuffix(RAW).rpartition("-")[2]
    assert decoded.shape == (1, int(size))
    assert np.array_equal(decoded, values(size))


@SIZES
@ROWS
def test_every_answer_is_read_alike(row: str, size: str) -> None:
    """Decoded, the sum of the values; raw, 1: one number, whatever the form and the protocol."""
    form = WAYS[row].format
    assert form.read
    found = answered(row, size)
    form.check(found, 1)
    assert form.read(found).tolist() == [1.0 if RAW in row else values(size).sum()]


@pytest.mark.parametrize("row", ["seldon-http-ndarray", "seldon-grpc-ndarray"])
def test_another_answer_is_wrong(row: str) -> None:
    """No message, and a message without one number."""
    for body in (b"{", b'{"data": {"ndarray": [1, 2]}}', b"\xff", b""):
        with pytest.raises(WrongAnswer):
            WAYS[row].format.check(Answer(body), 1)


def test_kserve_forms_hold_the_photo_s_tensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON and typed contents say what the stack's own routes say in bytes, and ask for the same output."""
    folder = tiny(tmp_path)
    monkeypatch.setenv("ARTIFACTS", str(folder))
    images = Images(payloads.photos("224x224")[:2], folder / "tiny" / "tensors", "tiny")
    tensor = payloads.tensor(images)
    assert tensor.size == 2 * 150_528
    plain = json.loads(kserve_json(images).body)
    (about,) = plain["inputs"]
    assert (about["name"], about["datatype"], tuple(about["shape"])) == ("image", "FP32", tensor.shape)
    assert np.array_equal(np.array(about["data"], "<f4"), tensor.ravel())
    assert plain["outputs"] == [{"name": "embedding"}]
    typed = ModelInferRequest.FromString(kserve_typed(images).body)
    raw = ModelInferRequest.FromString(payloads.kserve_grpc(images).body)
    assert np.array_equal(np.array(typed.inputs[0].contents.fp32_contents, "<f4").tobytes(), raw.raw_input_contents[0])
    assert not typed.raw_input_contents
    typed.inputs[0].ClearField("contents")
    raw.ClearField("raw_input_contents")
    assert typed == raw
    assert kserve_json(images).images == kserve_typed(images).images == 2


def test_kserve_answers_are_read_alike() -> None:
    """An embedding of numbers in JSON, and of bytes over gRPC; a row too few is a wrong answer."""
    embedding = np.array([[0.5, -1.25], [2.0, 3.0]], "<f4")
    output = {"name": "embedding", "datatype": "FP32", "shape": [2, 2], "data": embedding.ravel().tolist()}
    message = ModelInferResponse(raw_output_contents=[embedding.tobytes()])
    message.outputs.add(name="embedding", datatype="FP32", shape=[2, 2])
    for row, body in (
        ("onnx-http-json", json.dumps({"outputs": [output]}).encode()),
        ("onnx-grpc-typed", message.SerializeToString()),
    ):
        form = WAYS[row].format
        assert form.read
        form.check(Answer(body), 2)
        assert np.array_equal(form.read(Answer(body)), embedding)
        with pytest.raises(WrongAnswer):
            form.check(Answer(body), 1)
    for body in (b"", b"[]", json.dumps({"outputs": [output | {"data": [1.0]}]}).encode()):
        with pytest.raises(WrongAnswer):
            WAYS["onnx-http-json"].format.check(Answer(body), 2)


def test_the_cells_are_those_of_the_issue() -> None:
    """Twelve rows of Seldon's at both sizes, four of KServe's, one user; the quick form has every decoded one."""
    full, quick = ENCODINGS.cells(False), ENCODINGS.cells(True)
    assert len(full) == len(set(full)) == 12 * 2 + 4
    assert {cell.name for cell in full} == set(SELDON) | set(KSERVE)
    assert {(cell.users, cell.batch, cell.policy) for cell in full} == {(1, 1, "pooled")}
    assert len(quick) == 12
    assert set(quick) < set(full)
    assert {cell.name for cell in quick} > {name for name in SELDON if RAW not in name}


def test_the_rows_are_counted_by_their_gateways() -> None:
    """Envoy knows Seldon's two gateways, and the routes to Triton, by the names of the stack."""
    assert {WAYS[row].cluster for row in SELDON} == {"seldon-http", "seldon-grpc"}
    assert {WAYS[row].cluster for row in KSERVE} == {"onnx-http", "onnx-grpc"}
    assert {WAYS[row].headers.get("x-mode") for row in SELDON if RAW in row} == {"raw"}
    assert STUDIES["encodings"] is ENCODINGS


@pytest.mark.parametrize(
    ("row", "size", "expected"),
    [
        ("seldon-http-ndarray", MANY, 19.355),
        ("seldon-grpc-ndarray-raw", MANY, 46.03),
        ("seldon-grpc-tftensor", ONE, 1.57),
        ("seldon-grpc-tftensor-raw", ONE, None),
        ("onnx-http", "", None),
    ],
)
def test_published_numbers_stand_beside_their_rows(row: str, size: str, expected: float | None) -> None:
    """As the tools printed them; raw calls with one value were not published."""
    found = ENCODINGS.published({"name": row, "size": size})
    assert list(found.values()) == ([] if expected is None else [expected])


def test_every_pair_of_a_claim_is_compared() -> None:
    """A claim rests on ratios that the study makes, of rows that it has."""
    for claim in CLAIMS:
        assert set(claim.pairs) <= set(ENCODINGS.pairs), claim.id
    assert {name for pair in ENCODINGS.pairs for name in pair} == set(ENCODINGS.routes)


def ratio(a: str, b: str, size: str, value: float) -> dict[str, Any]:
    """A ratio with a narrow interval around `value`."""
    return {
        "a": Cell(a, a, size=size).id,
        "b": Cell(b, b, size=size).id,
        "a_name": a,
        "b_name": b,
        "measure": "p50_ms",
        "value": value,
        "low": value * 0.99,
        "high": value * 1.01,
        "verdict": "lower" if value < 0.99 else "higher" if value > 1.01 else "no difference shown",
        "why": [],
    }


def judged(right: float) -> dict[str, str]:
    """The verdicts where every ratio is `right`, or its inverse where a claim expects the other side."""
    cells = {cell.id: {"size": cell.size} for cell in ENCODINGS.cells(False)}
    found = {}
    for claim in CLAIMS:
        value = right if claim.expected == LOWER else 1 / right
        ratios = [ratio(a, b, size, value) for a, b in claim.pairs for size in (MANY, ONE)]
        (verdict,) = [one for one in claims.judge(ENCODINGS, cells, ratios) if one["id"] == claim.id]
        found[claim.id] = verdict["verdict"]
    return found


def test_claims_are_judged() -> None:
    """On the side of the finding it is reproduced, on the other not; a 32nd has to be about a 32nd."""
    assert set(judged(1 / 40).values()) == {"reproduced"}
    assert judged(0.5) == dict.fromkeys(judged(0.5), "reproduced") | {"E4": "not reproduced"}
    assert set(judged(2.0).values()) == {"not reproduced"}


def test_a_claim_is_about_its_size_alone() -> None:
    """What one value shows says nothing of 100,000."""
    cells = {cell.id: {"size": cell.size} for cell in ENCODINGS.cells(False)}
    ratios = [ratio("seldon-grpc-tensor", "seldon-http-tensor", ONE, 0.5)]
    verdicts = {one["id"]: one["verdict"] for one in claims.judge(ENCODINGS, cells, ratios)}
    assert verdicts["E2"] == "reproduced"
    assert verdicts["E1"] == "cannot tell"


def test_the_answer_counts_encode_call_and_decode() -> None:
    """The least sum is named first; a marked cell is not ranked, and without two rows there is no answer."""
    cells = [Cell(name, name) for name in KSERVE]
    costs = {
        "onnx-http-json": (90.0, 40.0),
        "onnx-http": (1.0, 9.0),
        "onnx-grpc-typed": (0.1, 0.1),
        "onnx-grpc": (2.0, 9.5),
    }
    analysed = [
        {
            "id": cell.id,
            "p50_ms": {"value": costs[cell.name][1]},
            "encode_ms": costs[cell.name][0],
            "decode_ms": 0.5,
            "marks": ["its answers do not agree"] if cell.name == "onnx-grpc-typed" else [],
        }
        for cell in cells
    ]
    result = {"cells": [{"id": c.id, "name": c.name, "size": c.size} for c in cells], "analysis": {"cells": analysed}}
    assert ENCODINGS.answer(result) == (
        "On this machine an image's tensor to Triton costs least as onnx-http: 10.5 ms to encode, call and decode "
        "(onnx-grpc 12 ms, onnx-http-json 130 ms; not ranked, because no verdict may rest on it: onnx-grpc-typed)."
    )
    assert ENCODINGS.answer(result | {"analysis": {"cells": analysed[:1]}}) == ""
