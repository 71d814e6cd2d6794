"""Bad input: every case on every route it can happen on, and what must come back. docs/errors.md is written from this.

A request is written down as bytes, not with a native client: clients refuse to send most of these.
"""

import json
import math
import struct
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial

import grpc
from fiveway.transport.v1 import base_pb2 as base
from fiveway.transport.v1 import distance_pb2 as distance
from fiveway.transport.v1 import frames_pb2 as frames
from fiveway.vision.v1 import vision_pb2 as typed
from google.protobuf import json_format
from seldon import prediction_pb2 as seldon
from torchserve import inference_pb2 as torchserve
from tritonclient.grpc import service_pb2 as kserve

from tests.clients import EDGE, MODEL, TIMEOUT_S, b64, channel, form, raw_call, zmq_ask
from tests.conftest import PHOTOS
from tests.docker import address_of

PHOTO = (PHOTOS / "otter_224x224.jpg").read_bytes()
B64_PHOTO = b64(PHOTO)
MIB = 1024 * 1024
TORCHSERVE = "/org.pytorch.serve.grpc.inference.InferenceAPIsService"
TYPED = "/fiveway.vision.v1.VisionService"
ECHO = "/fiveway.transport.v1.BaseService"
NO_IMAGE = "the image is empty"
NOT_A_LIST = "count is 100001: send 1 to 100000"
SELDON = "/seldon.protos.Seldon"
SELDON_ARRAY = '{"data":{"ndarray":[1]}}'
TERABYTES = {"dtype": "DT_DOUBLE", "tensorShape": {"dim": [{"size": 10**12}]}, "doubleVal": [1]}
JSON_TYPE = "application/json"
JSON = {"content-type": JSON_TYPE}
JPEG = {"content-type": "image/jpeg"}
OCTETS = {"content-type": "application/octet-stream"}
TEXT = {"content-type": "text/plain"}


@dataclass(frozen=True)
class Http:
    """One HTTP request. A chunked body does not announce its length."""

    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    chunked: bool = False
    method: str = "POST"
    at: Callable[[], str] = lambda: EDGE

    def send(self) -> tuple[str, str]:
        """(status, body), as curl sees it: a refusal may come while the body is still being sent."""
        command = ["curl", "--silent", "--show-error", "--max-time", f"{TIMEOUT_S:g}", "--request", self.method]
        command += ["--data-binary", "@-", "--write-out", "\n%{http_code}", f"http://{self.at()}{self.path}"]
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
    at: Callable[[], str] = lambda: EDGE

    def send(self) -> tuple[str, str]:
        """(status name, message)."""
        with channel(self.at()) as open_channel:
            try:
                raw_call(open_channel, self.method, self.body, self.metadata)
            except grpc.RpcError as error:
                return error.code().name, error.details() or ""
        return "OK", ""


@dataclass(frozen=True)
class ZeroMq:
    """One message to the gateway `frames`."""

    parts: tuple[bytes, ...]

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)

    def send(self) -> tuple[str, str]:
        """(status name, message)."""
        error = json.loads(zmq_ask(*self.parts)[0])["error"]
        return error["code"], error["message"]


Request = Http | Grpc | ZeroMq


@cache
def tensor(*shape: int) -> bytes:
    return bytes(4 * math.prod(shape))


def jpeg_json(images: object) -> Http:
    return Http("/embed/base64", json.dumps({"images": images}).encode(), JSON)


def jpeg_raw(body: bytes) -> Http:
    return Http("/embed", body, JPEG)


def jpeg_form(*jpegs: bytes, name: str = "images") -> Http:
    body, kind = form(jpegs, name)
    return Http("/embed", body, {"content-type": kind})


def infer_path(model: str) -> str:
    return f"/v2/models/{model}/infer"


def kserve_http(model: str, shape: tuple[int, ...], body: bytes, datatype: str = "FP32") -> Http:
    """KServe v2 with the binary tensor extension."""
    about = {"shape": shape, "datatype": datatype, "parameters": {"binary_data_size": len(body)}}
    inputs = [{"name": "jpeg" if datatype == "BYTES" else "image", **about}]
    head = json.dumps({"inputs": inputs}).encode()
    return Http(
        infer_path(model),
        head + body,
        {"content-type": "application/octet-stream", "inference-header-content-length": str(len(head))},
    )


def kserve_grpc(model: str, shape: tuple[int, ...], body: bytes, datatype: str = "FP32") -> Grpc:
    message = kserve.ModelInferRequest(model_name=model, raw_input_contents=[body])
    message.inputs.add(name="jpeg" if datatype == "BYTES" else "image", datatype=datatype, shape=shape)
    return infer(message.SerializeToString(), model)


def infer(body: bytes, model: str = MODEL, method: str = "ModelInfer") -> Grpc:
    route = {"trt": "trt-grpc", "jpeg": "onnx-jpeg-grpc"}.get(model.rpartition("_")[2])
    return Grpc(f"/inference.GRPCInferenceService/{method}", body, (("x-route", route),) if route else ())


def elements(*jpegs: bytes) -> bytes:
    """A BYTES tensor: each element behind its length."""
    return b"".join(struct.pack("<I", len(jpeg)) + jpeg for jpeg in jpegs)


def files_http(*jpegs: bytes) -> Http:
    return kserve_http(FILES, (len(jpegs), 1), elements(*jpegs), "BYTES")


def files_grpc(*jpegs: bytes) -> Grpc:
    return kserve_grpc(FILES, (len(jpegs), 1), elements(*jpegs), "BYTES")


def good_http(model: str) -> Http:
    return kserve_http(model, (1, *IMAGE), tensor(1, *IMAGE))


def good_grpc(model: str) -> Grpc:
    return kserve_grpc(model, (1, *IMAGE), tensor(1, *IMAGE))


def no_inputs(model: str) -> Grpc:
    return infer(kserve.ModelInferRequest(model_name=model).SerializeToString(), model)


def torchserve_raw(body: bytes, model: str = MODEL, kind: str = "image/jpeg", *, chunked: bool = False) -> Http:
    return Http(f"/predictions/{model}", body, {"content-type": kind}, chunked)


def torchserve_json(image: object) -> Http:
    return torchserve_raw(json.dumps({"image": image}).encode(), kind=JSON_TYPE)


def torchserve_bytes(message: bytes) -> Grpc:
    return Grpc(f"{TORCHSERVE}/Predictions", message)


def torchserve_grpc(jpeg: bytes, model: str = MODEL, key: str = "data") -> Grpc:
    message = torchserve.PredictionsRequest(model_name=model, input={key: jpeg})
    return torchserve_bytes(message.SerializeToString())


def typed_grpc(*images: bytes) -> Grpc:
    return typed_bytes(typed.PredictRequest(images=images).SerializeToString())


def typed_bytes(message: bytes) -> Grpc:
    return Grpc(f"{TYPED}/Predict", message)


def echo_binary(image: bytes) -> Http:
    return Http("/transport/binary", image, OCTETS)


def echo_base64(image: object) -> Http:
    return Http("/transport/base64", json.dumps({"image": image}).encode(), JSON)


def echo_grpc_base64(image: str) -> Grpc:
    return Grpc(f"{ECHO}/Base64", base.Base64Request(image=image).SerializeToString())


def echo_vectors(count: int) -> Grpc:
    message = distance.ListVectorsRequest(count=count).SerializeToString()
    return Grpc("/fiveway.transport.v1.DistanceService/ListVectors", message)


def typed_http(images: object) -> Http:
    return Http("/v1/predict", json.dumps({"images": images}).encode(), JSON)


def seldon_http(body: bytes, headers: Mapping[str, str] = JSON) -> Http:
    return Http("/api/v1.0/predictions", body, headers)


def seldon_grpc(body: bytes, *metadata: tuple[str, str]) -> Grpc:
    return Grpc(f"{SELDON}/Predict", body, metadata)


def frames_http(path: str, body: bytes, kind: str = JSON_TYPE, *, chunked: bool = False) -> Http:
    return Http(f"/frames/{path}", body, {"content-type": kind}, chunked, at=lambda: f"{address_of('frames')}:8000")


def frames_text(**message: object) -> Http:
    """A frame as base64."""
    return frames_http("base64", json.dumps(message).encode())


def frames_grpc(body: bytes, method: str = "Change") -> Grpc:
    return Grpc(f"/fiveway.transport.v1.FrameService/{method}", body, at=lambda: f"{address_of('frames')}:50051")


def frame_message(width: int, height: int, pixels: bytes) -> bytes:
    return frames.ChangeRequest(width=width, height=height, pixels=pixels).SerializeToString()


def frames_zmq(*parts: bytes) -> ZeroMq:
    return ZeroMq(parts)


def huge_header() -> bytes:
    """The photo with a frame header that says 65,500 x 65,500 pixels: 12 GB once decoded."""
    at = PHOTO.index(b"\xff\xc0") if b"\xff\xc0" in PHOTO else PHOTO.index(b"\xff\xc2")
    return PHOTO[: at + 5] + struct.pack(">HH", 65500, 65500) + PHOTO[at + 9 :]


NOT_JSON = b'{"images": ['
NOT_PROTO = b"\xff" * 64
NOT_BASE64 = "*** no ***"
TOO_LARGE = "32 MiB per request at most, send fewer or smaller images"
NOT_JSON_FOR_TRITON = "failed to parse the request JSON buffer"
NOT_32 = "33 images: send 1 to 32 in one request"
NONE = "0 images: send 1 to 32 in one request"
NOT_SERVED = "not served at this port"
NO_FRAME = "a frame of 0 x 0: send whole numbers"
NO_HEAD = "the first part is no JSON object"
NOT_2 = "3 bytes for a frame of 1 x 2: send 6"
TWO = b'{"width": 1, "height": 2}'
SLOT = b'{"width": 1, "height": 1, "slot": "%s"}'
NOT_IMAGE = b"This is a text and not a photo. " * 8
TRUNCATED = PHOTO[: len(PHOTO) // 2]
HUGE = huge_header()
LARGE = PHOTO + bytes(21 * MIB)
DEEP = b"[" * 100_000
TRT = f"{MODEL}_trt"
FILES = f"{MODEL}_jpeg"
TRITON_MODELS = (("onnx", MODEL), ("trt", TRT))
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
        http(status, says, "jpeg-http", lambda: jpeg_form(jpeg)),
        # Triton has no word for "too large".
        http(400, says, "onnx-jpeg-http", lambda: files_http(jpeg)),
        http(400, f"jpeg[1] {says}", "onnx-jpeg-http", lambda: files_http(PHOTO, jpeg)),
        rpc("INVALID_ARGUMENT", says, "onnx-jpeg-grpc", lambda: files_grpc(jpeg)),
        http(status, says, "torchserve-http", lambda: torchserve_raw(jpeg)),
        http(status, says, "torchserve-http", lambda: torchserve_json(b64(jpeg))),
        rpc(code, says, "torchserve-grpc", lambda: torchserve_grpc(jpeg)),
        rpc(code, says, "typed-grpc", lambda: typed_grpc(jpeg)),
        rpc(code, says, "typed-grpc", lambda: replace(typed_grpc(jpeg), metadata=(("x-backend", "triton"),))),
        http(status, says, "typed-http", lambda: typed_http([b64(jpeg)])),
    )


def of_files(says: str, shape: tuple[int, ...], *jpegs: bytes) -> tuple[Refusal, ...]:
    """The same bad BYTES tensor on onnx-jpeg-http and onnx-jpeg-grpc."""
    raw = elements(*jpegs)
    return (
        http(400, says, "onnx-jpeg-http", lambda: kserve_http(FILES, shape, raw, "BYTES")),
        rpc("INVALID_ARGUMENT", says, "onnx-jpeg-grpc", lambda: kserve_grpc(FILES, shape, raw, "BYTES")),
    )


def triton_http(status: int, says: str, build: Callable[[str], Http]) -> tuple[Refusal, ...]:
    """The same on onnx-http and trt-http; `build` gets the name of the model that the route asks for."""
    return tuple(http(status, says, f"{name}-http", partial(build, model)) for name, model in TRITON_MODELS)


def triton_grpc(code: str, says: str, build: Callable[[str], Grpc]) -> tuple[Refusal, ...]:
    """The same on onnx-grpc and trt-grpc."""
    return tuple(rpc(code, says, f"{name}-grpc", partial(build, model)) for name, model in TRITON_MODELS)


def of_tensors(says: str, shape: tuple[int, ...], datatype: str = "FP32") -> tuple[Refusal, ...]:
    """The same bad tensor of zeros (four bytes each) on the four tensor routes."""
    return (
        *triton_http(400, says, lambda model: kserve_http(model, shape, tensor(*shape), datatype)),
        *triton_grpc("INVALID_ARGUMENT", says, lambda model: kserve_grpc(model, shape, tensor(*shape), datatype)),
    )


def of_seldon(
    says: str, message: dict[str, object], status: int = 400, code: str = "INVALID_ARGUMENT"
) -> tuple[Refusal, ...]:
    """The same bad SeldonMessage as JSON and as protobuf."""
    proto = json_format.ParseDict(message, seldon.SeldonMessage()).SerializeToString()
    return (
        http(status, says, "seldon-http", lambda: seldon_http(json.dumps(message).encode())),
        rpc(code, says, "seldon-grpc", lambda: seldon_grpc(proto)),
    )


CASES = (
    Case(
        "not an image",
        of_jpegs("is not a JPEG: send JPEG bytes", NOT_IMAGE),
        note="on the tensor routes the client decodes",
    ),
    Case("truncated JPEG", of_jpegs("is truncated or damaged: send the whole JPEG file", TRUNCATED)),
    Case(
        "65,500 x 65,500 pixels declared by a 20 kB file",
        of_jpegs("is 65500 x 65500 pixels: send at most 50,000,000 pixels", HUGE),
        note="refused by its header, before a pixel is decoded",
    ),
    Case(
        "JPEG of 21 MiB",
        of_jpegs("is 21 MiB: send a JPEG of at most 20 MiB", LARGE, 413, "RESOURCE_EXHAUSTED"),
    ),
    Case(
        "empty body",
        (
            http(400, "the body is not JSON", "jpeg-http", lambda: Http("/embed/base64", b"", JSON)),
            http(400, "is empty: send JPEG bytes", "jpeg-http", lambda: jpeg_raw(b"")),
            *triton_http(400, "Expected 602112, got 0", lambda model: Http(infer_path(model))),
            *triton_grpc("NOT_FOUND", "unknown model", lambda model: infer(b"", model)),
            http(400, "is empty: send JPEG bytes", "onnx-jpeg-http", lambda: Http(infer_path(FILES))),
            rpc("NOT_FOUND", "unknown model", "onnx-jpeg-grpc", lambda: infer(b"", FILES)),
            http(400, "is empty: send JPEG bytes", "torchserve-http", lambda: torchserve_raw(b"")),
            rpc("INVALID_ARGUMENT", "model_name is required", "torchserve-grpc", lambda: torchserve_bytes(b"")),
            rpc("INVALID_ARGUMENT", NONE, "typed-grpc", lambda: typed_grpc()),
            http(400, NONE, "typed-http", lambda: Http("/v1/predict", b"", JSON)),
            http(400, NO_IMAGE, "echo-http", lambda: echo_binary(b"")),
            rpc("INVALID_ARGUMENT", NO_IMAGE, "echo-grpc", lambda: Grpc(f"{ECHO}/Binary")),
            http(400, "the body is not JSON", "seldon-http", lambda: seldon_http(b"")),
            rpc("INVALID_ARGUMENT", "has no data: send data.ndarray", "seldon-grpc", lambda: seldon_grpc(b"")),
            http(400, "the body is not JSON", "frames-http", lambda: frames_http("base64", b"")),
            rpc("INVALID_ARGUMENT", NO_FRAME, "frames-grpc", lambda: frames_grpc(b"")),
            rpc("INVALID_ARGUMENT", NO_HEAD, "frames-zmq", lambda: frames_zmq(b"")),
        ),
        note="over gRPC an empty message names no model, or holds no image or array",
    ),
    Case(
        "64 MiB body",
        (
            http(413, TOO_LARGE, "jpeg-http", lambda: jpeg_raw(big())),
            *triton_http(413, TOO_LARGE, lambda model: Http(infer_path(model), big(), OCTETS)),
            *triton_grpc(
                "INVALID_ARGUMENT",
                "Expected 602112, got 67108864",
                lambda model: kserve_grpc(model, (1, *IMAGE), big()),
            ),
            http(413, TOO_LARGE, "onnx-jpeg-http", lambda: files_http(big())),
            rpc("INVALID_ARGUMENT", "is 64 MiB: send a JPEG", "onnx-jpeg-grpc", lambda: files_grpc(big())),
            http(413, TOO_LARGE, "torchserve-http", lambda: torchserve_raw(big())),
            rpc("RESOURCE_EXHAUSTED", TOO_LARGE, "torchserve-grpc", lambda: torchserve_grpc(big())),
            rpc("RESOURCE_EXHAUSTED", "larger than max", "typed-grpc", lambda: typed_grpc(big())),
            http(413, TOO_LARGE, "typed-http", lambda: Http("/v1/predict", big(), JSON)),
            http(413, TOO_LARGE, "echo-http", lambda: echo_binary(big())),
            rpc("RESOURCE_EXHAUSTED", "larger than max", "echo-grpc", lambda: Grpc(f"{ECHO}/Binary", big())),
            http(413, TOO_LARGE, "seldon-http", lambda: seldon_http(big())),
            rpc("RESOURCE_EXHAUSTED", "larger than max", "seldon-grpc", lambda: seldon_grpc(big())),
            http(413, "larger than 32 MiB", "frames-http", lambda: frames_http("base64", big())),
            rpc("RESOURCE_EXHAUSTED", "larger than max", "frames-grpc", lambda: frames_grpc(big())),
        ),
        note="HTTP: refused by Envoy on the announced length; gRPC announces none, see below",
    ),
    Case(
        "64 MiB body, its length not announced",
        (
            http(413, TOO_LARGE, "jpeg-http", lambda: replace(jpeg_raw(big()), chunked=True)),
            *triton_http(413, TOO_LARGE, lambda model: Http(infer_path(model), big(), OCTETS, chunked=True)),
            http(413, TOO_LARGE, "onnx-jpeg-http", lambda: replace(files_http(big()), chunked=True)),
            http(413, TOO_LARGE, "torchserve-http", lambda: torchserve_raw(big(), chunked=True)),
            http(413, TOO_LARGE, "typed-http", lambda: Http("/v1/predict", big(), JSON, chunked=True)),
            http(413, TOO_LARGE, "echo-http", lambda: replace(echo_binary(big()), chunked=True)),
            http(413, TOO_LARGE, "seldon-http", lambda: replace(seldon_http(big()), chunked=True)),
            http(413, "larger than 32 MiB", "frames-http", lambda: frames_http("base64", big(), chunked=True)),
        ),
        note="cut off by Envoy at 32 MiB",
    ),
    Case(
        "bad base64",
        (
            http(400, "is not base64: send standard base64", "jpeg-http", lambda: jpeg_json([NOT_BASE64])),
            http(400, "is not base64: send standard base64", "torchserve-http", lambda: torchserve_json(NOT_BASE64)),
            http(400, "images[0]: invalid value", "typed-http", lambda: typed_http([NOT_BASE64])),
            http(400, "is not base64: send standard base64", "echo-http", lambda: echo_base64(NOT_BASE64)),
            rpc(
                "INVALID_ARGUMENT",
                "is not base64: send standard base64",
                "echo-grpc",
                lambda: echo_grpc_base64(NOT_BASE64),
            ),
            http(
                400,
                "frame cannot be decoded",
                "frames-http",
                lambda: frames_text(width=1, height=1, frame=NOT_BASE64),
            ),
        ),
    ),
    Case(
        "bad JSON, or over gRPC bytes that are no message",
        (
            http(400, "the body is not JSON", "jpeg-http", lambda: Http("/embed/base64", NOT_JSON, JSON)),
            *triton_http(400, NOT_JSON_FOR_TRITON, lambda model: Http(infer_path(model), NOT_JSON, JSON)),
            *triton_grpc("INVALID_ARGUMENT", "generate the client from", lambda model: infer(NOT_PROTO, model)),
            http(400, NOT_JSON_FOR_TRITON, "onnx-jpeg-http", lambda: Http(infer_path(FILES), NOT_JSON, JSON)),
            rpc("INVALID_ARGUMENT", "generate the client from", "onnx-jpeg-grpc", lambda: infer(NOT_PROTO, FILES)),
            http(400, "the body is not JSON", "torchserve-http", lambda: torchserve_raw(NOT_JSON, kind=JSON_TYPE)),
            rpc("INVALID_ARGUMENT", "PredictionsRequest", "torchserve-grpc", lambda: torchserve_bytes(NOT_PROTO)),
            rpc("INVALID_ARGUMENT", "generate your client", "typed-grpc", lambda: typed_bytes(NOT_PROTO)),
            http(400, "end of string", "typed-http", lambda: Http("/v1/predict", NOT_JSON, JSON)),
            http(400, "the body is not JSON", "echo-http", lambda: Http("/transport/structured", NOT_JSON, JSON)),
            rpc("INVALID_ARGUMENT", "generate your client", "echo-grpc", lambda: Grpc(f"{ECHO}/Structured", NOT_PROTO)),
            http(400, "the body is not JSON", "seldon-http", lambda: seldon_http(NOT_JSON)),
            rpc("INVALID_ARGUMENT", "generate your client", "seldon-grpc", lambda: seldon_grpc(NOT_PROTO)),
            http(400, "the body is not JSON", "frames-http", lambda: frames_http("base64", NOT_JSON)),
            rpc("INVALID_ARGUMENT", "generate your client", "frames-grpc", lambda: frames_grpc(NOT_PROTO)),
            rpc("INVALID_ARGUMENT", NO_HEAD, "frames-zmq", lambda: frames_zmq(NOT_JSON)),
        ),
    ),
    Case(
        "JSON nested 100,000 levels deep",
        (
            http(400, "the body is not JSON", "jpeg-http", lambda: Http("/embed/base64", DEEP, JSON)),
            *triton_http(400, "is nested deeper than 64 levels", lambda model: Http(infer_path(model), DEEP, JSON)),
            http(400, "is nested deeper than 64 levels", "onnx-jpeg-http", lambda: Http(infer_path(FILES), DEEP, JSON)),
            http(400, "the body is not JSON", "torchserve-http", lambda: torchserve_raw(DEEP, kind=JSON_TYPE)),
            http(400, "Message too deep", "typed-http", lambda: Http("/v1/predict", DEEP, JSON)),
            http(400, "the body", "echo-http", lambda: Http("/transport/structured", DEEP, JSON)),
            http(400, "the body is not JSON", "seldon-http", lambda: seldon_http(DEEP)),
            http(400, "the body is not JSON", "frames-http", lambda: frames_http("base64", DEEP)),
            rpc("INVALID_ARGUMENT", NO_HEAD, "frames-zmq", lambda: frames_zmq(DEEP)),
        ),
    ),
    Case(
        "wrong content type",
        (
            http(415, "send application/json", "jpeg-http", lambda: replace(jpeg_json([B64_PHOTO]), headers=TEXT)),
            http(415, "send image/jpeg or multipart/form-data", "jpeg-http", lambda: Http("/embed", PHOTO, TEXT)),
            *triton_http(400, NOT_JSON_FOR_TRITON, lambda model: Http(infer_path(model), PHOTO, JPEG)),
            http(400, NOT_JSON_FOR_TRITON, "onnx-jpeg-http", lambda: Http(infer_path(FILES), PHOTO, JPEG)),
            http(415, "send image/jpeg", "torchserve-http", lambda: torchserve_raw(PHOTO, kind="text/plain")),
            http(415, "application/json", "typed-http", lambda: replace(typed_http([B64_PHOTO]), headers=TEXT)),
            http(415, "send application/json", "echo-http", lambda: Http("/transport/structured", b"{}", TEXT)),
            http(415, "send application/json", "seldon-http", lambda: seldon_http(SELDON_ARRAY.encode(), TEXT)),
            http(415, "send application/json", "frames-http", lambda: frames_http("hex", b"{}", "text/plain")),
            http(415, "send multipart/form-data", "frames-http", lambda: frames_http("multipart", b"{}")),
        ),
        note="Triton does not look at it: to Triton a photo is bad JSON",
    ),
    Case(
        "missing field",
        (
            http(400, 'the field "images" is missing', "jpeg-http", lambda: Http("/embed/base64", b"{}", JSON)),
            http(400, 'the form has no part "images"', "jpeg-http", lambda: jpeg_form(PHOTO, name="photos")),
            *triton_http(400, "'inputs'", lambda model: Http(infer_path(model), b"{}", JSON)),
            *triton_grpc("INVALID_ARGUMENT", "expected 1 inputs but got 0", no_inputs),
            http(400, "'inputs'", "onnx-jpeg-http", lambda: Http(infer_path(FILES), b"{}", JSON)),
            rpc("INVALID_ARGUMENT", "expected 1 inputs but got 0", "onnx-jpeg-grpc", lambda: no_inputs(FILES)),
            http(400, 'the field "image" is missing', "torchserve-http", lambda: torchserve_raw(b"{}", kind=JSON_TYPE)),
            rpc("INVALID_ARGUMENT", 'under the key "data"', "torchserve-grpc", lambda: torchserve_grpc(PHOTO, key="x")),
            http(400, NONE, "typed-http", lambda: Http("/v1/predict", b"{}", JSON)),
            http(400, "name: Field required", "echo-http", lambda: Http("/transport/structured", b"{}", JSON)),
            *of_seldon("has no data: send data.ndarray", {}),
            http(400, 'the field "frame" is missing', "frames-http", lambda: frames_text(width=1, height=1)),
            http(400, 'the form has no file "frame"', "frames-http", lambda: frames_http("multipart", *form([PHOTO]))),
            rpc("INVALID_ARGUMENT", "1 parts: send a JSON head", "frames-zmq", lambda: frames_zmq(TWO)),
        ),
    ),
    Case(
        "elements that are not as long as they say",
        (
            http(400, "incomplete string", "onnx-jpeg-http", lambda: kserve_http(FILES, (1, 1), PHOTO, "BYTES")),
            rpc(
                "INVALID_ARGUMENT",
                "incomplete string",
                "onnx-jpeg-grpc",
                lambda: kserve_grpc(FILES, (1, 1), PHOTO, "BYTES"),
            ),
        ),
        note="a BYTES tensor holds each element behind its length",
    ),
    Case(
        "unknown model",
        (
            *triton_http(404, "unknown model", lambda model: good_http(model.replace(MODEL, "nothing"))),
            *triton_grpc("NOT_FOUND", "unknown model", lambda model: good_grpc(model.replace(MODEL, "nothing"))),
            http(404, "unknown model", "onnx-jpeg-http", lambda: good_http("nothing_jpeg")),
            rpc("NOT_FOUND", "unknown model", "onnx-jpeg-grpc", lambda: good_grpc("nothing_jpeg")),
            http(404, "Model not found: nothing", "torchserve-http", lambda: torchserve_raw(PHOTO, "nothing")),
            rpc("NOT_FOUND", "Model not found: nothing", "torchserve-grpc", lambda: torchserve_grpc(PHOTO, "nothing")),
        ),
        note="the other routes serve one model and name none",
    ),
    Case(
        "wrong shape",
        (
            *of_tensors("unexpected shape for input 'image'", (1, 3, 200, 200)),
            *of_files("unexpected shape for input 'jpeg'", (1, 2), PHOTO, PHOTO),
            *of_seldon("holds 4 values and there are 3", {"data": {"tensor": {"shape": [2, 2], "values": [1, 2, 3]}}}),
            *of_seldon("send equally long lists", {"data": {"ndarray": [[1, 2], [3]]}}),
            http(400, NOT_2, "frames-http", lambda: frames_text(width=1, height=2, frame="AAAA")),
            rpc("INVALID_ARGUMENT", NOT_2, "frames-grpc", lambda: frames_grpc(frame_message(1, 2, bytes(3)))),
            rpc("INVALID_ARGUMENT", NOT_2, "frames-zmq", lambda: frames_zmq(TWO, bytes(3))),
        ),
        note="photos may have any size",
    ),
    Case(
        "wrong type",
        (
            http(400, "images[0] is not a string: send base64", "jpeg-http", lambda: jpeg_json([5])),
            http(400, 'the field "images" is missing or not a list', "jpeg-http", lambda: jpeg_json("text")),
            *of_tensors("data-type is 'INT32'", (1, *IMAGE), "INT32"),
            http(400, "unexpected inference input 'image'", "onnx-jpeg-http", lambda: good_http(FILES)),
            rpc("INVALID_ARGUMENT", "unexpected inference input 'image'", "onnx-jpeg-grpc", lambda: good_grpc(FILES)),
            http(400, 'the field "image" is missing or not a string', "torchserve-http", lambda: torchserve_json(5)),
            http(400, "images[0]: invalid value 5", "typed-http", lambda: typed_http([5])),
            http(400, "image: Input should be a valid string", "echo-http", lambda: echo_base64(5)),
            *of_seldon("strData holds no array", {"strData": "x"}),
            *of_seldon("send numbers only", {"data": {"ndarray": [1, "a"]}}),
            *of_seldon("dtype is DT_STRING", {"data": {"tftensor": {"dtype": "DT_STRING"}}}),
            http(400, "a frame of 'x' x 1", "frames-http", lambda: frames_text(width="x", height=1, frame="")),
            rpc("INVALID_ARGUMENT", "slot is no name", "frames-zmq", lambda: frames_zmq(SLOT % b"../etc/passwd")),
        ),
    ),
    Case(
        "batch of 0",
        (
            http(400, NONE, "jpeg-http", lambda: jpeg_json([])),
            *of_tensors("Expected 602112, got 0", (0, *IMAGE)),
            *of_files("expected 1 string elements", (0, 1)),
            rpc("INVALID_ARGUMENT", NONE, "typed-grpc", lambda: typed_grpc()),
            http(400, NONE, "typed-http", lambda: typed_http([])),
        ),
        note="TorchServe takes one image per request",
    ),
    Case(
        "batch of 33",
        (
            http(400, NOT_32, "jpeg-http", lambda: jpeg_json([B64_PHOTO] * 33)),
            http(400, "Maximum number of files is 32", "jpeg-http", lambda: jpeg_form(*[PHOTO] * 33)),
            *of_tensors("batch-size must be <= 32", (33, *IMAGE)),
            *of_files("batch-size must be <= 32", (33, 1), *[PHOTO] * 33),
            rpc("INVALID_ARGUMENT", NOT_32, "typed-grpc", lambda: typed_grpc(*[PHOTO] * 33)),
            http(400, NOT_32, "typed-http", lambda: typed_http([B64_PHOTO] * 33)),
        ),
        note="TorchServe takes one image per request",
    ),
    Case(
        "list of 100,001 vectors",
        (
            http(400, NOT_A_LIST, "echo-http", lambda: Http("/transport/vectors/json?count=100001", method="GET")),
            rpc("INVALID_ARGUMENT", NOT_A_LIST, "echo-grpc", lambda: echo_vectors(100_001)),
        ),
    ),
    Case(
        "9 MiB of values",
        (
            http(413, "larger than 8 MiB: send fewer values", "seldon-http", lambda: seldon_http(bytes(9 * MIB))),
            rpc("RESOURCE_EXHAUSTED", "larger than max", "seldon-grpc", lambda: seldon_grpc(bytes(9 * MIB))),
        ),
    ),
    Case(
        "a shape of terabytes",
        of_seldon("send at most 1,048,576", {"data": {"tftensor": TERABYTES}}, 413, "RESOURCE_EXHAUSTED"),
        note="a few bytes can say that one value fills it",
    ),
    Case(
        "shared memory that is not there",
        (rpc("NOT_FOUND", "make the file in the shared folder", "frames-zmq", lambda: frames_zmq(SLOT % b"nothing1")),),
    ),
    Case(
        "a frame larger than 1920 x 1080",
        (
            http(400, "1 to 2073600 pixels", "frames-http", lambda: frames_text(width=1921, height=1080, frame="")),
            rpc("INVALID_ARGUMENT", "1 to 2073600", "frames-grpc", lambda: frames_grpc(frame_message(1921, 1080, b""))),
            rpc(
                "INVALID_ARGUMENT",
                "1 to 2073600",
                "frames-zmq",
                lambda: frames_zmq(b'{"width": 1921, "height": 1080}', b""),
            ),
        ),
    ),
    Case(
        "unknown `x-mode`",
        (
            http(400, "send decoded or raw", "seldon-http", lambda: seldon_http(b"{}", {**JSON, "x-mode": "fast"})),
            rpc("INVALID_ARGUMENT", "send decoded or raw", "seldon-grpc", lambda: seldon_grpc(b"", ("x-mode", "fast"))),
        ),
    ),
    Case(
        "unknown path",
        (
            http(404, NOT_SERVED, "jpeg-http", lambda: Http("/embed/nothing", PHOTO)),
            *triton_http(404, NOT_SERVED, lambda model: Http(f"/v2/models/{model}/nothing")),
            http(404, NOT_SERVED, "onnx-jpeg-http", lambda: Http(f"/v2/models/{FILES}/nothing")),
            http(404, NOT_SERVED, "torchserve-http", lambda: Http(f"/predictions/{MODEL}/1.0/nothing", PHOTO)),
            http(404, NOT_SERVED, "typed-http", lambda: Http("/v1/nothing", b"{}", JSON)),
            http(404, NOT_SERVED, "echo-http", lambda: Http("/transport/nothing", b"{}", JSON)),
            http(404, NOT_SERVED, "seldon-http", lambda: Http("/api/v1.0/nothing", b"{}", JSON)),
            http(404, "no such path", "frames-http", lambda: frames_http("nothing", b"{}")),
        ),
    ),
    Case(
        "unknown gRPC method",
        (
            *triton_grpc("UNIMPLEMENTED", NOT_SERVED, lambda model: infer(b"", model, "Nothing")),
            rpc("UNIMPLEMENTED", NOT_SERVED, "onnx-jpeg-grpc", lambda: infer(b"", FILES, "Nothing")),
            rpc("UNIMPLEMENTED", NOT_SERVED, "torchserve-grpc", lambda: Grpc(f"{TORCHSERVE}/Nothing")),
            rpc("UNIMPLEMENTED", NOT_SERVED, "typed-grpc", lambda: Grpc(f"{TYPED}/Nothing")),
            rpc("UNIMPLEMENTED", NOT_SERVED, "echo-grpc", lambda: Grpc(f"{ECHO}/Nothing")),
            rpc("UNIMPLEMENTED", NOT_SERVED, "seldon-grpc", lambda: Grpc(f"{SELDON}/SendFeedback")),
            rpc("UNIMPLEMENTED", "Method not found", "frames-grpc", lambda: frames_grpc(b"", "Nothing")),
        ),
    ),
)
CASES_BY_NAME = {case.name: case for case in CASES}
