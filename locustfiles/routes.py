"""The routes: the name, address, requests and answer checks of each.

One name per route: Envoy's cluster, Locust's user class, the row of a result. A new route is one more row of ROUTES.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from locustfiles import answers, payloads
from locustfiles.clients import UNARY, Answer, Client, Endpoint, Payload

MAX_BATCH = 32


@dataclass(frozen=True, slots=True)
class Format:
    """A wire format: the client that speaks it, the request it makes of photos, the check of its answer."""

    protocol: str
    """`HTTP` or `gRPC`: the client, and the type that Locust shows."""
    encode: payloads.Encoder
    check: answers.Check
    read: Callable[[Answer], Any]
    """Turns an answer into data that a program can use. Its time is a column of its own. Answers to the same
    question are equal in this form, whatever carried them (numpy arrays nearly so)."""
    headers: Mapping[str, str] = field(default_factory=dict)
    max_batch: int = MAX_BATCH
    tensors: bool = False
    """It can carry any model's tensors, not photos only."""
    grpcio: bool = False
    """gRPC by grpcio, the client of the published comparisons, which takes more CPU."""
    options: Sequence[tuple[str, int]] = ()
    """grpcio: arguments of the channel, besides those of every channel."""
    messages: str = UNARY
    """grpcio: how many messages a call has, one of UNARY, ANSWERS and BOTH."""
    client: Callable[[Endpoint], Client] | None = None
    """Makes the client, from an Endpoint, for another protocol than HTTP/1.1 and gRPC."""
    lends: Callable[[Endpoint, Payload, int], AbstractContextManager[None]] | None = None
    """What clients of this format need around them: for so many users of an endpoint, who send such requests."""
    generator: str = ""
    """The program that calls in place of Locust's users: a name in bench/measure/generators.py; empty: they call."""
    turns: int = 1
    """How many different requests of one size are sent in turn: see Images.turn."""
    tolerance: float = 0.0
    """A lossy format: how far its answers may be from other rows' to the same question, in the mean of the absolute
    differences."""


@dataclass(frozen=True, slots=True)
class Route:
    """A way to reach the model."""

    name: str
    path: str
    """The URL's path, where `{model}` stands for the served model's name and `{size}` for what is asked for, or the
    full gRPC method."""
    direct: str | None
    """host:port of its server inside the network; None where Envoy itself is part of the server."""
    format: Format
    suffix: str = ""
    """The suffix of the model's name at its server: `_trt` is the accelerated model, `_jpeg` the one that takes
    photos."""
    headers: Mapping[str, str] = field(default_factory=dict)
    of: str = ""
    """For a study's row that asks an existing route in another way: that route's name, under which Envoy counts it."""
    client: str = ""
    """For such a row that differs in the client only: its name; empty: this project's own client."""
    method: str = "POST"
    behind_edge: bool = True
    """Whether Envoy has it."""
    asks: str = ""
    """If its server has no model: what is asked, in one word. Answers to the same word are equal once read."""

    @property
    def modelless(self) -> bool:
        """Its server has no model, so answers are not embeddings: it answers whatever is served."""
        return bool(self.asks)

    def asked_as(self, ending: str, form: Format, client: str = "") -> "Route":
        """A study's row that asks this route in another format, or by another client."""
        return replace(self, name=f"{self.name}-{ending}", format=form, of=self.cluster, client=client)

    @property
    def cluster(self) -> str:
        """The route's name at Envoy."""
        return self.of or self.name

    @property
    def engine(self) -> str:
        """What runs the model, as results name it: onnx or trt in Triton, else the service; empty where there is no
        model."""
        if self.modelless:
            return ""
        service = self.services[-1]
        return self.cluster.partition("-")[0] if service == "triton" else service

    @property
    def services(self) -> tuple[str, ...]:
        """The Compose services behind the edge that work for a call."""
        if not self.direct:
            return () if self.modelless else ("typed-grpc", "torchserve")
        first = self.direct.partition(":")[0]
        return (first, "torchserve") if first == "typed-grpc" else (first,)


def by_name(*routes: Route) -> Mapping[str, Route]:
    return {route.name: route for route in routes}


_JSON, _JPEG = {"content-type": "application/json"}, {"content-type": "image/jpeg"}
_BINARY = {"content-type": "application/octet-stream"}
BASE64 = Format("HTTP", payloads.base64_json, answers.json_vectors, answers.read_json, _JSON)
TYPED = Format("gRPC", payloads.typed_grpc, answers.typed_grpc, answers.read_typed_grpc)
TENSOR_HTTP = Format("HTTP", payloads.kserve_http, answers.kserve_http, answers.read_kserve_http, _BINARY, tensors=True)
TENSOR_GRPC = Format("gRPC", payloads.kserve_grpc, answers.kserve_grpc, answers.read_kserve_grpc, tensors=True)
BYTES_HTTP = Format("HTTP", payloads.kserve_jpeg_http, answers.kserve_http, answers.read_kserve_http, _BINARY)
BYTES_GRPC = Format("gRPC", payloads.kserve_jpeg_grpc, answers.kserve_grpc, answers.read_kserve_grpc)
# TorchServe takes one image a call; it makes its batches itself.
JPEG_HTTP = Format("HTTP", payloads.jpeg, answers.json_vectors, answers.read_json, _JPEG, max_batch=1)
JPEG_GRPC = Format("gRPC", payloads.torchserve_grpc, answers.torchserve_grpc, answers.read_torchserve_grpc, max_batch=1)

_INFER = "/inference.GRPCInferenceService/ModelInfer"
_PREDICTIONS = "/org.pytorch.serve.grpc.inference.InferenceAPIsService/Predictions"

ROUTES: Mapping[str, Route] = by_name(
    Route("jpeg-http", "/embed/base64", "jpeg-http:8000", BASE64),
    Route("onnx-http", "/v2/models/{model}/infer", "triton:8000", TENSOR_HTTP),
    Route("onnx-grpc", _INFER, "triton:8001", TENSOR_GRPC),
    Route("trt-http", "/v2/models/{model}/infer", "triton:8000", TENSOR_HTTP, "_trt"),
    # gRPC hides the model's name in the body, so Envoy tells these routes from onnx-grpc by a header.
    Route("trt-grpc", _INFER, "triton:8001", TENSOR_GRPC, "_trt", {"x-route": "trt-grpc"}),
    Route("onnx-jpeg-http", "/v2/models/{model}/infer", "triton:8000", BYTES_HTTP, "_jpeg"),
    Route("onnx-jpeg-grpc", _INFER, "triton:8001", BYTES_GRPC, "_jpeg", {"x-route": "onnx-jpeg-grpc"}),
    Route("torchserve-http", "/predictions/{model}", "torchserve:8080", JPEG_HTTP),
    Route("torchserve-grpc", _PREDICTIONS, "torchserve:7070", JPEG_GRPC),
    Route("typed-grpc", "/fiveway.vision.v1.VisionService/Predict", "typed-grpc:50051", TYPED),
    # Envoy turns the JSON into the typed proto: there is no server that could be asked directly.
    Route("typed-http", "/v1/predict", None, BASE64),
)
