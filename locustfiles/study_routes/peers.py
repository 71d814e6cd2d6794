"""The rows of study `peers`: the JPEG server and other projects' servers (servers/peers), asked the same.

TorchServe's handler takes its base64 under another key.
"""

from dataclasses import replace

from locustfiles.routes import BASE64, ROUTES, Route, by_name
from locustfiles.study_routes import torchserve

OURS = "jpeg-http"
PEERS = {"litserve": "LitServe"}
"""Service -> the project's name."""
TORCHSERVE = "torchserve-http-base64"
_FORM = replace(BASE64, max_batch=1)
ROWS = by_name(
    ROUTES[OURS],
    *(Route(name, ROUTES[OURS].path, f"{name}:8000", _FORM, behind_edge=False) for name in PEERS),
    torchserve.ROWS[TORCHSERVE],
)
