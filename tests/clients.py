"""One native client per route, as a user of that protocol would write it: JPEGs in, answers out, through Envoy.

The tensor routes preprocess on the client (gateways.core), as their users must; every other route sends the JPEG.
"""

import base64
import http.client
import json
import os
import urllib.request
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc
import numpy as np
import numpy.typing as npt
import tritonclient.grpc
import tritonclient.http
import zmq
from fiveway.transport.v1 import base_pb2, base_pb2_grpc, frames_pb2, frames_pb2_grpc
from fiveway.vision.v1 import vision_pb2 as typed
from fiveway.vision.v1 import vision_pb2_grpc as typed_grpc
from seldon import prediction_pb2 as seldon
from torchserve import inference_pb2 as torchserve
from torchserve import inference_pb2_grpc as torchserve_grpc
from tritonclient.utils import np_to_triton_dtype

from chaos.docker import address_of
from gateways.core.answer import softmax
from gateways.core.manifest import Manifest
from gateways.core.serving import ARTIFACTS, Serving, ServingError

try:
    MODEL = Serving.load(ARTIFACTS).model
except ServingError:  # no stack: nobody asks
    MODEL = ""
HOST = os.environ.get("BIND_ADDRESS", "127.0.0.1").replace("0.0.0.0", "127.0.0.1")
EDGE_PORT = int(os.environ.get("EDGE_PORT", "8080"))
LOCUST_PORT = int(os.environ.get("LOCUST_PORT", "8089"))
EDGE = f"{HOST}:{EDGE_PORT}"
TIMEOUT_S = 60.0
CHANNEL_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]

Vector = npt.NDArray[np.float32]
Metadata = Sequence[tuple[str, str | bytes]]


@dataclass(frozen=True, eq=False)
class Answer:
    """What a route says about one photo: embedding [D]; classes as (index, label, score), best first.

    The label is None where the route answers logits: there the client looks names up by itself.
    """

    embedding: Vector
    classes: tuple[tuple[int, str | None, float], ...]


@dataclass(frozen=True)
class Reply:
    """An HTTP answer."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> Any:
        assert self.status == 200, f"{self.status}: {self.body[:500]!r}"
        return json.loads(self.body)


def request(method: str, path: str, body: bytes = b"", **headers: str) -> Reply:
    """One HTTP/1.1 request on a connection of its own; header names are written with _ for -."""
    connection = http.client.HTTPConnection(HOST, EDGE_PORT, timeout=TIMEOUT_S)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return Reply(response.status, response.read(), {name.lower(): value for name, value in response.getheaders()})
    finally:
        connection.close()


def error_text(body: bytes | str) -> str:
    """The message in an error body: `error.message` in our form, `error` in Triton's, `message` in TorchServe's."""
    found = json.loads(body)
    error = found.get("error", found)
    return str(error) if isinstance(error, str) else str(error["message"])


def post_json(path: str, message: object, **headers: str) -> Reply:
    return request("POST", path, json.dumps(message).encode(), content_type="application/json", **headers)


def channel(address: str = EDGE) -> grpc.Channel:
    return grpc.insecure_channel(address, options=CHANNEL_OPTIONS)


def raw_call(
    open_channel: grpc.Channel, method: str, message: bytes, metadata: Metadata = (), timeout: float = TIMEOUT_S
) -> bytes:
    """A unary call with a message of any bytes. Raises grpc.RpcError."""
    call: Any = open_channel.unary_unary(method)
    return bytes(call(message, timeout=timeout, metadata=tuple(metadata)))


def b64(jpeg: bytes) -> str:
    return base64.b64encode(jpeg).decode()


def form(jpegs: Sequence[bytes], name: str = "images") -> tuple[bytes, str]:
    """A multipart form with one file part per photo, and its content type."""
    edge = "fiveway-boundary"
    about = f'Content-Disposition: form-data; name="{name}"; filename="photo.jpg"\r\nContent-Type: image/jpeg'
    head = f"--{edge}\r\n{about}\r\n\r\n"
    parts = b"".join(head.encode() + jpeg + b"\r\n" for jpeg in jpegs)
    return parts + f"--{edge}--\r\n".encode(), f"multipart/form-data; boundary={edge}"


def tensors(jpegs: Sequence[bytes]) -> Vector:
    """float32 [N, 3, 224, 224]: the preprocessing of the served model."""
    preprocess = Manifest.load(ARTIFACTS, MODEL).preprocess
    return np.stack([preprocess.tensor(jpeg) for jpeg in jpegs])


def _answer(embedding: Sequence[float], classes: Sequence[Mapping[str, Any]]) -> Answer:
    rows = tuple((row["index"], row["label"], row["score"]) for row in classes)
    return Answer(np.asarray(embedding, dtype=np.float32), rows)


def _jpeg_http(ask: Callable[[str], Any], jpegs: Sequence[bytes]) -> list[Answer]:
    """The JPEG server answers embeddings and classes on two paths; `ask` posts the same body to both."""
    classifies = Manifest.load(ARTIFACTS, MODEL).kind == "classifier"
    classes = ask("classify")["classes"] if classifies else [()] * len(jpegs)
    return [_answer(*row) for row in zip(ask("embed")["embeddings"], classes, strict=True)]


def jpeg_base64(jpegs: Sequence[bytes]) -> list[Answer]:
    message = {"images": [b64(jpeg) for jpeg in jpegs]}
    return _jpeg_http(lambda verb: post_json(f"/{verb}/base64", message).json(), jpegs)


def jpeg_raw(jpegs: Sequence[bytes]) -> list[Answer]:
    """One photo per request."""

    def ask(verb: str, jpeg: bytes) -> Any:
        return request("POST", f"/{verb}", jpeg, content_type="image/jpeg").json()

    return [answer for jpeg in jpegs for answer in _jpeg_http(partial(ask, jpeg=jpeg), [jpeg])]


def jpeg_multipart(jpegs: Sequence[bytes]) -> list[Answer]:
    body, kind = form(jpegs)
    return _jpeg_http(lambda verb: request("POST", f"/{verb}", body, content_type=kind).json(), jpegs)


def _from_logits(embeddings: Vector, logits: Vector | None) -> list[Answer]:
    answers = []
    for row, embedding in enumerate(embeddings):
        scores = softmax(logits[row]) if logits is not None else np.empty(0, np.float32)
        best = np.argsort(-scores, kind="stable")[:5]
        answers.append(Answer(embedding, tuple((int(i), None, float(scores[i])) for i in best)))
    return answers


def tensor(library: Any, name: str, array: npt.NDArray[Any]) -> Any:
    """An input for a client of tritonclient.http (with the binary tensor extension) or tritonclient.grpc."""
    made = library.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    return made.set_data_from_numpy(array)


def kserve(library: Any, model: str, batch: npt.NDArray[Any], route: str = "") -> list[Answer]:
    """A batch of tensors, or of JPEG files; `route` where it is not that of every other model."""
    over_http = library is tritonclient.http
    with library.InferenceServerClient(EDGE, **({"network_timeout": TIMEOUT_S} if over_http else {})) as client:
        image = tensor(library, "jpeg" if batch.dtype == object else "image", batch)
        options: dict[str, Any] = {} if over_http else {"client_timeout": TIMEOUT_S}
        result = client.infer(model, [image], headers={"x-route": route} if route else None, **options)
        return _from_logits(result.as_numpy("embedding"), result.as_numpy("logits"))


def files(jpegs: Sequence[bytes]) -> npt.NDArray[np.object_]:
    """[N, 1]: JPEG files as a BYTES tensor."""
    return np.array([[jpeg] for jpeg in jpegs], dtype=object)


def _torchserve(message: Mapping[str, Any]) -> Answer:
    return _answer(message["embedding"], message["classes"])


def torchserve_raw(jpegs: Sequence[bytes]) -> list[Answer]:
    path = f"/predictions/{MODEL}"
    return [_torchserve(request("POST", path, jpeg, content_type="image/jpeg").json()) for jpeg in jpegs]


def torchserve_base64(jpegs: Sequence[bytes]) -> list[Answer]:
    return [_torchserve(post_json(f"/predictions/{MODEL}", {"image": b64(jpeg)}).json()) for jpeg in jpegs]


def torchserve_stub(jpegs: Sequence[bytes]) -> list[Answer]:
    """TorchServe's own stubs."""
    with channel() as open_channel:
        stub = torchserve_grpc.InferenceAPIsServiceStub(open_channel)
        requests = [torchserve.PredictionsRequest(model_name=MODEL, input={"data": jpeg}) for jpeg in jpegs]
        replies = [stub.Predictions(message, timeout=TIMEOUT_S).prediction for message in requests]
        return [_torchserve(json.loads(reply)) for reply in replies]


def _typed(response: typed.PredictResponse) -> list[Answer]:
    answers = []
    for one in response.predictions:
        classes = tuple((found.index, found.label, found.score) for found in one.classes)
        answers.append(Answer(np.asarray(one.embedding.values, dtype=np.float32), classes))
    return answers


def typed_unary(jpegs: Sequence[bytes], *metadata: tuple[str, str]) -> list[Answer]:
    with channel() as open_channel:
        stub = typed_grpc.VisionServiceStub(open_channel)
        return _typed(stub.Predict(typed.PredictRequest(images=jpegs), timeout=TIMEOUT_S, metadata=metadata))


def typed_stream(jpegs: Sequence[bytes]) -> list[Answer]:
    """One message per photo over one stream; answers come in order."""
    with channel() as open_channel:
        stub = typed_grpc.VisionServiceStub(open_channel)
        messages = (typed.PredictStreamRequest(request=typed.PredictRequest(images=[jpeg])) for jpeg in jpegs)
        replies = list(stub.PredictStream(messages, timeout=TIMEOUT_S))
    assert [reply.WhichOneof("result") for reply in replies] == ["response"] * len(jpegs), replies
    return [answer for reply in replies for answer in _typed(reply.response)]


def typed_json(jpegs: Sequence[bytes], **headers: str) -> list[Answer]:
    reply = post_json("/v1/predict", {"images": [b64(jpeg) for jpeg in jpegs]}, **headers).json()
    return [_answer(row["embedding"]["values"], row["classes"]) for row in reply["predictions"]]


def echo_http(jpegs: Sequence[bytes]) -> list[int]:
    """The sizes that arrived."""
    kind = "application/octet-stream"
    return [request("POST", "/transport/binary", jpeg, content_type=kind).json()["size_bytes"] for jpeg in jpegs]


def echo_grpc(jpegs: Sequence[bytes]) -> list[int]:
    """The sizes that arrived."""
    with channel() as open_channel:
        stub = base_pb2_grpc.BaseServiceStub(open_channel)
        requests = [base_pb2.BinaryRequest(image=jpeg) for jpeg in jpegs]
        return [stub.Binary(message, timeout=TIMEOUT_S).size_bytes for message in requests]


def seldon_http(jpegs: Sequence[bytes]) -> list[int]:
    """The sizes, each an array of one number: the answer is its sum."""
    messages = [{"data": {"ndarray": [len(jpeg)]}} for jpeg in jpegs]
    return [int(post_json("/api/v1.0/predictions", message).json()["data"]["ndarray"][0]) for message in messages]


def seldon_grpc(jpegs: Sequence[bytes]) -> list[int]:
    """The same over gRPC."""
    arrays = [seldon.Tensor(shape=[1], values=[len(jpeg)]) for jpeg in jpegs]
    messages = [seldon.SeldonMessage(data=seldon.DefaultData(tensor=array)) for array in arrays]
    with channel() as open_channel:
        replies = [raw_call(open_channel, "/seldon.protos.Seldon/Predict", one.SerializeToString()) for one in messages]
    return [int(seldon.SeldonMessage.FromString(reply).data.tensor.values[0]) for reply in replies]


def _changed(frames: list[bytes]) -> list[int]:
    """The sizes of what came back: a frame of one pixel for each photo, its colours changed."""
    assert set(frames) == {b"\xff\xfe\xfd"}
    return [len(frame) for frame in frames]


def frames_http(jpegs: Sequence[bytes]) -> list[int]:
    url, pixel = f"http://{address_of('frames')}:8000/frames/hex", b'{"width": 1, "height": 1, "frame": "000102"}'
    asked = urllib.request.Request(url, pixel, {"content-type": "application/json"})
    answers = [json.load(urllib.request.urlopen(asked, timeout=TIMEOUT_S)) for _ in jpegs]
    return _changed([bytes.fromhex(answer["frame"]) for answer in answers])


def frames_grpc(jpegs: Sequence[bytes]) -> list[int]:
    with channel(f"{address_of('frames')}:50051") as open_channel:
        stub = frames_pb2_grpc.FrameServiceStub(open_channel)
        pixel = frames_pb2.ChangeRequest(width=1, height=1, pixels=b"\0\1\2")
        return _changed([stub.Change(pixel, timeout=TIMEOUT_S).pixels for _ in jpegs])


def frames_zmq(jpegs: Sequence[bytes]) -> list[int]:
    return _changed([zmq_ask(b'{"width": 1, "height": 1}', b"\0\1\2")[1] for _ in jpegs])


def zmq_ask(*parts: bytes) -> list[bytes]:
    """What the gateway `frames` answers in the shared folder. Raises zmq.Again."""
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVTIMEO, int(TIMEOUT_S * 1e3))
        socket.connect("ipc:///frames/zmq")
        socket.send_multipart(parts)
        return socket.recv_multipart()


# The routes of the profile `transport`, which have no model; the answers are the sizes of the photos.
WITHOUT_MODEL: Mapping[str, Callable[[Sequence[bytes]], list[int]]] = {
    "echo-http": echo_http,
    "echo-grpc": echo_grpc,
    "seldon-http": seldon_http,
    "seldon-grpc": seldon_grpc,
}

# The server of that profile that is not behind the edge.
FRAMES: Mapping[str, Callable[[Sequence[bytes]], list[int]]] = {
    "frames-http": frames_http,
    "frames-grpc": frames_grpc,
    "frames-zmq": frames_zmq,
}

# Every way in. The part before the slash is the route's name.
CLIENTS: Mapping[str, Callable[[Sequence[bytes]], list[Answer]]] = {
    "jpeg-http/base64": jpeg_base64,
    "jpeg-http/raw": jpeg_raw,
    "jpeg-http/multipart": jpeg_multipart,
    "onnx-http": lambda jpegs: kserve(tritonclient.http, MODEL, tensors(jpegs)),
    "onnx-grpc": lambda jpegs: kserve(tritonclient.grpc, MODEL, tensors(jpegs)),
    "trt-http": lambda jpegs: kserve(tritonclient.http, f"{MODEL}_trt", tensors(jpegs)),
    "trt-grpc": lambda jpegs: kserve(tritonclient.grpc, f"{MODEL}_trt", tensors(jpegs), "trt-grpc"),
    "onnx-jpeg-http": lambda jpegs: kserve(tritonclient.http, f"{MODEL}_jpeg", files(jpegs)),
    "onnx-jpeg-grpc": lambda jpegs: kserve(tritonclient.grpc, f"{MODEL}_jpeg", files(jpegs), "onnx-jpeg-grpc"),
    "torchserve-http/raw": torchserve_raw,
    "torchserve-http/base64": torchserve_base64,
    "torchserve-grpc": torchserve_stub,
    "typed-grpc/unary": typed_unary,
    "typed-grpc/stream": typed_stream,
    "typed-grpc/triton": lambda jpegs: typed_unary(jpegs, ("x-backend", "triton")),
    "typed-http": typed_json,
    "typed-http/triton": lambda jpegs: typed_json(jpegs, x_backend="triton"),
}
ROUTES = tuple(dict.fromkeys(name.partition("/")[0] for name in CLIENTS))


def client_of(route: str) -> Callable[[Sequence[bytes]], Sized]:
    """The first client of a route; those without a model and the ways to `frames` are routes too."""
    every: dict[str, Callable[[Sequence[bytes]], Sized]] = {**CLIENTS, **WITHOUT_MODEL, **FRAMES}
    return next(client for name, client in every.items() if name.partition("/")[0] == route)
