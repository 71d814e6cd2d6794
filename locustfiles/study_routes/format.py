"""The rows of study `format`: photos as JPEG and as tensors on one server, beside PyTorch with JPEGs."""

from collections.abc import Mapping

from locustfiles.routes import ROUTES, Route

PYTORCH = "jpeg-http"
ROWS: Mapping[str, Route] = {
    name: ROUTES[name] for name in (PYTORCH, "onnx-jpeg-http", "onnx-jpeg-grpc", "onnx-http", "onnx-grpc")
}
