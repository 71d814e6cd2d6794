"""The rows of study `format`: photos as JPEG and as tensors on one server, beside PyTorch with JPEGs."""

from locustfiles.routes import ROUTES, by_name

PYTORCH = "jpeg-http"
_NAMES = (PYTORCH, "onnx-jpeg-http", "onnx-jpeg-grpc", "onnx-http", "onnx-grpc")
ROWS = by_name(*(ROUTES[name] for name in _NAMES))
