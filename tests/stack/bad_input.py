"""Bad input: every case on every route it can happen on, and what must come back. docs/errors.md is written from this.

A request is written down as bytes, not with a native client: clients refuse to send most of these.
"""

import json
import struct
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import grpc
import numpy as np
from fiveway.vision.v1 import vision_pb2 as typed
from torchserve import inference_pb2 as torchserve
from tritonclient.grpc import service_pb2 as kserve

from tests.clients import EDGE, MODEL, TIMEOUT_S, b64, channel, form
from tests.conftest import PHOTOS

PHOTO = (PHOTOS / "otter_224x224.jpg").read_bytes()
MIB = 1024 * 1024
JSON = {"content-type": "application/json"}
OCTETS = {"content-type": "application/octet-stream"}
TEXT = {"content-type": "text/plain"}


@dataclass(frozen=True)
class Http:
    """One HTTP request. A chunked body does not announce its length."""

    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    chunked: bool = False

    def send(self) -> tuple[str, str]:
        """(status, body), as curl sees it: a refusal may come while the body is still being sent."""
        command = ["curl", "--silent", "--show-error", "--max-time", f"{TIMEOUT_S:g}", "--request", "POST"]
        command += ["--data-binary", "@-", "--write-out", "\n%{http_code}", f"http://{EDGE}{self.path}"]
        headers = {"content-type": "", **self.headers} | ({"transfer-encoding": "chunked"} if self.chunked else {})
        # curl drops a header that is written with a colon and no value.
        command += [word for name, value in headers.items() for word in ("--header", f"{name}: {value}".rstrip())]
        done = subprocess.run(command, input=self.body, capture_output=True, timeout=TIMEOUT_S + 10, check=False)
        assert done.returncode == 0, f"{self.path}: {done.stderr.decode()}"
        body, _, status = done.stdout.rpartition(b"\n")
        return status.decode(), body.decode(errors="replace")


@dataclass(frozen=True)
class Grpc:
    """One unary gRPC call with a message of any bytes."""

    method: str
    body: bytes = b""
    metadata: tuple[tuple[str, str], ...] = ()

    def send(self) -> tuple[str, str]:
        """(status name, message)."""
        with channel() as open_channel:
            call = open_channel.unary_unary(self.method)
            try:
                call(self.body, timeout=TIMEOUT_S, metadata=self.metadata)
            except grpc.RpcError as error:
                return error.code().name, error.details() or ""
        return "OK", ""


Request = Http | Grpc


@cache
def tensor(*shape: int, dtype: str = "float32") -> bytes:
    return np.zeros(shape, dtype=dtype).tobytes()


def jpeg_json(images: object) -> Http:
    return Http("/embed/base64", json.dumps({"images": images}).encode(), JSON)


def jpeg_raw(body: bytes) -> Http:
    return Http("/embed", body, {"content-type": "image/jpeg"})


def infer_path(model: str) -> str:
    return f"/v2/models/{model}/infer"


def kserve_http(model: str, shape: tuple[int, ...], body: bytes, datatype: str = "FP32") -> Http:
    """KServe v2 with the binary tensor extension."""
    inputs = [{"name": "image", "shape": shape, "datatype": datatype, "parameters": {"binary_data_size": len(body)}}]
    head = json.dumps({"inputs": inputs}).encode()
    return Http(
        infer_path(model),
        head + body,
        {"content-type": "application/octet-stream", "inference-header-content-length": str(len(head))},
    )


def kserve_grpc(model: str, shape: tuple[int, ...], body: bytes, datatype: str = "FP32") -> Grpc:
    message = kserve.ModelInferRequest(model_name=model, raw_input_contents=[body])
    message.inputs.add(name="image", datatype=datatype, shape=shape)
    return infer(message.SerializeToString(), model)


def infer(body: bytes, model: str = MODEL, method: str = "ModelInfer") -> Grpc:
    metadata = (("x-route", "trt-grpc"),) if model.endswith("_trt") else ()
    return Grpc(f"/inference.GRPCInferenceService/{method}", body, metadata)


def no_inputs(model: str) -> Grpc:
    return infer(kserve.ModelInferRequest(model_name=model).SerializeToString(), model)


def torchserve_raw(body: bytes, model: str = MODEL, kind: str = "image/jpeg", *, chunked: bool = False) -> Http:
    return Http(f"/predictions/{model}", body, {"content-type": kind}, chunked)


def torchserve_json(message: object) -> Http:
    return torchserve_raw(json.dumps(message).encode(), kind="application/json")


def torchserve_grpc(jpeg: bytes, model: str = MODEL, key: str = "data") -> Grpc:
    message = torchserve.PredictionsRequest(model_name=model, input={key: jpeg})
    return Grpc("/org.pytorch.serve.grpc.inference.InferenceAPIsService/Predictions", message.SerializeToString())


def typed_grpc(*images: bytes) -> Grpc:
    message = typed.PredictRequest(images=images)
    return Grpc("/fiveway.vision.v1.VisionService/Predict", message.SerializeToString())


def typed_http(images: object) -> Http:
    return Http("/v1/predict", json.dumps({"images": images}).encode(), JSON)


def huge_header() -> bytes:
    """The photo with a frame header that says 65,500 x 65,500 pixels: 12 GB once decoded."""
    at = PHOTO.index(b"\xff\xc0") if b"\xff\xc0" in PHOTO else PHOTO.index(b"\xff\xc2")
    return PHOTO[: at + 5] + struct.pack(">HH", 65500, 65500) + PHOTO[at + 9 :]


NOT_JSON = b'{"images": ['
NOT_PROTO = b"\xff" * 64
TOO_LARGE = "the body is larger than 32 MiB: send fewer or smaller images"
NOT_SERVED = "not served at this port"
NOT_IMAGE = b"This is a text and not a photo. " * 8
TRUNCATED = PHOTO[: len(PHOTO) // 2]
HUGE = huge_header()
TRT = f"{MODEL}_trt"
IMAGE = (3, 224, 224)


def big() -> bytes:
    """64 MiB that begin like a photo."""
    return PHOTO + b"\0" * (64 * MIB - len(PHOTO))


@dataclass(frozen=True)
class Refusal:
    """What one route must say: the HTTP status or the gRPC status name, and a part of its message."""

    route: str
    build: Callable[[], Request]
    status: str
    says: str


@dataclass(frozen=True)
class Case:
    """A row of the table. A route that is left out has no such case; `note` says why, where that is not plain."""

    name: str
    refusals: tuple[Refusal, ...]
    note: str = ""


def http(status: int, says: str, route: str, build: Callable[[], Request]) -> Refusal:
    return Refusal(route, build, str(status), says)


def rpc(status: str, says: str, route: str, build: Callable[[], Request]) -> Refusal:
    return Refusal(route, build, status, says)


def of_jpegs(says: str, jpeg: bytes, status: int = 400, code: str = "INVALID_ARGUMENT") -> tuple[Refusal, ...]:
    """The same bad photo on every route that takes photos; `says` is in the message of each."""
    return (
        http(status, says, "jpeg-http", lambda: jpeg_json([b64(jpeg)])),
        http(status, says, "jpeg-http", lambda: jpeg_raw(jpeg)),
        http(status, says, "jpeg-http", lambda: Http("/embed", *_form(jpeg))),
        http(status, says, "torchserve-http", lambda: torchserve_raw(jpeg)),
        http(status, says, "torchserve-http", lambda: torchserve_json({"image": b64(jpeg)})),
        rpc(code, says, "torchserve-grpc", lambda: torchserve_grpc(jpeg)),
        rpc(code, says, "typed-grpc", lambda: typed_grpc(jpeg)),
        http(status, says, "typed-http", lambda: typed_http([b64(jpeg)])),
    )


def _form(*jpegs: bytes, name: str = "images") -> tuple[bytes, Mapping[str, str]]:
    body, kind = form(jpegs, name)
    return body, {"content-type": kind}


def of_tensors(says: str, shape: tuple[int, ...], dtype: str = "float32", datatype: str = "FP32") -> tuple[Refusal, ...]:
    """The same bad tensor on the four tensor routes."""

    def body() -> bytes:
        return tensor(*shape, dtype=dtype)

    return (
        http(400, says, "onnx-http", lambda: kserve_http(MODEL, shape, body(), datatype)),
        rpc("INVALID_ARGUMENT", says, "onnx-grpc", lambda: kserve_grpc(MODEL, shape, body(), datatype)),
        http(400, says, "trt-http", lambda: kserve_http(TRT, shape, body(), datatype)),
        rpc("INVALID_ARGUMENT", says, "trt-grpc", lambda: kserve_grpc(TRT, shape, body(), datatype)),
    )


CASES = (
    Case("not an image", of_jpegs("is not a JPEG: send JPEG bytes", NOT_IMAGE), note="on the tensor routes the client decodes"),
    Case("truncated JPEG", of_jpegs("is truncated or damaged: send the whole JPEG file", TRUNCATED)),
    Case(
        "65,500 x 65,500 pixels declared by a 20 kB file",
        of_jpegs("is 65500 x 65500 pixels: send at most 50,000,000 pixels", HUGE),
        note="refused by its header, before a pixel is decoded",
    ),
    Case(
        "empty body",
        (
            http(400, 'is not JSON', "jpeg-http", lambda: Http("/embed/base64", b"", JSON)),
            http(400, "is empty: send JPEG bytes", "jpeg-http", lambda: jpeg_raw(b"")),
            http(400, "The document is empty", "onnx-http", lambda: Http(infer_path(MODEL))),
            http(400, "The document is empty", "trt-http", lambda: Http(infer_path(TRT))),
            rpc("NOT_FOUND", "unknown model", "onnx-grpc", lambda: infer(b"")),
            rpc("NOT_FOUND", "unknown model", "trt-grpc", lambda: infer(b"", TRT)),
            http(400, "is empty: send JPEG bytes", "torchserve-http", lambda: torchserve_raw(b"")),
            rpc("INVALID_ARGUMENT", "model_name", "torchserve-grpc", lambda: replace(torchserve_grpc(b""), body=b"")),
            rpc("INVALID_ARGUMENT", "send 1 to 32", "typed-grpc", lambda: typed_grpc()),
            http(400, "send 1 to 32", "typed-http", lambda: Http("/v1/predict", b"", JSON)),
        ),
        note="over gRPC an empty message names no model, or no image",
    ),
    Case(
        "64 MiB body",
        (
            http(413, TOO_LARGE, "jpeg-http", lambda: jpeg_raw(big())),
            http(413, TOO_LARGE, "onnx-http", lambda: Http(infer_path(MODEL), big(), OCTETS)),
            http(413, TOO_LARGE, "trt-http", lambda: Http(infer_path(TRT), big(), OCTETS)),
            rpc("INVALID_ARGUMENT", "byte size", "onnx-grpc", lambda: kserve_grpc(MODEL, (1, *IMAGE), big())),
            rpc("INVALID_ARGUMENT", "byte size", "trt-grpc", lambda: kserve_grpc(TRT, (1, *IMAGE), big())),
            http(413, TOO_LARGE, "torchserve-http", lambda: torchserve_raw(big())),
            rpc("RESOURCE_EXHAUSTED", "send a smaller image", "torchserve-grpc", lambda: torchserve_grpc(big())),
            rpc("RESOURCE_EXHAUSTED", "larger than max", "typed-grpc", lambda: typed_grpc(big())),
            http(413, TOO_LARGE, "typed-http", lambda: Http("/v1/predict", big(), JSON)),
        ),
        note="HTTP: refused by Envoy on the announced length; gRPC announces none, so each server says it",
    ),
    Case(
        "64 MiB body, its length not announced",
        (
            http(413, TOO_LARGE, "jpeg-http", lambda: replace(jpeg_raw(big()), chunked=True)),
            http(413, TOO_LARGE, "onnx-http", lambda: Http(infer_path(MODEL), big(), OCTETS, chunked=True)),
            http(413, TOO_LARGE, "trt-http", lambda: Http(infer_path(TRT), big(), OCTETS, chunked=True)),
            http(413, TOO_LARGE, "torchserve-http", lambda: torchserve_raw(big(), chunked=True)),
            http(413, TOO_LARGE, "typed-http", lambda: Http("/v1/predict", big(), JSON, chunked=True)),
        ),
        note="cut off by Envoy at 32 MiB",
    ),
    Case(
        "bad base64",
        (
            http(400, "images[0] is not base64: send standard base64", "jpeg-http", lambda: jpeg_json(["*** no ***"])),
            http(400, "not base64", "torchserve-http", lambda: torchserve_json({"image": "*** no ***"})),
            http(400, "base64", "typed-http", lambda: typed_http(["*** no ***"])),
        ),
    ),
    Case(
        "bad JSON, or over gRPC no such message",
        (
            http(400, "the body is not JSON", "jpeg-http", lambda: Http("/embed/base64", NOT_JSON, JSON)),
            http(400, "failed to parse the request JSON buffer", "onnx-http", lambda: Http(infer_path(MODEL), NOT_JSON, JSON)),
            http(400, "failed to parse the request JSON buffer", "trt-http", lambda: Http(infer_path(TRT), NOT_JSON, JSON)),
            rpc("INTERNAL", "parse", "onnx-grpc", lambda: infer(NOT_PROTO)),
            rpc("INTERNAL", "parse", "trt-grpc", lambda: infer(NOT_PROTO, TRT)),
            http(400, "not JSON", "torchserve-http", lambda: torchserve_raw(NOT_JSON, kind="application/json")),
            rpc("INTERNAL", "protobuf", "torchserve-grpc", lambda: replace(torchserve_grpc(b""), body=NOT_PROTO)),
            rpc("INVALID_ARGUMENT", "generate your client", "typed-grpc", lambda: replace(typed_grpc(), body=NOT_PROTO)),
            http(400, "JSON", "typed-http", lambda: Http("/v1/predict", NOT_JSON, JSON)),
        ),
    ),
    Case(
        "wrong content type",
        (
            http(415, "send application/json", "jpeg-http", lambda: replace(jpeg_json([b64(PHOTO)]), headers=TEXT)),
            http(415, "send image/jpeg or multipart/form-data", "jpeg-http", lambda: replace(jpeg_raw(PHOTO), headers=TEXT)),
            http(400, "failed to parse the request JSON buffer", "onnx-http", lambda: replace(jpeg_raw(PHOTO), path=infer_path(MODEL))),
            http(400, "failed to parse the request JSON buffer", "trt-http", lambda: replace(jpeg_raw(PHOTO), path=infer_path(TRT))),
            http(400, "not JSON", "torchserve-http", lambda: torchserve_raw(PHOTO, kind="application/json")),
            http(415, "content-type: application/json", "typed-http", lambda: replace(typed_http([b64(PHOTO)]), headers=TEXT)),
        ),
        note="Triton does not read the header: the body decides",
    ),
    Case(
        "missing field",
        (
            http(400, 'the field "images" is missing', "jpeg-http", lambda: Http("/embed/base64", b"{}", JSON)),
            http(400, 'the form has no part "images"', "jpeg-http", lambda: Http("/embed", *_form(PHOTO, name="photos"))),
            http(400, "inputs", "onnx-http", lambda: Http(infer_path(MODEL), b"{}", JSON)),
            http(400, "inputs", "trt-http", lambda: Http(infer_path(TRT), b"{}", JSON)),
            rpc("INVALID_ARGUMENT", "expected 1 inputs but got 0", "onnx-grpc", lambda: no_inputs(MODEL)),
            rpc("INVALID_ARGUMENT", "expected 1 inputs but got 0", "trt-grpc", lambda: no_inputs(TRT)),
            http(400, "image", "torchserve-http", lambda: torchserve_json({"photo": b64(PHOTO)})),
            rpc("INVALID_ARGUMENT", "data", "torchserve-grpc", lambda: torchserve_grpc(PHOTO, key="photo")),
            http(400, "send 1 to 32", "typed-http", lambda: Http("/v1/predict", b"{}", JSON)),
        ),
    ),
    Case(
        "unknown model",
        (
            http(404, "unknown model: 'nothing'", "onnx-http", lambda: kserve_http("nothing", (1, *IMAGE), tensor(1, *IMAGE))),
            http(404, "unknown model: 'nothing_trt'", "trt-http", lambda: kserve_http("nothing_trt", (1, *IMAGE), tensor(1, *IMAGE))),
            rpc("NOT_FOUND", "unknown model: 'nothing'", "onnx-grpc", lambda: kserve_grpc("nothing", (1, *IMAGE), tensor(1, *IMAGE))),
            rpc("NOT_FOUND", "unknown model: 'nothing_trt'", "trt-grpc", lambda: kserve_grpc("nothing_trt", (1, *IMAGE), tensor(1, *IMAGE))),
            http(404, "Model not found: nothing", "torchserve-http", lambda: torchserve_raw(PHOTO, "nothing")),
            rpc("NOT_FOUND", "Model not found: nothing", "torchserve-grpc", lambda: torchserve_grpc(PHOTO, "nothing")),
        ),
        note="the other routes serve one model and name none",
    ),
    Case("wrong shape", of_tensors("unexpected shape for input 'image'", (1, 3, 200, 200)), note="photos may have any size"),
    Case(
        "wrong type",
        (
            http(400, "images[0] is not a string: send base64", "jpeg-http", lambda: jpeg_json([5])),
            http(400, 'the field "images" is missing or not a list', "jpeg-http", lambda: jpeg_json("text")),
            *of_tensors("data-type", (1, *IMAGE), "int32", "INT32"),
            http(400, "image", "torchserve-http", lambda: torchserve_json({"image": 5})),
            http(400, "images", "typed-http", lambda: typed_http([5])),
        ),
    ),
    Case(
        "batch of 0",
        (
            http(400, "0 images: send 1 to 32 in one request", "jpeg-http", lambda: jpeg_json([])),
            *of_tensors("batch", (0, *IMAGE)),
            rpc("INVALID_ARGUMENT", "0 images: send 1 to 32 in one request", "typed-grpc", lambda: typed_grpc()),
            http(400, "0 images: send 1 to 32 in one request", "typed-http", lambda: typed_http([])),
        ),
        note="TorchServe takes one image per request",
    ),
    Case(
        "batch of 33",
        (
            http(400, "33 images: send 1 to 32 in one request", "jpeg-http", lambda: jpeg_json([b64(PHOTO)] * 33)),
            http(400, "33 images: send 1 to 32 in one request", "jpeg-http", lambda: Http("/embed", *_form(*[PHOTO] * 33))),
            *of_tensors("batch-size must be <= 32", (33, *IMAGE)),
            rpc("INVALID_ARGUMENT", "33 images: send 1 to 32 in one request", "typed-grpc", lambda: typed_grpc(*[PHOTO] * 33)),
            http(400, "33 images: send 1 to 32 in one request", "typed-http", lambda: typed_http([b64(PHOTO)] * 33)),
        ),
        note="TorchServe takes one image per request",
    ),
    Case(
        "unknown path",
        (
            http(404, NOT_SERVED, "jpeg-http", lambda: Http("/embed/nothing", PHOTO)),
            http(404, NOT_SERVED, "onnx-http", lambda: Http(f"/v2/models/{MODEL}/nothing")),
            http(404, NOT_SERVED, "trt-http", lambda: Http(f"/v2/models/{TRT}/nothing")),
            http(404, NOT_SERVED, "torchserve-http", lambda: Http(f"/predictions/{MODEL}/1.0/nothing", PHOTO)),
            http(404, NOT_SERVED, "typed-http", lambda: Http("/v1/nothing", b"{}", JSON)),
        ),
    ),
    Case(
        "unknown gRPC method",
        (
            rpc("UNIMPLEMENTED", NOT_SERVED, "onnx-grpc", lambda: infer(b"", MODEL, "Nothing")),
            rpc("UNIMPLEMENTED", NOT_SERVED, "trt-grpc", lambda: infer(b"", TRT, "Nothing")),
            rpc("UNIMPLEMENTED", NOT_SERVED, "torchserve-grpc", lambda: Grpc("/org.pytorch.serve.grpc.inference.InferenceAPIsService/Nothing")),
            rpc("UNIMPLEMENTED", NOT_SERVED, "typed-grpc", lambda: Grpc("/fiveway.vision.v1.VisionService/Nothing")),
        ),
    ),
)
