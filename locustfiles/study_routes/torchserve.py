"""The rows of study `torchserve`: photos as bytes and as base64 text, and a typed contract in front of it.

TorchServe's gRPC is generic: a map of bytes in, bytes out. Its row with base64 sends the JSON that the REST row sends,
as one of those bytes.
"""

import base64
import json

from torchserve.inference_pb2 import PredictionsRequest

from locustfiles import answers, payloads
from locustfiles.clients import Payload
from locustfiles.payloads import Images
from locustfiles.routes import ROUTES, Format, by_name


def base64_http(images: Images) -> Payload:
    """The JSON that our handler takes in place of a JPEG: {"image": base64}."""
    text = base64.b64encode(payloads.jpeg(images).body).decode()
    return Payload(json.dumps({"image": text}).encode(), 1)


def base64_grpc(images: Images) -> Payload:
    """TorchServe's generic message with the same JSON under the key `data`."""
    asked = PredictionsRequest(model_name=images.served, input={"data": base64_http(images).body})
    return Payload(asked.SerializeToString(), 1)


_JSON = Format("HTTP", base64_http, answers.json_vectors, answers.read_json, {"content-type": "application/json"}, 1)
_GRPC = Format("gRPC", base64_grpc, answers.torchserve_grpc, answers.read_torchserve_grpc, max_batch=1)
ROWS = by_name(
    ROUTES["torchserve-http"],
    ROUTES["torchserve-grpc"],
    ROUTES["torchserve-http"].asked_as("base64", _JSON),
    ROUTES["torchserve-grpc"].asked_as("base64", _GRPC),
    ROUTES["typed-grpc"],
    ROUTES["typed-http"],
)
