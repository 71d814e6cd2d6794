"""The rows of study `peers`: the JPEG server and other projects' servers (servers/peers), asked the same.

TorchServe's handler takes its base64 under another key, MLServer as a tensor of the Open Inference Protocol. BentoML
answers with the bare list.
"""

import base64
import json
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from locustfiles import answers, payloads
from locustfiles.clients import Answer, Payload
from locustfiles.payloads import Images
from locustfiles.routes import BASE64, ROUTES, Format, Route, by_name
from locustfiles.study_routes import torchserve


def kserve_base64(images: Images) -> Payload:
    """The protocol's JSON: a photo in base64 as a BYTES tensor."""
    texts = [base64.b64encode(payloads.jpeg(images).body).decode()]
    tensor = {"name": "images", "datatype": payloads.BYTES, "shape": [1, 1], "data": texts}
    return Payload(json.dumps({"inputs": [tensor]}).encode(), 1)


def read_kserve(answer: Answer) -> NDArray[np.float32]:
    """Of the protocol's JSON."""
    (output,) = answers.kserve_outputs("HTTP", answer)
    return np.frombuffer(output.raw, "<f4").reshape(output.shape)


def read_list(answer: Answer) -> Any:
    return json.loads(answer.body)


OURS = "jpeg-http"
PEERS = {"litserve": "LitServe", "bentoml": "BentoML", "mlserver": "MLServer", "ray-serve": "Ray Serve"}
"""Service -> the project's name."""
TORCHSERVE = "torchserve-http-base64"
_OBJECT = replace(BASE64, max_batch=1)
_LIST = replace(_OBJECT, read=read_list)
_TENSOR = replace(_OBJECT, encode=kserve_base64, check=answers.kserve_http, read=read_kserve)


def _peer(service: str, form: Format = _OBJECT, path: str = ROUTES[OURS].path) -> Route:
    return Route(service, path, f"{service}:8000", form, behind_edge=False)


ROWS = by_name(
    ROUTES[OURS],
    _peer("litserve"),
    _peer("bentoml", _LIST),
    _peer("mlserver", _TENSOR, "/v2/models/peer/infer"),
    _peer("ray-serve"),
    torchserve.ROWS[TORCHSERVE],
)
