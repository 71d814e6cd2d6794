"""What `locust -f locustfiles/locustfile.py --host http://127.0.0.1:8080` loads: a user class per route.

A user sends its route's requests in a closed loop (user.py); routes.py says what they are, and where they go.
"""

import sys
from pathlib import Path

import locust  # noqa: F401  patches the standard library: first

sys.path.append(str(Path(__file__).parents[1]))  # whatever folder Locust is started in

from locustfiles import lifecycle  # noqa: F401  registers Locust's event handlers
from locustfiles.routes import ROUTES
from locustfiles.study_routes import offered
from locustfiles.user import RouteUser, offer


class JpegHttp(RouteUser):
    route = ROUTES["jpeg-http"]  # photos to our JPEG server, base64 in JSON


class OnnxHttp(RouteUser):
    route = ROUTES["onnx-http"]  # tensors to Triton, KServe v2 over HTTP


class OnnxGrpc(RouteUser):
    route = ROUTES["onnx-grpc"]  # tensors to Triton, KServe v2 over gRPC


class TrtHttp(RouteUser):
    route = ROUTES["trt-http"]  # as OnnxHttp, to the model's accelerated twin


class TrtGrpc(RouteUser):
    route = ROUTES["trt-grpc"]  # as OnnxGrpc, to the model's accelerated twin


class OnnxJpegHttp(RouteUser):
    route = ROUTES["onnx-jpeg-http"]  # photos to Triton, which decodes them, KServe v2 over HTTP


class OnnxJpegGrpc(RouteUser):
    route = ROUTES["onnx-jpeg-grpc"]  # photos to Triton, which decodes them, KServe v2 over gRPC


class TorchserveHttp(RouteUser):
    route = ROUTES["torchserve-http"]  # a photo to TorchServe, as the body of an HTTP request


class TorchserveGrpc(RouteUser):
    route = ROUTES["torchserve-grpc"]  # a photo to TorchServe, over its own gRPC


class TypedGrpc(RouteUser):
    route = ROUTES["typed-grpc"]  # photos to our typed gateway


class TypedHttp(RouteUser):
    route = ROUTES["typed-http"]  # photos as JSON, which Envoy makes typed gRPC of


# With STUDY set, the rows of that study take the classes' place.
offer(globals(), offered().values())
