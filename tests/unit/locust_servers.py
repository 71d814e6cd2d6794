"""Stand-ins for the routes' servers, for the load generator's own tests: well-formed answers after a set delay.

They have a port of their own for each protocol, and one for both as the edge has.
"""

import contextlib
import json
import socket
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
from fiveway.vision.v1.vision_pb2 import Embedding, Prediction, PredictRequest, PredictResponse
from torchserve.inference_pb2 import PredictionResponse, PredictionsRequest
from tritonclient.grpc.service_pb2 import ModelInferRequest, ModelInferResponse

WIDTH = 4
VECTOR = [0.5] * WIDTH
MODELS = ("tiny", "tiny_trt", "tiny_jpeg")
INPUT = {"name": "image", "datatype": "FP32", "shape": [-1, 3, 224, 224]}


Output = tuple[str, list[int], bytes]
"""Datatype, shape, raw bytes."""


def kserve(protocol: str, **outputs: Output) -> tuple[bytes, dict[str, str]]:
    """A KServe v2 answer: its body, and over HTTP its headers."""
    if protocol == "gRPC":
        message = ModelInferResponse(raw_output_contents=[raw for _, _, raw in outputs.values()])
        for name, (kind, shape, _) in outputs.items():
            message.outputs.add(name=name, datatype=kind, shape=shape)
        return message.SerializeToString(), {}
    about = [
        {"name": name, "datatype": kind, "shape": shape, "parameters": {"binary_data_size": len(raw)}}
        for name, (kind, shape, raw) in outputs.items()
    ]
    head = json.dumps({"outputs": about}).encode()
    body = head + b"".join(raw for _, _, raw in outputs.values())
    return body, {"inference-header-content-length": str(len(head))}


def embedding(images: int) -> Output:
    """A vector for each image."""
    return "FP32", [images, WIDTH], struct.pack("<f", 0.5) * (images * WIDTH)


def torchserve(images: int) -> bytes:
    """Of one image; its handler's error comes with a good status."""
    return json.dumps({"embedding": VECTOR, "classes": []} if images else {"code": 400}).encode()


class HttpServer(ThreadingHTTPServer):
    # Users begin together. With Python's 5 the kernel falls back to SYN cookies, and these reset a connection whose
    # large body comes before its place in the queue: a connection more than there are users.
    request_queue_size = 128

    def handle_error(self, *about: Any) -> None:
        """A client that goes away is not an error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(*about)


Reply = tuple[int, bytes, dict[str, str]]
"""Status, body, headers."""


@contextlib.contextmanager
def answering(
    answer: Callable[[str, str, Message, bytes], Reply],
    accept: Callable[[socket.socket], socket.socket] = lambda it: it,
) -> Iterator[int]:
    """The port of an HTTP server that answers what this says of method, path, headers and body. `accept` makes TLS of a
    connection, for example."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 600  # not the default that a client in this process sets for its sockets
        disable_nagle_algorithm = True  # else its answers, in two pieces, wait 40 ms for an acknowledgement

        def setup(self) -> None:
            self.request = accept(self.request)
            super().setup()

        def finish(self) -> None:
            super().finish()
            self.request.close()

        def do_GET(self) -> None:
            sent = self.rfile.read(int(self.headers.get("content-length", 0)))
            status, body, headers = answer(self.command, self.path, self.headers, sent)
            self.send_response(status)
            for name, value in ({"content-length": str(len(body))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_DELETE = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with HttpServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        try:
            yield server.server_port
        finally:  # else its thread would go round for ever on a closed socket
            server.shutdown()


class StandIn:
    """All servers. `mode` may change at any time: `short` leaves an image out of every answer, `errors` refuses calls,
    `good` does neither."""

    def __init__(self, delay_s: float = 0.02, mode: str = "good") -> None:
        self.delay_s, self.mode = delay_s, mode
        self.called = self.refused = 0
        """How often, over all routes."""
        self.answered: Counter[str] = Counter()
        """Path, or method and model, of a route -> its answers."""
        self._counting = threading.Lock()
        self.http_port = 0
        self._grpc = grpc.server(ThreadPoolExecutor(32))
        for service, method, answer in (
            ("inference.GRPCInferenceService", "ModelInfer", self._infer),
            ("fiveway.vision.v1.VisionService", "Predict", self._typed),
            ("org.pytorch.serve.grpc.inference.InferenceAPIsService", "Predictions", self._predictions),
        ):
            handler = grpc.method_handlers_generic_handler(service, {method: self._slowly(answer)})
            self._grpc.add_generic_rpc_handlers((handler,))
        self.grpc_port = self._grpc.add_insecure_port("127.0.0.1:0")
        self._edge = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.host = f"http://127.0.0.1:{self._edge.getsockname()[1]}"

    @contextlib.contextmanager
    def serving(self) -> "Iterator[StandIn]":
        self._grpc.start()
        threading.Thread(target=self._accept, daemon=True).start()
        with answering(self.http) as self.http_port, self._edge:
            yield self
        self._grpc.stop(0)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed: the test is over
            while True:
                client, _ = self._edge.accept()
                threading.Thread(target=self._splice, args=[client], daemon=True).start()

    def _splice(self, client: socket.socket) -> None:
        """Pass every byte on to the server of the protocol that the client speaks."""
        with contextlib.suppress(OSError):
            http2 = client.recv(3, socket.MSG_PEEK) == b"PRI"
            server = socket.create_connection(("127.0.0.1", self.grpc_port if http2 else self.http_port))
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_copy, args=[server, client], daemon=True).start()
            _copy(client, server)

    def _call(self) -> bool:
        """Begin one; whether it is refused."""
        refused = self.mode == "errors"
        with self._counting:
            self.called += 1
            self.refused += refused
        time.sleep(self.delay_s)
        return refused

    def _images(self, route: str, images: int) -> int:
        """For how many of them there is an answer."""
        self.answered[route] += 1
        return images - 1 if self.mode == "short" else images

    def http(self, method: str, path: str, headers: Message, body: bytes) -> Reply:
        if method == "GET":
            found = path.removeprefix("/v2/models/") in MODELS
            about = {"inputs": [INPUT], "outputs": [{"name": "embedding", "datatype": "FP32", "shape": [-1, 4]}]}
            return 200 if found else 404, json.dumps(about if found else {"error": "unknown model"}).encode(), {}
        if self._call():
            return 503, b'{"error": {"code": "UNAVAILABLE", "message": "down"}}', {}
        if path == "/embed/base64":
            answered = self._images(path, len(json.loads(body)["images"]))
            return 200, json.dumps({"embeddings": [VECTOR] * answered, "model": "tiny"}).encode(), {}
        if path == "/v1/predict":
            one = {"embedding": {"values": VECTOR}, "classes": [{"index": 1, "label": "tench", "score": 0.5}]}
            answered = self._images(path, len(json.loads(body)["images"]))
            return 200, json.dumps({"predictions": [one] * answered}, indent=1).encode(), {}
        if path == "/predictions/tiny":
            return 200, torchserve(self._images(path, 1)), {}
        if path in [f"/v2/models/{model}/infer" for model in MODELS]:
            length = int(headers["inference-header-content-length"])
            (tensor,) = json.loads(body[:length])["inputs"]
            assert len(body) - length == tensor["parameters"]["binary_data_size"]
            return 200, *kserve("HTTP", embedding=embedding(self._images(path, tensor["shape"][0])))
        return 404, b'{"error": {"code": "NOT_FOUND", "message": "no such path"}}', {}

    def _slowly(self, answer: Callable[..., bytes]) -> "grpc.RpcMethodHandler[bytes, bytes]":
        def handle(body: bytes, context: grpc.ServicerContext) -> bytes:
            if self._call():
                context.abort(grpc.StatusCode.UNAVAILABLE, "down")
            return answer(body, context)

        return grpc.unary_unary_rpc_method_handler(handle)

    def _infer(self, body: bytes, context: grpc.ServicerContext) -> bytes:
        request = ModelInferRequest.FromString(body)
        routed = dict(context.invocation_metadata()).get("x-route")
        wanted = {"tiny_trt": "trt-grpc", "tiny_jpeg": "onnx-jpeg-grpc"}.get(request.model_name)
        assert routed == wanted, (routed, request.model_name)
        answered = self._images(f"ModelInfer {request.model_name}", request.inputs[0].shape[0])
        return kserve("gRPC", embedding=embedding(answered))[0]

    def _typed(self, body: bytes, context: grpc.ServicerContext) -> bytes:
        answered = self._images("Predict", len(PredictRequest.FromString(body).images))
        one = Prediction(embedding=Embedding(values=VECTOR))
        return PredictResponse(predictions=[one] * answered).SerializeToString()

    def _predictions(self, body: bytes, context: grpc.ServicerContext) -> bytes:
        request = PredictionsRequest.FromString(body)
        assert request.model_name == "tiny"
        assert request.input["data"].startswith(b"\xff\xd8")
        return PredictionResponse(prediction=torchserve(self._images("Predictions", 1))).SerializeToString()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def standing_in(delay_s: float = 0.02, mode: str = "good") -> contextlib.AbstractContextManager[StandIn]:
    return StandIn(delay_s, mode).serving()
