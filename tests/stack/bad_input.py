"""Bad input: every case on every route it can happen on, and the required answer. docs/errors.md is made from this.

A request is written down as bytes, not with a native client: clients refuse to send most of these.
"""

import json
import math
import struct
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import grpc
from fiveway.transport.v1 import base_pb2 as base
from fiveway.transport.v1 import distance_pb2 as distance
from fiveway.transport.v1 import frames_pb2 as frames
from fiveway.vision.v1 import vision_pb2 as typed
from google.protobuf import json_format
from google.protobuf.message import Message
from seldon import prediction_pb2 as seldon
from torchserve import inference_pb2 as torchserve
from tritonclient.grpc import service_pb2 as kserve

from chaos.docker import address_of
from tests.clients import EDGE, MODEL, TIMEOUT_S, b64, channel, error_text, form, raw_call, zmq_ask
from tests.conftest import PHOTOS

PHOTO = (PHOTOS / "otter_224x224.jpg").read_bytes()
MIB = 1024 * 1024
KSERVE = "/inference.GRPCInferenceService"
TORCHSERVE = "/org.pytorch.serve.grpc.inference.InferenceAPIsService"
TYPED = "/fiveway.vision.v1.VisionService"
ECHO = "/fiveway.transport.v1.BaseService"
FRAMES = "/fiveway.transport.v1.FrameService"
PREDICTIONS = f"/predictions/{MODEL}"
SELDON_PATH = "/api/v1.0/predictions"
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
What = Request | bytes | dict[str, Any] | Message

IMAGE = (3, 224, 224)
FILES = f"{MODEL}_jpeg"
# What a route of Triton begins with, and the model that it asks for.
TENSORS = {"onnx": MODEL, "trt": f"{MODEL}_trt"}
TRITON = {**TENSORS, "onnx-jpeg": FILES}


def infer_http(model: str, body: bytes = b"", headers: Mapping[str, str] = JSON) -> Http:
    return Http(f"/v2/models/{model}/infer", body, headers)


def infer_grpc(name: str, body: bytes = b"", method: str = "ModelInfer") -> Grpc:
    return Grpc(f"{KSERVE}/{method}", body, () if name == "onnx" else (("x-route", f"{name}-grpc"),))


def frames_http(path: str, body: bytes, kind: str = "application/json") -> Http:
    return Http(f"/frames/{path}", body, {"content-type": kind}, at=lambda: f"{address_of('frames')}:8000")


def frames_grpc(body: bytes, method: str = "Change") -> Grpc:
    return Grpc(f"{FRAMES}/{method}", body, at=lambda: f"{address_of('frames')}:50051")


# Where a route takes any body: as JSON, or as its protobuf message.
MAIN: Mapping[str, Callable[[bytes], Request]] = {
    "jpeg-http": partial(Http, "/embed/base64", headers=JSON),
    **{f"{name}-http": partial(infer_http, model) for name, model in TRITON.items()},
    **{f"{name}-grpc": partial(infer_grpc, name) for name in TRITON},
    "torchserve-http": partial(Http, PREDICTIONS, headers=JSON),
    "torchserve-grpc": partial(Grpc, f"{TORCHSERVE}/Predictions"),
    "typed-grpc": partial(Grpc, f"{TYPED}/Predict"),
    "typed-http": partial(Http, "/v1/predict", headers=JSON),
    "echo-http": partial(Http, "/transport/structured", headers=JSON),
    "echo-grpc": partial(Grpc, f"{ECHO}/Structured"),
    "seldon-http": partial(Http, SELDON_PATH, headers=JSON),
    "seldon-grpc": partial(Grpc, "/seldon.protos.Seldon/Predict"),
    "frames-http": partial(frames_http, "base64"),
    "frames-grpc": frames_grpc,
    "frames-zmq": lambda body: ZeroMq((body,)),
}
TRITON_HTTP = "onnx-http trt-http onnx-jpeg-http"
TRITON_GRPC = "onnx-grpc trt-grpc onnx-jpeg-grpc"
SELDON = "seldon-http seldon-grpc"


def request(route: str, what: What | Callable[[], What]) -> Request:
    """`what`, or what it makes, as a request: a body, or a message, goes where the route takes any."""
    made = what() if callable(what) else what
    if isinstance(made, Request):
        return made
    if isinstance(made, dict):
        is_proto = route == "seldon-grpc"
        made = json_format.ParseDict(made, seldon.SeldonMessage()) if is_proto else json.dumps(made).encode()
    return MAIN[route](made.SerializeToString() if isinstance(made, Message) else made)


def jpeg_form(*jpegs: bytes, name: str = "images") -> Http:
    body, kind = form(jpegs, name)
    return Http("/embed", body, {"content-type": kind})


def kserve_http(model: str, shape: tuple[int, ...], body: bytes, datatype: str = "FP32") -> Http:
    """KServe v2 with the binary tensor extension."""
    about = {"shape": shape, "datatype": datatype, "parameters": {"binary_data_size": len(body)}}
    inputs = [{"name": "jpeg" if datatype == "BYTES" else "image", **about}]
    head = json.dumps({"inputs": inputs}).encode()
    return infer_http(model, head + body, {**OCTETS, "inference-header-content-length": str(len(head))})


def kserve_grpc(model: str, shape: tuple[int, ...], body: bytes, datatype: str = "FP32") -> Message:
    message = kserve.ModelInferRequest(model_name=model, raw_input_contents=[body])
    message.inputs.add(name="jpeg" if datatype == "BYTES" else "image", datatype=datatype, shape=shape)
    return message


def good_http(model: str) -> Http:
    return kserve_http(model, (1, *IMAGE), bytes(4 * math.prod(IMAGE)))


def good_grpc(model: str) -> Message:
    return kserve_grpc(model, (1, *IMAGE), bytes(4 * math.prod(IMAGE)))


def elements(*jpegs: bytes) -> bytes:
    """A BYTES tensor: each element behind its length."""
    return b"".join(struct.pack("<I", len(jpeg)) + jpeg for jpeg in jpegs)


def torchserve_grpc(jpeg: bytes, model: str = MODEL, key: str = "data") -> Message:
    return torchserve.PredictionsRequest(model_name=model, input={key: jpeg})


def huge_header() -> bytes:
    """The photo with a frame header that says 65,500 x 65,500 pixels: 12 GB once decoded."""
    at = PHOTO.index(b"\xff\xc0") if b"\xff\xc0" in PHOTO else PHOTO.index(b"\xff\xc2")
    return PHOTO[: at + 5] + struct.pack(">HH", 65500, 65500) + PHOTO[at + 9 :]


PHOTO_TEXT = b64(PHOTO)
IMAGES_JSON = json.dumps({"images": [PHOTO_TEXT]}).encode()
NOT_JSON = b'{"images": ['
NOT_PROTO = b"\xff" * 64
NOT_BASE64 = "*** no ***"
BASE64_MESSAGE = base.Base64Request(image=NOT_BASE64).SerializeToString()
VECTORS = distance.ListVectorsRequest(count=100_001).SerializeToString()
NOT_IMAGE = b"This is a text and not a photo. " * 8
TRUNCATED = PHOTO[: len(PHOTO) // 2]
PHOTO_21_MIB = PHOTO + bytes(21 * MIB)
BIG = PHOTO + bytes(64 * MIB - len(PHOTO))
DEEP = b"[" * 100_000
ONE_BY_TWO = b'{"width": 1, "height": 2}'
SLOT = b'{"width": 1, "height": 1, "slot": "%s"}'
TERABYTES = {"dtype": "DT_DOUBLE", "tensorShape": {"dim": [{"size": 10**12}]}, "doubleVal": [1]}
# What messages say that several routes send.
NO_JSON = "the body is not JSON"
NO_BASE64 = "is not base64: send standard base64"
EMPTY = "is empty: send JPEG bytes"
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

    def __init__(self, name: str, *refusals: Iterable[Refusal], note: str = "") -> None:
        self.name, self.refusals, self.note = name, tuple(chain.from_iterable(refusals)), note


Refusals = tuple[Refusal, ...]


def refuse(status: int, code: str, says: str, routes: str, what: What | Callable[[], What]) -> Refusals:
    """To `what`, each of these routes answers `status` if it is HTTP, else the gRPC `code`."""
    return tuple(
        Refusal(route, partial(request, route, what), str(status) if route.endswith("-http") else code, says)
        for route in routes.split()
    )


# How routes refuse, by the reason: what they say, their names, the request.
Say = Callable[[str, str, What | Callable[[], What]], Refusals]
bad: Say = partial(refuse, 400, "INVALID_ARGUMENT")
unknown: Say = partial(refuse, 404, "NOT_FOUND")
unserved: Say = partial(refuse, 404, "UNIMPLEMENTED")
large: Say = partial(refuse, 413, "RESOURCE_EXHAUSTED")
other_type: Say = partial(refuse, 415, "")


def of_jpegs(says: str, jpeg: bytes, say: Say = bad) -> Refusals:
    """The same bad photo on every route that takes photos; `says` is in the message of each."""
    images, message = {"images": [b64(jpeg)]}, typed.PredictRequest(images=[jpeg])
    over_triton = Grpc(f"{TYPED}/Predict", message.SerializeToString(), (("x-backend", "triton"),))
    return (
        *say(says, "jpeg-http", images),
        *say(says, "jpeg-http", Http("/embed", jpeg, JPEG)),
        *say(says, "jpeg-http", lambda: jpeg_form(jpeg)),
        # Triton has no word for "too large".
        *bad(says, "onnx-jpeg-http", lambda: kserve_http(FILES, (1, 1), elements(jpeg), "BYTES")),
        *bad(f"jpeg[1] {says}", "onnx-jpeg-http", lambda: kserve_http(FILES, (2, 1), elements(PHOTO, jpeg), "BYTES")),
        *bad(says, "onnx-jpeg-grpc", lambda: kserve_grpc(FILES, (1, 1), elements(jpeg), "BYTES")),
        *say(says, "torchserve-http", Http(PREDICTIONS, jpeg, JPEG)),
        *say(says, "torchserve-http", {"image": b64(jpeg)}),
        *say(says, "torchserve-grpc", lambda: torchserve_grpc(jpeg)),
        *say(says, "typed-grpc", message),
        *say(says, "typed-grpc", over_triton),
        *say(says, "typed-http", images),
    )


def of_triton(
    say: Say, protocol: str, says: str, build: Callable[[str], What], models: Mapping[str, str] = TRITON
) -> Refusals:
    """The same on onnx-*, trt-* and onnx-jpeg-*; `build` gets the name of the model that the route asks for."""
    return tuple(
        refusal for name, model in models.items() for refusal in say(says, f"{name}-{protocol}", partial(build, model))
    )


def of_tensors(says: str, shape: tuple[int, ...], datatype: str = "FP32", raw: bytes | None = None) -> Refusals:
    """The same bad tensor, by default of zeros, on every route that takes one: BYTES on onnx-jpeg-*, FP32 on four."""
    models = {"onnx-jpeg": FILES} if datatype == "BYTES" else TENSORS
    body = bytes(4 * math.prod(shape)) if raw is None else raw
    return (
        *of_triton(bad, "http", says, lambda name: kserve_http(name, shape, body, datatype), models),
        *of_triton(bad, "grpc", says, lambda name: kserve_grpc(name, shape, body, datatype), models),
    )


def unannounced(build: Callable[[], Request]) -> Request:
    """The same HTTP request, its length not announced."""
    request = build()
    assert isinstance(request, Http)
    return replace(request, chunked=True)


TOO_MUCH = (
    *large(TOO_LARGE, "jpeg-http", Http("/embed", BIG, JPEG)),
    *of_triton(large, "http", MUCH_JSON, lambda model: infer_http(model, BIG, OCTETS), TENSORS),
    *of_triton(large, "grpc", TOO_LARGE, lambda model: kserve_grpc(model, (1, *IMAGE), BIG), TENSORS),
    *large(TOO_LARGE, "onnx-jpeg-http", lambda: kserve_http(FILES, (1, 1), elements(BIG), "BYTES")),
    *large(TOO_LARGE, "onnx-jpeg-grpc", lambda: kserve_grpc(FILES, (1, 1), elements(BIG), "BYTES")),
    *large(TOO_LARGE, "torchserve-http", Http(PREDICTIONS, BIG, JPEG)),
    *large(TOO_LARGE, "torchserve-grpc", lambda: torchserve_grpc(BIG)),
    *large("larger than max", "typed-grpc", lambda: typed.PredictRequest(images=[BIG])),
    *large(TOO_LARGE, "typed-http", BIG),
    *large(TOO_LARGE, "echo-http", Http("/transport/binary", BIG, OCTETS)),
    *large("larger than max", "echo-grpc", Grpc(f"{ECHO}/Binary", BIG)),
    *large(TOO_LARGE, "seldon-http", BIG),
    *large("larger than max", "seldon-grpc frames-grpc", BIG),
    *large("larger than 32 MiB", "frames-http", BIG),
)
CASES = (
    Case(
        "not an image",
        of_jpegs("is not a JPEG: send JPEG bytes", NOT_IMAGE),
        note="on the tensor routes the client decodes photos",
    ),
    Case("truncated JPEG", of_jpegs("is truncated or damaged: send the whole JPEG file", TRUNCATED)),
    Case(
        "65,500 x 65,500 pixels declared by a 20 kB file",
        of_jpegs("is 65500 x 65500 pixels: send at most 50,000,000 pixels", huge_header()),
        note="refused from its header, before any pixel is decoded",
    ),
    Case("JPEG of 21 MiB", of_jpegs("is 21 MiB: send a JPEG of at most 20 MiB", PHOTO_21_MIB, large)),
    Case(
        "empty body",
        bad(NO_JSON, "jpeg-http seldon-http frames-http", b""),
        bad(EMPTY, "jpeg-http", Http("/embed", b"", JPEG)),
        of_triton(bad, "http", "Expected 602112, got 0", lambda model: infer_http(model, headers={}), TENSORS),
        unknown(UNKNOWN_MODEL, TRITON_GRPC, b""),
        bad(EMPTY, "onnx-jpeg-http", infer_http(FILES, headers={})),
        bad(EMPTY, "torchserve-http", Http(PREDICTIONS, b"", JPEG)),
        bad("model_name is required", "torchserve-grpc", b""),
        bad(NONE, "typed-grpc typed-http", b""),
        bad("the image is empty", "echo-http", Http("/transport/binary", b"", OCTETS)),
        bad("the image is empty", "echo-grpc", Grpc(f"{ECHO}/Binary")),
        bad("has no data: send data.ndarray", "seldon-grpc", b""),
        bad("a frame of 0 x 0: send whole numbers", "frames-grpc", b""),
        bad(NO_HEAD, "frames-zmq", b""),
        note="over gRPC: a message without model, image or array",
    ),
    Case(
        "64 MiB body",
        TOO_MUCH,
        note="over HTTP Envoy refuses it by its content-length; gRPC has none, see below",
    ),
    Case(
        "64 MiB body without content-length",
        (replace(one, build=partial(unannounced, one.build)) for one in TOO_MUCH if one.route.endswith("-http")),
        note="Envoy cuts it off at 32 MiB",
    ),
    Case(
        "bad base64",
        bad(NO_BASE64, "jpeg-http", {"images": [NOT_BASE64]}),
        bad(NO_BASE64, "torchserve-http", {"image": NOT_BASE64}),
        bad("images[0]: invalid value", "typed-http", {"images": [NOT_BASE64]}),
        bad(NO_BASE64, "echo-http", Http("/transport/base64", json.dumps({"image": NOT_BASE64}).encode(), JSON)),
        bad(NO_BASE64, "echo-grpc", Grpc(f"{ECHO}/Base64", BASE64_MESSAGE)),
        bad("frame cannot be decoded", "frames-http", {"width": 1, "height": 1, "frame": NOT_BASE64}),
    ),
    Case(
        "malformed JSON; over gRPC malformed bytes",
        bad(NO_JSON, "jpeg-http torchserve-http echo-http seldon-http frames-http", NOT_JSON),
        bad(NO_JSON_FOR_TRITON, TRITON_HTTP, NOT_JSON),
        bad("generate the client from", TRITON_GRPC, NOT_PROTO),
        bad("PredictionsRequest", "torchserve-grpc", NOT_PROTO),
        bad(OTHER_CLIENT, "typed-grpc echo-grpc seldon-grpc frames-grpc", NOT_PROTO),
        bad("end of string", "typed-http", NOT_JSON),
        bad(NO_HEAD, "frames-zmq", NOT_JSON),
    ),
    Case(
        "JSON nested 100,000 levels deep",
        bad(NO_JSON, "jpeg-http torchserve-http seldon-http frames-http", DEEP),
        bad(TOO_DEEP, TRITON_HTTP, DEEP),
        bad("Message too deep", "typed-http", DEEP),
        bad("the body", "echo-http", DEEP),
        bad(NO_HEAD, "frames-zmq", DEEP),
    ),
    Case(
        "wrong content type",
        other_type("send application/json", "jpeg-http", Http("/embed/base64", IMAGES_JSON, TEXT)),
        other_type("send image/jpeg or multipart/form-data", "jpeg-http", Http("/embed", PHOTO, TEXT)),
        of_triton(bad, "http", NO_JSON_FOR_TRITON, lambda model: infer_http(model, PHOTO, JPEG)),
        other_type("send image/jpeg", "torchserve-http", Http(PREDICTIONS, PHOTO, TEXT)),
        other_type("application/json", "typed-http", Http("/v1/predict", IMAGES_JSON, TEXT)),
        other_type("send application/json", "echo-http", Http("/transport/structured", b"{}", TEXT)),
        other_type("send application/json", "seldon-http", Http(SELDON_PATH, b'{"data":{"ndarray":[1]}}', TEXT)),
        other_type("send application/json", "frames-http", frames_http("hex", b"{}", "text/plain")),
        other_type("send multipart/form-data", "frames-http", frames_http("multipart", b"{}")),
        note="Triton ignores the type: it reads a photo as malformed JSON",
    ),
    Case(
        "missing field",
        bad('the field "images" is missing', "jpeg-http", {}),
        bad('the form has no part "images"', "jpeg-http", jpeg_form(PHOTO, name="photos")),
        bad("'inputs'", TRITON_HTTP, {}),
        of_triton(bad, "grpc", "expected 1 inputs but got 0", lambda model: kserve.ModelInferRequest(model_name=model)),
        bad('the field "image" is missing', "torchserve-http", {}),
        bad('under the key "data"', "torchserve-grpc", torchserve_grpc(PHOTO, key="x")),
        bad(NONE, "typed-http", {}),
        bad("name: Field required", "echo-http", {}),
        bad("has no data: send data.ndarray", SELDON, {}),
        bad('the field "frame" is missing', "frames-http", {"width": 1, "height": 1}),
        bad('the form has no file "frame"', "frames-http", frames_http("multipart", *form([PHOTO]))),
        bad("1 parts: send a JSON head", "frames-zmq", ONE_BY_TWO),
    ),
    Case(
        "BYTES elements with wrong lengths",
        of_tensors("incomplete string", (1, 1), "BYTES", PHOTO),
        note="a BYTES tensor has the length of each element in front of it",
    ),
    Case(
        "unknown model",
        of_triton(unknown, "http", UNKNOWN_MODEL, lambda model: good_http(model.replace(MODEL, "nothing"))),
        of_triton(unknown, "grpc", UNKNOWN_MODEL, lambda model: good_grpc(model.replace(MODEL, "nothing"))),
        unknown("Model not found: nothing", "torchserve-http", Http("/predictions/nothing", PHOTO, JPEG)),
        unknown("Model not found: nothing", "torchserve-grpc", torchserve_grpc(PHOTO, "nothing")),
        note="the other routes take no model name",
    ),
    Case(
        "wrong shape",
        of_tensors("unexpected shape for input 'image'", (1, 3, 200, 200)),
        of_tensors("unexpected shape for input 'jpeg'", (1, 2), "BYTES", elements(PHOTO, PHOTO)),
        bad("holds 4 values and there are 3", SELDON, {"data": {"tensor": {"shape": [2, 2], "values": [1, 2, 3]}}}),
        bad("send equally long lists", SELDON, {"data": {"ndarray": [[1, 2], [3]]}}),
        bad(NOT_2, "frames-http", {"width": 1, "height": 2, "frame": "AAAA"}),
        bad(NOT_2, "frames-grpc", frames.ChangeRequest(width=1, height=2, pixels=bytes(3))),
        bad(NOT_2, "frames-zmq", ZeroMq((ONE_BY_TWO, bytes(3)))),
        note="photos may have any size",
    ),
    Case(
        "wrong type",
        bad("images[0] is not a string: send base64", "jpeg-http", {"images": [5]}),
        bad('the field "images" is missing or not a list', "jpeg-http", {"images": "text"}),
        of_tensors("data-type is 'INT32'", (1, *IMAGE), "INT32"),
        bad("unexpected inference input 'image'", "onnx-jpeg-http", lambda: good_http(FILES)),
        bad("unexpected inference input 'image'", "onnx-jpeg-grpc", lambda: good_grpc(FILES)),
        bad('the field "image" is missing or not a string', "torchserve-http", {"image": 5}),
        bad("images[0]: invalid value 5", "typed-http", {"images": [5]}),
        bad("image: Input should be a valid string", "echo-http", Http("/transport/base64", b'{"image": 5}', JSON)),
        bad("strData holds no array", SELDON, {"strData": "x"}),
        bad("send numbers only", SELDON, {"data": {"ndarray": [1, "a"]}}),
        bad("dtype is DT_STRING", SELDON, {"data": {"tftensor": {"dtype": "DT_STRING"}}}),
        bad("a frame of 'x' x 1", "frames-http", {"width": "x", "height": 1, "frame": ""}),
        bad("slot is not a valid name", "frames-zmq", SLOT % b"../etc/passwd"),
    ),
    Case(
        "batch of 0",
        bad(NONE, "jpeg-http", {"images": []}),
        of_tensors("Expected 602112, got 0", (0, *IMAGE)),
        of_tensors("expected 1 string elements", (0, 1), "BYTES"),
        bad(NONE, "typed-grpc", b""),
        bad(NONE, "typed-http", {"images": []}),
        note="TorchServe takes one image per request",
    ),
    Case(
        "batch of 33",
        bad(NOT_32, "jpeg-http", {"images": [PHOTO_TEXT] * 33}),
        bad("Maximum number of files is 32", "jpeg-http", lambda: jpeg_form(*[PHOTO] * 33)),
        of_tensors("batch-size must be <= 32", (33, *IMAGE)),
        of_tensors("batch-size must be <= 32", (33, 1), "BYTES", elements(*[PHOTO] * 33)),
        bad(NOT_32, "typed-grpc", typed.PredictRequest(images=[PHOTO] * 33)),
        bad(NOT_32, "typed-http", {"images": [PHOTO_TEXT] * 33}),
        note="TorchServe takes one image per request",
    ),
    Case(
        "list of 100,001 vectors",
        bad(NOT_A_LIST, "echo-http", Http("/transport/vectors/json?count=100001", method="GET")),
        bad(NOT_A_LIST, "echo-grpc", Grpc("/fiveway.transport.v1.DistanceService/ListVectors", VECTORS)),
    ),
    Case(
        "9 MiB of values",
        large("larger than 8 MiB: send fewer values", "seldon-http", bytes(9 * MIB)),
        large("larger than max", "seldon-grpc", bytes(9 * MIB)),
    ),
    Case(
        "tensor shape of terabytes",
        large("send at most 1,048,576", SELDON, {"data": {"tftensor": TERABYTES}}),
        note="a tftensor can declare in a few bytes that one value fills any shape",
    ),
    Case(
        "missing shared memory slot",
        unknown("make the file in the shared folder", "frames-zmq", SLOT % b"nothing1"),
    ),
    Case(
        "frame larger than 1920 x 1080",
        bad("1 to 2073600 pixels", "frames-http", {"width": 1921, "height": 1080, "frame": ""}),
        bad("1 to 2073600", "frames-grpc", frames.ChangeRequest(width=1921, height=1080)),
        bad("1 to 2073600", "frames-zmq", ZeroMq((b'{"width": 1921, "height": 1080}', b""))),
    ),
    Case(
        "unknown `x-mode`",
        bad("send decoded or raw", "seldon-http", Http(SELDON_PATH, b"{}", {**JSON, "x-mode": "fast"})),
        bad("send decoded or raw", "seldon-grpc", Grpc("/seldon.protos.Seldon/Predict", b"", (("x-mode", "fast"),))),
    ),
    Case(
        "unknown path",
        unserved(NOT_SERVED, "jpeg-http", Http("/embed/nothing", PHOTO)),
        of_triton(unserved, "http", NOT_SERVED, lambda model: Http(f"/v2/models/{model}/nothing")),
        unserved(NOT_SERVED, "torchserve-http", Http(f"{PREDICTIONS}/1.0/nothing", PHOTO)),
        unserved(NOT_SERVED, "typed-http", Http("/v1/nothing", b"{}", JSON)),
        unserved(NOT_SERVED, "echo-http", Http("/transport/nothing", b"{}", JSON)),
        unserved(NOT_SERVED, "seldon-http", Http("/api/v1.0/nothing", b"{}", JSON)),
        unserved("no such path", "frames-http", frames_http("nothing", b"{}")),
    ),
    Case(
        "unknown gRPC method",
        *(unserved(NOT_SERVED, f"{name}-grpc", infer_grpc(name, method="Nothing")) for name in TRITON),
        unserved(NOT_SERVED, "torchserve-grpc", Grpc(f"{TORCHSERVE}/Nothing")),
        unserved(NOT_SERVED, "typed-grpc", Grpc(f"{TYPED}/Nothing")),
        unserved(NOT_SERVED, "echo-grpc", Grpc(f"{ECHO}/Nothing")),
        unserved(NOT_SERVED, "seldon-grpc", Grpc("/seldon.protos.Seldon/SendFeedback")),
        unserved("Method not found", "frames-grpc", frames_grpc(b"", "Nothing")),
    ),
)
CASES_BY_NAME = {case.name: case for case in CASES}
