"""Requests made from a model's metadata, held against the bytes of Triton's own client, and the checks of answers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as grpc_client
import tritonclient.http as http_client
from tritonclient.grpc.service_pb2 import ModelInferRequest

from locustfiles import calls, tensors
from locustfiles.answers import WrongAnswer
from locustfiles.clients import Answer, CallError
from locustfiles.routes import ROUTES
from locustfiles.settings import BadSetting, Settings
from locustfiles.tensors import Model, Tensor
from tests.unit.locust_servers import Output, kserve
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
SERVER = {"name": "triton", "extensions": ["binary_tensor_data"]}
METADATA = {
    side: [{"name": one.name, "datatype": one.datatype, "shape": ["-1", *map(str, one.shape)]} for one in said]
    for side, said in (("inputs", MIXED.inputs), ("outputs", MIXED.outputs))
}
"""As Triton says it, in front of whose shapes is the batch."""


@pytest.mark.parametrize(("model", "batch"), [(MIXED, 1), (MIXED, 3), (STATES, 1)], ids=["one", "three", "unbatched"])
def test_requests_are_those_of_triton_s_own_client(model: Model, batch: int) -> None:
    """Names, types, shapes and raw bytes, strings too, are what tritonclient sends for the same arrays."""
    items = tensors.inputs(model)
    asked, named = (
        [
            kind.InferInput(one.name, array.shape, one.datatype).set_data_from_numpy(array)
            for one in model.inputs
            for array in [
                np.stack([item[one.name] for item in items[:batch]]) if model.max_batch else items[0][one.name]
            ]
        ]
        for kind in (http_client, grpc_client)
    )
    ours = tensors.encode("HTTP", model, items, 0, batch)
    body, length = http_client.InferenceServerClient.generate_request_body(asked)
    mine = int(ours.headers["inference-header-content-length"])
    assert ours.body[mine:] == body[length:]
    assert json.loads(ours.body[:mine])["inputs"] == json.loads(body[:length])["inputs"]
    message = ModelInferRequest.FromString(tensors.encode("gRPC", model, items, 0, batch).body)
    assert list(message.raw_input_contents) == [one._get_content() for one in named]
    assert list(message.inputs) == [one._get_tensor() for one in named]
    assert [one.name for one in message.outputs] == [one.name for one in model.outputs]
    assert ours.images == batch


def test_a_model_is_what_its_metadata_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch dimension is Triton's own; strings in shapes are numbers; one request for each model. What Triton says
    of a model that it has not reaches the caller."""

    def get_json(address: str, path: str) -> Any:
        try:
            known = {"/v2": SERVER, "/v2/models/mixed": METADATA, "/v2/models/mixed/config": CONFIG}
            return known[path]
        except KeyError:
            raise CallError("HTTP 404: unknown model") from None

    monkeypatch.setattr(tensors, "get_json", get_json)
    monkeypatch.setenv("ARTIFACTS", str(tmp_path))
    declare(tmp_path, "mixed", None, images=False)
    chosen = Settings("edge:8080", batch=8)
    assert calls.model_of(ROUTES["onnx-http"], chosen) == MIXED
    assert calls.requests_of(ROUTES["onnx-grpc"], chosen)[0].images == 8
    with pytest.raises(BadSetting, match="mixed takes 8 at once: choose batch 1 to 8"):
        calls.requests_of(ROUTES["onnx-http"], Settings("edge:8080", batch=9))
    declare(tmp_path, "other", None, images=False)
    with pytest.raises(CallError, match=r"HTTP 404: .*unknown model"):
        calls.requests_of(ROUTES["onnx-http"], Settings("edge:8080"))


def test_draws_are_the_same_for_every_route() -> None:
    """By a fixed seed: HTTP and gRPC send the same values, so that their answers can be compared. What config.pbtxt
    says of an input is what all of it holds; anything but a number is said."""
    one, other = (tensors.inputs(MIXED) for _ in range(2))
    for a, b in zip(one, other, strict=True):
        assert all(np.array_equal(a[name], b[name]) for name in a)
    assert all(0 <= item["half"].min() <= item["half"].max() <= 1 for item in one)
    assert {item["text"].shape for item in one} == {(2,)}
    assert {item["ids"].tolist()[0] for item in one} == {7}
    with pytest.raises(CallError, match=r"load\.x is 'much' in config\.pbtxt"):
        tensors.inputs(Model("w", (Tensor("x", "FP32", (2,), "much"),), (), 0))


PROTOCOLS = ("HTTP", "gRPC")
GOOD: dict[str, Output] = {
    "score": ("FP32", [2, 2], np.array([1, 2, 3, 4], "<f4").tobytes()),
    "label": ("BYTES", [2, 1], b"\x01\0\0\0a\x02\0\0\0bc"),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_whole_answer_passes_and_is_one_vector(protocol: str) -> None:
    """Every output with a row per item; all of them by name, after a 1, are what parity compares. Garbage is a wrong
    answer, not a crash."""
    answer = Answer(*kserve(protocol, **GOOD))
    tensors.check(protocol, MIXED, answer, 2)
    assert tensors.flat(protocol, answer)[-4:].tolist() == [1, 2, 3, 4]
    assert len(tensors.flat(protocol, answer)) == 1 + len(GOOD["label"][2]) + 4
    with pytest.raises(WrongAnswer):
        tensors.check(protocol, MIXED, Answer(b"\xff\xff{", {"inference-header-content-length": "3"}), 2)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("outputs", "says"),
    [
        ({"score": GOOD["score"]}, "label"),
        (GOOD | {"score": ("FP32", [1, 4], GOOD["score"][2])}, "2 items"),
        (GOOD | {"score": ("FP32", [2, 3], GOOD["score"][2])}, "16 bytes"),
    ],
)
def test_a_part_of_an_answer_is_wrong(protocol: str, outputs: dict[str, Any], says: str) -> None:
    """A missing output, another number of rows, bytes that are not the shape's."""
    with pytest.raises(WrongAnswer, match=says):
        tensors.check(protocol, MIXED, Answer(*kserve(protocol, **outputs)), 2)


def test_bf16_is_the_upper_half_of_a_float() -> None:
    """1.5 is 0x3FC0, to the model and back."""
    model = Model("b", (Tensor("x", "BF16", (1,), "1.5"),), (), 0)
    payload = tensors.encode("gRPC", model, tensors.inputs(model), 0, 1)
    (raw,) = ModelInferRequest.FromString(payload.body).raw_input_contents
    assert raw == b"\xc0\x3f"
    assert tensors.flat("gRPC", Answer(*kserve("gRPC", x=("BF16", [1], raw)))).tolist() == [1, 1.5]
