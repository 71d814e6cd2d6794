"""Requests made from a model's metadata, held against the bytes of Triton's own client, and the checks of answers."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client
from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelInferResponse

from locustfiles import calls, tensors
from locustfiles.answers import WrongAnswer
from locustfiles.clients import Answer, CallError, Payload
from locustfiles.routes import ROUTES
from locustfiles.settings import BadSetting, Settings
from locustfiles.tensors import Model, Tensor
from tests.unit.tiny_artifacts import declare

MIXED = Model(
    "mixed",
    (Tensor("text", "BYTES", (2,)), Tensor("ids", "INT64", (-1,), "7"), Tensor("half", "FP16", (1, 3))),
    (Tensor("score", "FP32", (2,)), Tensor("label", "BYTES", (1,))),
    8,
)
STATES = Model(
    "states", (Tensor("x", "FP32", (1, -1)), Tensor("rate", "INT64", (1,))), (Tensor("y", "FP32", (1, 1)),), 0
)
CONFIG = {"max_batch_size": 8, "parameters": {"load.ids": {"string_value": "7"}}}
METADATA = {
    "name": "mixed",
    "inputs": [
        {"name": "text", "datatype": "BYTES", "shape": ["-1", "2"]},
        {"name": "ids", "datatype": "INT64", "shape": [-1, -1]},
        {"name": "half", "datatype": "FP16", "shape": [-1, 1, 3]},
    ],
    "outputs": [
        {"name": "score", "datatype": "FP32", "shape": [-1, 2]},
        {"name": "label", "datatype": "BYTES", "shape": [-1, 1]},
    ],
}


@pytest.fixture(autouse=True)
def artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`mixed` is served, which takes no photos and has no accelerated twin."""
    declare(tmp_path, "mixed", None, images=False)
    monkeypatch.setenv("ARTIFACTS", str(tmp_path))
    return tmp_path


@pytest.fixture
def triton() -> Iterator[str]:
    """host:port of a server that describes `mixed` and knows no other model."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pages = {"/v2/models/mixed": METADATA, "/v2/models/mixed/config": CONFIG}
            found = pages.get(self.path)
            body = json.dumps(found or {"error": "Request for unknown model"}).encode()
            self.send_response(200 if found else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(("model", "batch"), [(MIXED, 1), (MIXED, 3), (STATES, 1)], ids=["one", "three", "unbatched"])
def test_requests_are_those_of_triton_s_own_client(model: Model, batch: int) -> None:
    """Names, types, shapes and raw bytes, strings too, are what tritonclient sends for the same arrays."""
    items = tensors.inputs(model)
    arrays = {
        one.name: np.stack([item[one.name] for item in items[:batch]]) if model.max_batch else items[0][one.name]
        for one in model.inputs
    }
    asked, named, ours = [], [], tensors.encode("HTTP", model, items, 0, batch)
    for one in model.inputs:
        asked.append(http_client.InferInput(one.name, list(arrays[one.name].shape), one.datatype))
        asked[-1].set_data_from_numpy(arrays[one.name])
        named.append(grpc_client.InferInput(one.name, list(arrays[one.name].shape), one.datatype))
        named[-1].set_data_from_numpy(arrays[one.name])
    body, length = http_client.InferenceServerClient.generate_request_body(asked)
    mine = int(ours.headers["inference-header-content-length"])
    assert ours.body[mine:] == body[length:]
    assert json.loads(ours.body[:mine])["inputs"] == json.loads(body[:length])["inputs"]
    message = ModelInferRequest.FromString(tensors.encode("gRPC", model, items, 0, batch).body)
    assert list(message.raw_input_contents) == [one._get_content() for one in named]
    assert [(one.name, one.datatype, list(one.shape)) for one in message.inputs] == [
        (one.name(), one.datatype(), one.shape()) for one in named
    ]
    assert [one.name for one in message.outputs] == [one.name for one in model.outputs]
    assert ours.images == batch


def test_a_model_is_what_its_metadata_says(triton: str) -> None:
    """The batch dimension is Triton's own; strings in shapes are numbers; one request for each model."""
    chosen = Settings(triton, batch=8)
    assert calls.model_of(ROUTES["onnx-http"], chosen) == MIXED
    assert calls.requests_of(ROUTES["onnx-grpc"], chosen)[0].images == 8
    with pytest.raises(BadSetting, match="mixed takes 8 at once: choose batch 1 to 8"):
        calls.requests_of(ROUTES["onnx-http"], Settings(triton, batch=9))


def test_an_unknown_model_is_said(triton: str, artifacts: Path) -> None:
    """What Triton says of a model that it has not reaches the caller."""
    declare(artifacts, "other", None, images=False)
    with pytest.raises(CallError, match=r"HTTP 404: .*unknown model"):
        calls.requests_of(ROUTES["onnx-http"], Settings(triton))


def test_draws_are_the_same_for_every_route() -> None:
    """By a fixed seed: HTTP and gRPC send the same values, so that their answers can be compared."""
    one, other = (tensors.inputs(MIXED) for _ in range(2))
    for a, b in zip(one, other, strict=True):
        assert all(np.array_equal(a[name], b[name]) for name in a)
    assert all(0 <= item["half"].min() <= item["half"].max() <= 1 for item in one)
    assert {item["text"].shape for item in one} == {(2,)}


def test_an_input_can_be_one_value(triton: str) -> None:
    """What config.pbtxt says of an input is what all of it holds; anything but a number is said."""
    model = calls.model_of(ROUTES["onnx-http"], Settings(triton))
    assert {item["ids"].tolist()[0] for item in tensors.inputs(model)} == {7}
    wrong = Model("w", (Tensor("x", "FP32", (2,), "much"),), (), 0)
    with pytest.raises(CallError, match=r"load\.x is 'much' in config\.pbtxt"):
        tensors.inputs(wrong)


def http_answer(outputs: dict[str, tuple[str, list[int], bytes]]) -> Answer:
    about = [
        {"name": name, "datatype": kind, "shape": shape, "parameters": {"binary_data_size": len(raw)}}
        for name, (kind, shape, raw) in outputs.items()
    ]
    header = json.dumps({"outputs": about}).encode()
    raw = b"".join(raw for _, _, raw in outputs.values())
    return Answer(header + raw, {"inference-header-content-length": str(len(header))})


def grpc_answer(outputs: dict[str, tuple[str, list[int], bytes]]) -> Answer:
    message = ModelInferResponse(raw_output_contents=[raw for _, _, raw in outputs.values()])
    for name, (kind, shape, _) in outputs.items():
        message.outputs.add(name=name, datatype=kind, shape=shape)
    return Answer(message.SerializeToString())


ANSWERS = {"HTTP": http_answer, "gRPC": grpc_answer}
GOOD: dict[str, tuple[str, list[int], bytes]] = {
    "score": ("FP32", [2, 2], np.array([1, 2, 3, 4], "<f4").tobytes()),
    "label": ("BYTES", [2, 1], b"\x01\0\0\0a\x02\0\0\0bc"),
}


@pytest.mark.parametrize("protocol", ANSWERS)
def test_a_whole_answer_passes_and_is_one_vector(protocol: str) -> None:
    """Every output with a row per item; all of them by name, after a 1, are what parity compares."""
    answer = ANSWERS[protocol](GOOD)
    tensors.check(protocol, MIXED, answer, 2)
    assert tensors.flat(protocol, answer)[-4:].tolist() == [1, 2, 3, 4]
    assert len(tensors.flat(protocol, answer)) == 1 + len(GOOD["label"][2]) + 4


@pytest.mark.parametrize("protocol", ANSWERS)
@pytest.mark.parametrize(
    ("outputs", "says"),
    [
        ({"score": GOOD["score"]}, "outputs .*label"),
        (GOOD | {"score": ("FP32", [1, 4], GOOD["score"][2])}, "for 2 items"),
        (GOOD | {"score": ("FP32", [2, 3], GOOD["score"][2])}, "16 bytes for output score"),
    ],
)
def test_a_part_of_an_answer_is_wrong(protocol: str, outputs: dict[str, Any], says: str) -> None:
    """A missing output, another number of rows, bytes that are not the shape's."""
    with pytest.raises(WrongAnswer, match=says):
        tensors.check(protocol, MIXED, ANSWERS[protocol](outputs), 2)


@pytest.mark.parametrize("protocol", ANSWERS)
def test_garbage_is_no_answer(protocol: str) -> None:
    """Bytes that are no KServe answer are a wrong answer, not a crash."""
    with pytest.raises(WrongAnswer):
        tensors.check(protocol, MIXED, Answer(b"\xff\xff{", {"inference-header-content-length": "3"}), 2)


def test_bf16_is_the_upper_half_of_a_float() -> None:
    """1.5 is 0x3FC0, to the model and back."""
    model = Model("b", (Tensor("x", "BF16", (1,)),), (Tensor("x", "BF16", (1,)),), 0)
    payload: Payload = tensors.encode("gRPC", model, [{"x": tensors._typed(np.array([1.5]), "BF16")}], 0, 1)
    (raw,) = ModelInferRequest.FromString(payload.body).raw_input_contents
    assert raw == b"\xc0\x3f"
    assert tensors.flat("gRPC", grpc_answer({"x": ("BF16", [1], raw)})).tolist() == [1, 1.5]
