"""Bad input: every case on every route it can happen on, and the required answer. docs/errors.md is made from this.

A request is written down as bytes, not with a native client: clients refuse to send most of these.
"""

import json
import math
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
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

from chaos.docker import address_of
from tests.clients import EDGE, MODEL, TIMEOUT_S, b64, channel, error_text, form, raw_call, zmq_ask
from tests.conftest import PHOTOS

PHOTO = (PHOTOS / "otter_224x224.jpg").read_bytes()
B64_PHOTO = b64(PHOTO)
MIB = 1024 * 1024
TORCHSERVE = "/org.pytorch.serve.grpc.inference.InferenceAPIsService"
TYPED = "/fiveway.vision.v1.VisionService"
ECHO = "/fiveway.transport.v1.BaseService"
SELDON = "/seldon.protos.Seldon"
TERABYTES = {"dtype": "DT_DOUBLE", "tensorShape": {"dim": [{"size": 10**12}]}, "doubleVal": [1]}
JSON = {"content-type": "application/json"}
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


def as_json(path: str, message: object) -> Http:
    return Http(path, json.dumps(message).encode(), JSON)


def jpeg_json(images: object) -> Http:
    return as_json("/embed/base64", {"images": images})


def jpeg_raw(body: bytes) -> Http:
    return Http("/embed", body, JPEG)


def jpeg_form(*jpegs: bytes, name: str = "images") -> Http:
    body, kind = form(jpegs, name)
    return Http("/embed", body, {"content-type": kind})


def infer_http(model: str, body: bytes = b"", headers: Mapping[str, str] = JSON) -> Http:
    return Http(f"/v2/models/{model}/infer", body, headers)


def infer_grpc(model: str, body: bytes = b"", method: str = "ModelInfer") -> Grpc:
    route = {"trt": "trt-grpc", "jpeg": "onnx-jpeg-grpc"}.get(model.rpartition("_")[2])
    return Grpc(f"/inference.GRPCInferenceService/{method}", body, (("x-route", route),) if route else ())


def kserve_http(model: str, shape: tuple[int, ...], body: bytes, datatype: str = "FP32") -> Http:
    """KServe v2 with the binary tensor extension."""
    about = {"shape": shape, "datatype": datatype, "parameters": {"binary_data_size": len(body)}}
    inputs = [{"name": "jpeg" if datatype == "BYTES" else "image", **about}]
    head = json.dumps({"inputs": inputs}).encode()
    return infer_http(model, head + body, {**OCTETS, "inference-header-content-length": str(len(head))})


def kserve_grpc(model: str, shape: tuple[int, ...], body: bytes, datatype: str = "FP32") -> Grpc:
    message = kserve.ModelInferRequest(model_name=model, raw_input_contents=[body])
    message.inputs.add(name="jpeg" if datatype == "BYTES" else "image", datatype=datatype, shape=shape)
    return infer_grpc(model, message.SerializeToString())


def elements(*jpegs: bytes) -> bytes:
    """A BYTES tensor: each element behind its length."""
    return b"".join(struct.pack("<I", len(jpeg)) + jpeg for jpeg in jpegs)


def files_http(*jpegs: bytes) -> Http:
    return kserve_http(FILES, (len(jpegs), 1), elements(*jpegs), "BYTES")


def files_grpc(*jpegs: bytes) -> Grpc:
    return kserve_grpc(FILES, (len(jpegs), 1), elements(*jpegs), "BYTES")


def no_inputs(model: str) -> Grpc:
    return infer_grpc(model, kserve.ModelInferRequest(model_name=model).SerializeToString())


def good_http(model: str) -> Http:
    return kserve_http(model, (1, *IMAGE), tensor(1, *IMAGE))


def good_grpc(model: str) -> Grpc:
    return kserve_grpc(model, (1, *IMAGE), tensor(1, *IMAGE))


def torchserve_raw(body: bytes, model: str = MODEL, kind: str = "image/jpeg") -> Http:
    return Http(f"/predictions/{model}", body, {"content-type": kind})


def torchserve_json(image: object) -> Http:
    return as_json(f"/predictions/{MODEL}", {"image": image})


def torchserve_grpc(jpeg: bytes, model: str = MODEL, key: str = "data") -> Grpc:
    message = torchserve.PredictionsRequest(model_name=model, input={key: jpeg})
    return Grpc(f"{TORCHSERVE}/Predictions", message.SerializeToString())


def typed_grpc(*images: bytes) -> Grpc:
    return Grpc(f"{TYPED}/Predict", typed.PredictRequest(images=images).SerializeToString())


def typed_http(images: object) -> Http:
    return as_json("/v1/predict", {"images": images})


def echo_binary(image: bytes) -> Http:
    return Http("/transport/binary", image, OCTETS)


def seldon_http(body: bytes, headers: Mapping[str, str] = JSON) -> Http:
    return Http("/api/v1.0/predictions", body, headers)


def seldon_grpc(body: bytes, *metadata: tuple[str, str]) -> Grpc:
    return Grpc(f"{SELDON}/Predict", body, metadata)


def frames_http(path: str, body: bytes, kind: str = "application/json") -> Http:
    return Http(f"/frames/{path}", body, {"content-type": kind}, at=lambda: f"{address_of('frames')}:8000")


def frames_text(**message: object) -> Http:
    """A frame as base64."""
    return frames_http("base64", json.dumps(message).encode())


def frames_grpc(body: bytes, method: str = "Change") -> Grpc:
    return Grpc(f"/fiveway.transport.v1.FrameService/{method}", body, at=lambda: f"{address_of('frames')}:50051")


def frame(width: int, height: int, pixels: bytes = b"") -> Grpc:
    return frames_grpc(frames.ChangeRequest(width=width, height=height, pixels=pixels).SerializeToString())


def huge_header() -> bytes:
    """The photo with a frame header that says 65,500 x 65,500 pixels: 12 GB once decoded."""
    at = PHOTO.index(b"\xff\xc0") if b"\xff\xc0" in PHOTO else PHOTO.index(b"\xff\xc2")
    return PHOTO[: at + 5] + struct.pack(">HH", 65500, 65500) + PHOTO[at + 9 :]


def big() -> bytes:
    """64 MiB that begin like a photo."""
    return PHOTO + b"\0" * (64 * MIB - len(PHOTO))


NOT_JSON = b'{"images": ['
NOT_PROTO = b"\xff" * 64
NOT_BASE64 = "*** no ***"
BASE64_MESSAGE = base.Base64Request(image=NOT_BASE64).SerializeToString()
VECTORS = distance.ListVectorsRequest(count=100_001).SerializeToString()
NOT_IMAGE = b"This is a text and not a photo. " * 8
TRUNCATED = PHOTO[: len(PHOTO) // 2]
HUGE = huge_header()
PHOTO_21_MIB = PHOTO + bytes(21 * MIB)
DEEP = b"[" * 100_000
ONE_BY_TWO = b'{"width": 1, "height": 2}'
SLOT = b'{"width": 1, "height": 1, "slot": "%s"}'
# What messages say that several routes send.
NO_JSON = "the body is not JSON"
NO_BASE64 = "is not base64: send standard base64"
TOO_LARGE = "32 MiB per request at most, send fewer or smaller images"
MUCH_JSON = "8 MiB of JSON per request at most"
TOO_DEEP = "is nested deeper than 64 levels"
NO_JSON_FOR_TRITON = "failed to parse the request JSON buffer"
OTHER_CLIENT = "generate your client"
NOT_32 = "33 images: send 1 to 32 in one request"
NONE = "0 images: send 1 to 32 in one request"
NOT_SERVED = "not served at this port"
UNKNOWN_MODEL = "unknown model"
NOT_A_LIST = "count is 100001: send 1 to 100000"
NO_HEAD = "the first part is not a JSON object"
NOT_2 = "3 bytes for a frame of 1 x 2: send 6"

IMAGE = (3, 224, 224)
TRT, FILES = f"{MODEL}_trt", f"{MODEL}_jpeg"
TENSORS = (("onnx", MODEL), ("trt", TRT))
TRITON = (*TENSORS, ("onnx-jpeg", FILES))


@dataclass(frozen=True)
class Refusal:
    """What one route must say: the HTTP status or the gRPC status name, and a part of its message."""

    route: str
    build: Callable[[], Request]
    status: str
    says: str

    def holds(self, request: Request) -> None:
        """Exactly the status, and the words in the message."""
        status, message = request.send()
        assert status == self.status, message
        assert self.says in (error_text(message) if status.isdigit() else message), message


class Case:
    """A row of the table. A route that is left out has no such case; `note` says why, where that is not obvious."""

    def __init__(self, name: str, *refusals: Refusal, note: str = "") -> None:
        self.name, self.refusals, self.note = name, refusals, note


def refusal(status: int, code: str, says: str, route: str, build: Callable[[], Request]) -> Refusal:
    """`status` where the route is HTTP, else the gRPC `code`."""
    return Refusal(route, build, str(status) if route.endswith("-http") else code, says)


# How a route refuses, by the reason: what it says, its name, the request.
Say = Callable[[str, str, Callable[[], Request]], Refusal]
bad: Say = partial(refusal, 400, "INVALID_ARGUMENT")
unknown: Say = partial(refusal, 404, "NOT_FOUND")
unserved: Say = partial(refusal, 404, "UNIMPLEMENTED")
large: Say = partial(refusal, 413, "RESOURCE_EXHAUSTED")
other_type: Say = partial(refusal, 415, "")


def of_jpegs(says: str, jpeg: bytes, say: Say = bad) -> tuple[Refusal, ...]:
    """The same bad photo on every route that takes photos; `says` is in the message of each."""
    return (
        say(says, "jpeg-http", lambda: jpeg_json([b64(jpeg)])),
        say(says, "jpeg-http", lambda: jpeg_raw(jpeg)),
        say(says, "jpeg-http", lambda: jpeg_form(jpeg)),
        # Triton has no word for "too large".
        bad(says, "onnx-jpeg-http", lambda: files_http(jpeg)),
        bad(f"jpeg[1] {says}", "onnx-jpeg-http", lambda: files_http(PHOTO, jpeg)),
        bad(says, "onnx-jpeg-grpc", lambda: files_grpc(jpeg)),
        say(says, "torchserve-http", lambda: torchserve_raw(jpeg)),
        say(says, "torchserve-http", lambda: torchserve_json(b64(jpeg))),
        say(says, "torchserve-grpc", lambda: torchserve_grpc(jpeg)),
        say(says, "typed-grpc", lambda: typed_grpc(jpeg)),
        say(says, "typed-grpc", lambda: replace(typed_grpc(jpeg), metadata=(("x-backend", "triton"),))),
        say(says, "typed-http", lambda: typed_http([b64(jpeg)])),
    )


def of_triton(
    say: Say, protocol: str, says: str, build: Callable[[str], Request], models: Sequence[tuple[str, str]] = TRITON
) -> tuple[Refusal, ...]:
    """The same on onnx-*, trt-* and onnx-jpeg-*; `build` gets the name of the model that the route asks for."""
    return tuple(say(says, f"{route}-{protocol}", partial(build, model)) for route, model in models)


def of_tensors(says: str, shape: tuple[int, ...], datatype: str = "FP32") -> tuple[Refusal, ...]:
    """The same bad tensor of zeros (four bytes each) on the four tensor routes."""
    return (
        *of_triton(bad, "http", says, lambda name: kserve_http(name, shape, tensor(*shape), datatype), TENSORS),
        *of_triton(bad, "grpc", says, lambda name: kserve_grpc(name, shape, tensor(*shape), datatype), TENSORS),
    )


def of_files(says: str, shape: tuple[int, ...], raw: bytes = b"") -> tuple[Refusal, ...]:
    """The same bad BYTES tensor on onnx-jpeg-http and onnx-jpeg-grpc."""
    return (
        bad(says, "onnx-jpeg-http", lambda: kserve_http(FILES, shape, raw, "BYTES")),
        bad(says, "onnx-jpeg-grpc", lambda: kserve_grpc(FILES, shape, raw, "BYTES")),
    )


def of_seldon(says: str, message: dict[str, object], say: Say = bad) -> tuple[Refusal, ...]:
    """The same bad SeldonMessage as JSON and as protobuf."""
    proto = json_format.ParseDict(message, seldon.SeldonMessage()).SerializeToString()
    return (
        say(says, "seldon-http", lambda: seldon_http(json.dumps(message).encode())),
        say(says, "seldon-grpc", lambda: seldon_grpc(proto)),
    )


def unannounced(build: Callable[[], Request]) -> Request:
    """The same HTTP request, its length not announced."""
    request = build()
    assert isinstance(request, Http)
    return replace(request, chunked=True)


TOO_MUCH = (
    large(TOO_LARGE, "jpeg-http", lambda: jpeg_raw(big())),
    *of_triton(large, "http", MUCH_JSON, lambda model: infer_http(model, big(), OCTETS), TENSORS),
    *of_triton(large, "grpc", TOO_LARGE, lambda m: kserve_grpc(m, (1, *IMAGE), big()), TENSORS),
    large(TOO_LARGE, "onnx-jpeg-http", lambda: files_http(big())),
    large(TOO_LARGE, "onnx-jpeg-grpc", lambda: files_grpc(big())),
    large(TOO_LARGE, "torchserve-http", lambda: torchserve_raw(big())),
    large(TOO_LARGE, "torchserve-grpc", lambda: torchserve_grpc(big())),
    large("larger than max", "typed-grpc", lambda: typed_grpc(big())),
    large(TOO_LARGE, "typed-http", lambda: Http("/v1/predict", big(), JSON)),
    large(TOO_LARGE, "echo-http", lambda: echo_binary(big())),
    large("larger than max", "echo-grpc", lambda: Grpc(f"{ECHO}/Binary", big())),
    large(TOO_LARGE, "seldon-http", lambda: seldon_http(big())),
    large("larger than max", "seldon-grpc", lambda: seldon_grpc(big())),
    large("larger than 32 MiB", "frames-http", lambda: frames_http("base64", big())),
    large("larger than max", "frames-grpc", lambda: frames_grpc(big())),
)
CASES = (
    Case(
        "not an image",
        *of_jpegs("is not a JPEG: send JPEG bytes", NOT_IMAGE),
        note="on the tensor routes the client decodes photos",
    ),
    Case("truncated JPEG", *of_jpegs("is truncated or damaged: send the whole JPEG file", TRUNCATED)),
    Case(
        "65,500 x 65,500 pixels declared by a 20 kB file",
        *of_jpegs("is 65500 x 65500 pixels: send at most 50,000,000 pixels", HUGE),
        note="refused from its header, before any pixel is decoded",
    ),
    Case("JPEG of 21 MiB", *of_jpegs("is 21 MiB: send a JPEG of at most 20 MiB", PHOTO_21_MIB, large)),
    Case(
        "empty body",
        bad(NO_JSON, "jpeg-http", lambda: Http("/embed/base64", b"", JSON)),
        bad("is empty: send JPEG bytes", "jpeg-http", lambda: jpeg_raw(b"")),
        *of_triton(bad, "http", "Expected 602112, got 0", lambda model: infer_http(model, headers={}), TENSORS),
        *of_triton(unknown, "grpc", UNKNOWN_MODEL, infer_grpc),
        bad("is empty: send JPEG bytes", "onnx-jpeg-http", lambda: infer_http(FILES, headers={})),
        bad("is empty: send JPEG bytes", "torchserve-http", lambda: torchserve_raw(b"")),
        bad("model_name is required", "torchserve-grpc", lambda: Grpc(f"{TORCHSERVE}/Predictions")),
        bad(NONE, "typed-grpc", lambda: typed_grpc()),
        bad(NONE, "typed-http", lambda: Http("/v1/predict", b"", JSON)),
        bad("the image is empty", "echo-http", lambda: echo_binary(b"")),
        bad("the image is empty", "echo-grpc", lambda: Grpc(f"{ECHO}/Binary")),
        bad(NO_JSON, "seldon-http", lambda: seldon_http(b"")),
        bad("has no data: send data.ndarray", "seldon-grpc", lambda: seldon_grpc(b"")),
        bad(NO_JSON, "frames-http", lambda: frames_http("base64", b"")),
        bad("a frame of 0 x 0: send whole numbers", "frames-grpc", lambda: frames_grpc(b"")),
        bad(NO_HEAD, "frames-zmq", lambda: ZeroMq((b"",))),
        note="over gRPC: a message without model, image or array",
    ),
    Case(
        "64 MiB body",
        *TOO_MUCH,
        note="over HTTP Envoy refuses it by its content-length; gRPC has none, see below",
    ),
    Case(
        "64 MiB body without content-length",
        *(replace(one, build=partial(unannounced, one.build)) for one in TOO_MUCH if one.route.endswith("-http")),
        note="Envoy cuts it off at 32 MiB",
    ),
    Case(
        "bad base64",
        bad(NO_BASE64, "jpeg-http", lambda: jpeg_json([NOT_BASE64])),
        bad(NO_BASE64, "torchserve-http", lambda: torchserve_json(NOT_BASE64)),
        bad("images[0]: invalid value", "typed-http", lambda: typed_http([NOT_BASE64])),
        bad(NO_BASE64, "echo-http", lambda: as_json("/transport/base64", {"image": NOT_BASE64})),
        bad(NO_BASE64, "echo-grpc", lambda: Grpc(f"{ECHO}/Base64", BASE64_MESSAGE)),
        bad("frame cannot be decoded", "frames-http", lambda: frames_text(width=1, height=1, frame=NOT_BASE64)),
    ),
    Case(
        "malformed JSON; over gRPC malformed bytes",
        bad(NO_JSON, "jpeg-http", lambda: Http("/embed/base64", NOT_JSON, JSON)),
        *of_triton(bad, "http", NO_JSON_FOR_TRITON, lambda model: infer_http(model, NOT_JSON)),
        *of_triton(bad, "grpc", "generate the client from", lambda model: infer_grpc(model, NOT_PROTO)),
        bad(NO_JSON, "torchserve-http", lambda: torchserve_raw(NOT_JSON, kind="application/json")),
        bad("PredictionsRequest", "torchserve-grpc", lambda: Grpc(f"{TORCHSERVE}/Predictions", NOT_PROTO)),
        bad(OTHER_CLIENT, "typed-grpc", lambda: Grpc(f"{TYPED}/Predict", NOT_PROTO)),
        bad("end of string", "typed-http", lambda: Http("/v1/predict", NOT_JSON, JSON)),
        bad(NO_JSON, "echo-http", lambda: Http("/transport/structured", NOT_JSON, JSON)),
        bad(OTHER_CLIENT, "echo-grpc", lambda: Grpc(f"{ECHO}/Structured", NOT_PROTO)),
        bad(NO_JSON, "seldon-http", lambda: seldon_http(NOT_JSON)),
        bad(OTHER_CLIENT, "seldon-grpc", lambda: seldon_grpc(NOT_PROTO)),
        bad(NO_JSON, "frames-http", lambda: frames_http("base64", NOT_JSON)),
        bad(OTHER_CLIENT, "frames-grpc", lambda: frames_grpc(NOT_PROTO)),
        bad(NO_HEAD, "frames-zmq", lambda: ZeroMq((NOT_JSON,))),
    ),
    Case(
        "JSON nested 100,000 levels deep",
        bad(NO_JSON, "jpeg-http", lambda: Http("/embed/base64", DEEP, JSON)),
        *of_triton(bad, "http", TOO_DEEP, lambda model: infer_http(model, DEEP)),
        bad(NO_JSON, "torchserve-http", lambda: torchserve_raw(DEEP, kind="application/json")),
        bad("Message too deep", "typed-http", lambda: Http("/v1/predict", DEEP, JSON)),
        bad("the body", "echo-http", lambda: Http("/transport/structured", DEEP, JSON)),
        bad(NO_JSON, "seldon-http", lambda: seldon_http(DEEP)),
        bad(NO_JSON, "frames-http", lambda: frames_http("base64", DEEP)),
        bad(NO_HEAD, "frames-zmq", lambda: ZeroMq((DEEP,))),
    ),
    Case(
        "wrong content type",
        other_type("send application/json", "jpeg-http", lambda: replace(jpeg_json([B64_PHOTO]), headers=TEXT)),
        other_type("send image/jpeg or multipart/form-data", "jpeg-http", lambda: Http("/embed", PHOTO, TEXT)),
        *of_triton(bad, "http", NO_JSON_FOR_TRITON, lambda model: infer_http(model, PHOTO, JPEG)),
        other_type("send image/jpeg", "torchserve-http", lambda: torchserve_raw(PHOTO, kind="text/plain")),
        other_type("application/json", "typed-http", lambda: replace(typed_http([B64_PHOTO]), headers=TEXT)),
        other_type("send application/json", "echo-http", lambda: Http("/transport/structured", b"{}", TEXT)),
        other_type("send application/json", "seldon-http", lambda: seldon_http(b'{"data":{"ndarray":[1]}}', TEXT)),
        other_type("send application/json", "frames-http", lambda: frames_http("hex", b"{}", "text/plain")),
        other_type("send multipart/form-data", "frames-http", lambda: frames_http("multipart", b"{}")),
        note="Triton ignores the type: it reads a photo as malformed JSON",
    ),
    Case(
        "missing field",
        bad('the field "images" is missing', "jpeg-http", lambda: Http("/embed/base64", b"{}", JSON)),
        bad('the form has no part "images"', "jpeg-http", lambda: jpeg_form(PHOTO, name="photos")),
        *of_triton(bad, "http", "'inputs'", lambda model: infer_http(model, b"{}")),
        *of_triton(bad, "grpc", "expected 1 inputs but got 0", no_inputs),
        bad('the field "image" is missing', "torchserve-http", lambda: torchserve_raw(b"{}", kind="application/json")),
        bad('under the key "data"', "torchserve-grpc", lambda: torchserve_grpc(PHOTO, key="x")),
        bad(NONE, "typed-http", lambda: Http("/v1/predict", b"{}", JSON)),
        bad("name: Field required", "echo-http", lambda: Http("/transport/structured", b"{}", JSON)),
        *of_seldon("has no data: send data.ndarray", {}),
        bad('the field "frame" is missing', "frames-http", lambda: frames_text(width=1, height=1)),
        bad('the form has no file "frame"', "frames-http", lambda: frames_http("multipart", *form([PHOTO]))),
        bad("1 parts: send a JSON head", "frames-zmq", lambda: ZeroMq((ONE_BY_TWO,))),
    ),
    Case(
        "BYTES elements with wrong lengths",
        *of_files("incomplete string", (1, 1), PHOTO),
        note="a BYTES tensor has the length of each element in front of it",
    ),
    Case(
        "unknown model",
        *of_triton(unknown, "http", UNKNOWN_MODEL, lambda model: good_http(model.replace(MODEL, "nothing"))),
        *of_triton(unknown, "grpc", UNKNOWN_MODEL, lambda model: good_grpc(model.replace(MODEL, "nothing"))),
        unknown("Model not found: nothing", "torchserve-http", lambda: torchserve_raw(PHOTO, "nothing")),
        unknown("Model not found: nothing", "torchserve-grpc", lambda: torchserve_grpc(PHOTO, "nothing")),
        note="the other routes take no model name",
    ),
    Case(
        "wrong shape",
        *of_tensors("unexpected shape for input 'image'", (1, 3, 200, 200)),
        *of_files("unexpected shape for input 'jpeg'", (1, 2), elements(PHOTO, PHOTO)),
        *of_seldon("holds 4 values and there are 3", {"data": {"tensor": {"shape": [2, 2], "values": [1, 2, 3]}}}),
        *of_seldon("send equally long lists", {"data": {"ndarray": [[1, 2], [3]]}}),
        bad(NOT_2, "frames-http", lambda: frames_text(width=1, height=2, frame="AAAA")),
        bad(NOT_2, "frames-grpc", lambda: frame(1, 2, bytes(3))),
        bad(NOT_2, "frames-zmq", lambda: ZeroMq((ONE_BY_TWO, bytes(3)))),
        note="photos may have any size",
    ),
    Case(
        "wrong type",
        bad("images[0] is not a string: send base64", "jpeg-http", lambda: jpeg_json([5])),
        bad('the field "images" is missing or not a list', "jpeg-http", lambda: jpeg_json("text")),
        *of_tensors("data-type is 'INT32'", (1, *IMAGE), "INT32"),
        bad("unexpected inference input 'image'", "onnx-jpeg-http", lambda: good_http(FILES)),
        bad("unexpected inference input 'image'", "onnx-jpeg-grpc", lambda: good_grpc(FILES)),
        bad('the field "image" is missing or not a string', "torchserve-http", lambda: torchserve_json(5)),
        bad("images[0]: invalid value 5", "typed-http", lambda: typed_http([5])),
        bad("image: Input should be a valid string", "echo-http", lambda: as_json("/transport/base64", {"image": 5})),
        *of_seldon("strData holds no array", {"strData": "x"}),
        *of_seldon("send numbers only", {"data": {"ndarray": [1, "a"]}}),
        *of_seldon("dtype is DT_STRING", {"data": {"tftensor": {"dtype": "DT_STRING"}}}),
        bad("a frame of 'x' x 1", "frames-http", lambda: frames_text(width="x", height=1, frame="")),
        bad("slot is not a valid name", "frames-zmq", lambda: ZeroMq((SLOT % b"../etc/passwd",))),
    ),
    Case(
        "batch of 0",
        bad(NONE, "jpeg-http", lambda: jpeg_json([])),
        *of_tensors("Expected 602112, got 0", (0, *IMAGE)),
        *of_files("expected 1 string elements", (0, 1)),
        bad(NONE, "typed-grpc", lambda: typed_grpc()),
        bad(NONE, "typed-http", lambda: typed_http([])),
        note="TorchServe takes one image per request",
    ),
    Case(
        "batch of 33",
        bad(NOT_32, "jpeg-http", lambda: jpeg_json([B64_PHOTO] * 33)),
        bad("Maximum number of files is 32", "jpeg-http", lambda: jpeg_form(*[PHOTO] * 33)),
        *of_tensors("batch-size must be <= 32", (33, *IMAGE)),
        *of_files("batch-size must be <= 32", (33, 1), elements(*[PHOTO] * 33)),
        bad(NOT_32, "typed-grpc", lambda: typed_grpc(*[PHOTO] * 33)),
        bad(NOT_32, "typed-http", lambda: typed_http([B64_PHOTO] * 33)),
        note="TorchServe takes one image per request",
    ),
    Case(
        "list of 100,001 vectors",
        bad(NOT_A_LIST, "echo-http", lambda: Http("/transport/vectors/json?count=100001", method="GET")),
        bad(NOT_A_LIST, "echo-grpc", lambda: Grpc("/fiveway.transport.v1.DistanceService/ListVectors", VECTORS)),
    ),
    Case(
        "9 MiB of values",
        large("larger than 8 MiB: send fewer values", "seldon-http", lambda: seldon_http(bytes(9 * MIB))),
        large("larger than max", "seldon-grpc", lambda: seldon_grpc(bytes(9 * MIB))),
    ),
    Case(
        "tensor shape of terabytes",
        *of_seldon("send at most 1,048,576", {"data": {"tftensor": TERABYTES}}, large),
        note="a tftensor can declare in a few bytes that one value fills any shape",
    ),
    Case(
        "missing shared memory slot",
        unknown("make the file in the shared folder", "frames-zmq", lambda: ZeroMq((SLOT % b"nothing1",))),
    ),
    Case(
        "frame larger than 1920 x 1080",
        bad("1 to 2073600 pixels", "frames-http", lambda: frames_text(width=1921, height=1080, frame="")),
        bad("1 to 2073600", "frames-grpc", lambda: frame(1921, 1080)),
        bad("1 to 2073600", "frames-zmq", lambda: ZeroMq((b'{"width": 1921, "height": 1080}', b""))),
    ),
    Case(
        "unknown `x-mode`",
        bad("send decoded or raw", "seldon-http", lambda: seldon_http(b"{}", {**JSON, "x-mode": "fast"})),
        bad("send decoded or raw", "seldon-grpc", lambda: seldon_grpc(b"", ("x-mode", "fast"))),
    ),
    Case(
        "unknown path",
        unserved(NOT_SERVED, "jpeg-http", lambda: Http("/embed/nothing", PHOTO)),
        *of_triton(unserved, "http", NOT_SERVED, lambda model: Http(f"/v2/models/{model}/nothing")),
        unserved(NOT_SERVED, "torchserve-http", lambda: Http(f"/predictions/{MODEL}/1.0/nothing", PHOTO)),
        unserved(NOT_SERVED, "typed-http", lambda: Http("/v1/nothing", b"{}", JSON)),
        unserved(NOT_SERVED, "echo-http", lambda: Http("/transport/nothing", b"{}", JSON)),
        unserved(NOT_SERVED, "seldon-http", lambda: Http("/api/v1.0/nothing", b"{}", JSON)),
        unserved("no such path", "frames-http", lambda: frames_http("nothing", b"{}")),
    ),
    Case(
        "unknown gRPC method",
        *of_triton(unserved, "grpc", NOT_SERVED, lambda model: infer_grpc(model, method="Nothing")),
        unserved(NOT_SERVED, "torchserve-grpc", lambda: Grpc(f"{TORCHSERVE}/Nothing")),
        unserved(NOT_SERVED, "typed-grpc", lambda: Grpc(f"{TYPED}/Nothing")),
        unserved(NOT_SERVED, "echo-grpc", lambda: Grpc(f"{ECHO}/Nothing")),
        unserved(NOT_SERVED, "seldon-grpc", lambda: Grpc(f"{SELDON}/SendFeedback")),
        unserved("Method not found", "frames-grpc", lambda: frames_grpc(b"", "Nothing")),
    ),
)
CASES_BY_NAME = {case.name: case for case in CASES}
