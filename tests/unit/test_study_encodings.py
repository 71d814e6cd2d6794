"""The rows of study `encodings`: every form says the same values, and answers are read alike."""

import json
from pathlib import Path

import numpy as np
import pytest
from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelInferResponse

from bench.studies.encodings import ONE
from gateways.core.timing import Stages
from gateways.transport.seldon import payload
from locustfiles import payloads
from locustfiles.answers import WrongAnswer
from locustfiles.clients import Answer
from locustfiles.payloads import Images
from locustfiles.study_routes import WAYS
from locustfiles.study_routes.encodings import MANY, RAW, SELDON, kserve_json, kserve_typed, values
from tests.unit.tiny_artifacts import tiny


@pytest.mark.parametrize("size", [ONE, MANY])
@pytest.mark.parametrize("row", SELDON)
def test_every_form_holds_the_same_values_and_is_read_alike(row: str, size: str) -> None:
    """Whatever the form, the gateway's array has the published benchmark's values: integers from 0, in one row. It
    answers with one number: decoded, the sum of the values; raw, 1."""
    route = WAYS[row]
    written = payload.JSON if route.cluster == "seldon-http" else payload.PROTO
    body = route.format.encode(Images((), Path(), "", size)).body
    parse, decode, _ = written
    named, decoded = decode(parse(body))
    assert named == row.removesuffix(RAW).rpartition("-")[2]
    assert decoded.shape == (1, int(size))
    assert np.array_equal(decoded, values(size))
    found = Answer(payload.answer(written, body, route.headers.get("x-mode"), Stages()))
    route.format.check(found, 1)
    assert route.format.read(found).tolist() == [1.0 if RAW in row else values(size).sum()]


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
        form.check(Answer(body), 2)
        assert np.array_equal(form.read(Answer(body)), embedding)
        with pytest.raises(WrongAnswer):
            form.check(Answer(body), 1)
    for body in (b"", b"[]", json.dumps({"outputs": [output | {"data": [1.0]}]}).encode()):
        with pytest.raises(WrongAnswer):
            WAYS["onnx-http-json"].format.check(Answer(body), 2)
