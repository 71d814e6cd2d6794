"""The rows of study `endpoint`: any server that speaks the Open Inference Protocol v2, wherever it is.

It stands where the stack has Triton: DIRECT_ADDRESSES says where that is (bench/endpoint.py).
"""

from dataclasses import replace

from locustfiles.routes import ROUTES, by_name

HTTP, GRPC = "endpoint-http", "endpoint-grpc"
_GRPC, _HTTP = ROUTES["onnx-grpc"], ROUTES["onnx-http"]
# The content type is the request's: bytes or JSON.
ROWS = by_name(
    replace(_HTTP, name=HTTP, of=_HTTP.name, format=replace(_HTTP.format, headers={})),
    replace(_GRPC, name=GRPC, of=_GRPC.name),
)
