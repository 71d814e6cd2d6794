"""What `locust -f locustfiles/locustfile.py --host http://127.0.0.1:8080` loads: a user class per route.

A user sends its route's requests in a closed loop (user.py); routes.py says what they are, and where they go.
"""

import sys
from pathlib import Path

import locust  # noqa: F401  patches the standard library: first

sys.path.append(str(Path(__file__).parents[1]))  # whatever folder Locust is started in

from locustfiles import lifecycle  # noqa: F401  tells Locust what its processes do
from locustfiles.routes import ROUTES
from locustfiles.study_routes import offered
from locustfiles.user import RouteUser, by_route


class JpegHttp(RouteUser):
    """Photos to our JPEG server, base64 in JSON."""

    route = ROUTES["jpeg-http"]


class OnnxHttp(RouteUser):
    """Tensors to Triton, KServe v2 over HTTP."""

    route = ROUTES["onnx-http"]


class OnnxGrpc(RouteUser):
    """Tensors to Triton, KServe v2 over gRPC."""

    route = ROUTES["onnx-grpc"]


class TrtHttp(RouteUser):
    """As OnnxHttp, to the model's accelerated twin."""

    route = ROUTES["trt-http"]


class TrtGrpc(RouteUser):
    """As OnnxGrpc, to the model's accelerated twin."""

    route = ROUTES["trt-grpc"]


class OnnxJpegHttp(RouteUser):
    """Photos to Triton, which decodes them, KServe v2 over HTTP."""

    route = ROUTES["onnx-jpeg-http"]


class OnnxJpegGrpc(RouteUser):
    """Photos to Triton, which decodes them, KServe v2 over gRPC."""

    route = ROUTES["onnx-jpeg-grpc"]


class TorchserveHttp(RouteUser):
    """A photo to TorchServe, as the body of an HTTP request."""

    route = ROUTES["torchserve-http"]


class TorchserveGrpc(RouteUser):
    """A photo to TorchServe, over its own gRPC."""

    route = ROUTES["torchserve-grpc"]


class TypedGrpc(RouteUser):
    """Photos to our typed gateway."""

    route = ROUTES["typed-grpc"]


class TypedHttp(RouteUser):
    """Photos as JSON, which Envoy makes typed gRPC of."""

    route = ROUTES["typed-http"]


# Locust calls a class what this module calls it: here its route's name, which is no name that Python can write. With
# STUDY set, the rows of that study take the classes' place.
written = {name: user for name, user in globals().items() if isinstance(user, type) and issubclass(user, RouteUser)}
for name in written:
    del globals()[name]
globals().update(by_route(written.values(), offered().values()))
