"""The routes: what each one is called, where it goes, what it sends and how its answers are checked.

One name per route: Envoy's cluster, Locust's user class, the row of a result. A new route is one more row of ROUTES.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from locustfiles import answers, payloads

MAX_BATCH = 32


@dataclass(frozen=True, slots=True)
class Format:
    """A wire format: the client that speaks it, the request it makes of photos, the check of its answer."""

    protocol: str
    """`HTTP` or `gRPC`: the client, and the type that Locust shows."""
    encode: payloads.Encoder
    check: answers.Check
    headers: Mapping[str, str] = field(default_factory=dict)
    max_batch: int = MAX_BATCH
    tensors: bool = False
    """It can carry any model's tensors, not photos only."""


@dataclass(frozen=True, slots=True)
class Route:
    """A way to reach the model."""

    name: str
    path: str
    """The URL's path, where `{model}` stands for the served model's name, or the full gRPC method."""
    direct: str | None
    """host:port of its server inside the network; None where Envoy itself is part of the server."""
    format: Format
    suffix: str = ""
    """What its server adds to the served model's name: `_trt` is its accelerated twin, `_jpeg` takes photos."""
    headers: Mapping[str, str] = field(default_factory=dict)


BASE64 = Format("HTTP", payloads.base64_json, answers.json_vectors, {"content-type": "application/json"})
TYPED = Format("gRPC", payloads.typed_grpc, answers.typed_grpc)
_BINARY = {"content-type": "application/octet-stream"}
TENSOR_HTTP = Format("HTTP", payloads.kserve_http, answers.kserve_http, _BINARY, tensors=True)
TENSOR_GRPC = Format("gRPC", payloads.kserve_grpc, answers.kserve_grpc, tensors=True)
BYTES_HTTP = Format("HTTP", payloads.kserve_jpeg_http, answers.kserve_http, _BINARY)
BYTES_GRPC = Format("gRPC", payloads.kserve_jpeg_grpc, answers.kserve_grpc)
# TorchServe takes one image a call; it makes its batches itself.
JPEG_HTTP = Format("HTTP", payloads.jpeg, answers.json_vectors, {"content-type": "image/jpeg"}, max_batch=1)
JPEG_GRPC = Format("gRPC", payloads.torchserve_grpc, answers.torchserve_grpc, max_batch=1)

_INFER = "/inference.GRPCInferenceService/ModelInfer"
_PREDICTIONS = "/org.pytorch.serve.grpc.inference.InferenceAPIsService/Predictions"

ROUTES: Mapping[str, Route] = {
    route.name: route
    for route in (
        Route("jpeg-http", "/embed/base64", "jpeg-http:8000", BASE64),
        Route("onnx-http", "/v2/models/{model}/infer", "triton:8000", TENSOR_HTTP),
        Route("onnx-grpc", _INFER, "triton:8001", TENSOR_GRPC),
        Route("trt-http", "/v2/models/{model}/infer", "triton:8000", TENSOR_HTTP, suffix="_trt"),
        # gRPC hides the model's name in the body, so Envoy tells these routes from onnx-grpc by a header.
        Route("trt-grpc", _INFER, "triton:8001", TENSOR_GRPC, suffix="_trt", headers={"x-route": "trt-grpc"}),
        Route("onnx-jpeg-http", "/v2/models/{model}/infer", "triton:8000", BYTES_HTTP, suffix="_jpeg"),
        Route(
            "onnx-jpeg-grpc", _INFER, "triton:8001", BYTES_GRPC, suffix="_jpeg", headers={"x-route": "onnx-jpeg-grpc"}
        ),
        Route("torchserve-http", "/predictions/{model}", "torchserve:8080", JPEG_HTTP),
        Route("torchserve-grpc", _PREDICTIONS, "torchserve:7070", JPEG_GRPC),
        Route("typed-grpc", "/fiveway.vision.v1.VisionService/Predict", "typed-grpc:50051", TYPED),
        # Envoy turns the JSON into the typed proto: there is no server that could be asked directly.
        Route("typed-http", "/v1/predict", None, BASE64),
    )
}
