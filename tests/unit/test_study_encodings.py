"""The rows of study `encodings`: every form says the same values, and answers are read alike."""

import json
from pathlib import Path

import numpy as np
import pytest
from tritonclient.grpc.service_pb2 import ModelInferRequest

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
    """JSON and typed contents say what the stack's own routes say in bytes."""
    folder = tiny(tmp_path)
    monkeypatch.setenv("ARTIFACTS", str(folder))
    images = Images(payloads.photos("224x224")[:2], folder / "tiny" / "tensors", "tiny")
    tensor = payloads.tensor(images)
    plain = json.loads(kserve_json(images).body)["inputs"][0]
    typed = ModelInferRequest.FromString(kserve_typed(images).body).inputs[0]
    for shape, sent in ((plain["shape"], plain["data"]), (typed.shape, typed.contents.fp32_contents)):
        assert tuple(shape) == tensor.shape
        assert np.array_equal(np.array(sent, "<f4"), tensor.ravel())
    assert kserve_json(images).images == kserve_typed(images).images == 2


def test_a_kserve_answer_in_json_is_read() -> None:
    """The embedding; a row too few, or another shape than the numbers have, is a wrong answer."""
    form = WAYS["onnx-http-json"].format
    output = {"name": "embedding", "datatype": "FP32", "shape": [2, 2], "data": [0.5, -1.25, 2.0, 3.0]}
    good = Answer(json.dumps({"outputs": [output]}).encode())
    form.check(good, 2)
    assert form.read(good).tolist() == [[0.5, -1.25], [2.0, 3.0]]
    wrong = json.dumps({"outputs": [output | {"data": [1.0]}]}).encode()
    for body, images in ((good.body, 1), (b"", 2), (b"[]", 2), (wrong, 2)):
        with pytest.raises(WrongAnswer):
            form.check(Answer(body), images)
