"""What the stack serves now, from /artifacts/serving.json, which the models service writes and scripts/swap changes. If
Locust runs outside of the stack, without that file, it asks Triton over the stack's port about the model that MODEL
names.
"""

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from locustfiles.clients import DEADLINE_S, CallError, Endpoint, key, tls

SCHEMA = 1
DEFAULT_MODEL = "efficientnet_lite0"
SIDE = 224
"""Pixels: a photo's tensor is [3, SIDE, SIDE]."""


class NothingServed(OSError):
    """It is unknown what is served; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Serving:
    """`model` is the model of the routes onnx-*. `models` are all models in Triton: trt-* ask `<model>_trt` and
    onnx-jpeg-* ask `<model>_jpeg`, if it has them. `images`: the model takes photos, so every route can ask it.
    Otherwise it takes tensors of any kind, on KServe's routes.
    """

    model: str
    models: tuple[str, ...]
    images: bool
    since: int = 0
    """Time of that choice, in ns: cached facts about a model are valid for this choice only."""
    tensors: Path | None = None
    """The model builder's folder with a tensor per photo, where this machine has it."""


def artifacts() -> Path:
    return Path(os.environ.get("ARTIFACTS", "/artifacts"))


def now(edge: str = "") -> Serving:
    """What is served. `edge`: address of the stack to ask if there is no file. Raises NothingServed."""
    path = artifacts() / "serving.json"
    if edge and not path.exists():
        return _asked(edge, os.environ.get("MODEL") or DEFAULT_MODEL)
    try:
        found = json.loads(path.read_text())
        if found["schema"] != SCHEMA:
            raise ValueError(f"schema {found['schema']}, wanted {SCHEMA}")
        model, tensors = found["model"], artifacts() / found["model"] / "tensors"
        return Serving(model, tuple(found["models"]), found["images"], path.stat().st_mtime_ns, tensors)
    except (OSError, ValueError, LookupError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        what = "start the stack first (./scripts/up); for a --target elsewhere, docker compose up models is enough"
        raise NothingServed(f"nothing is served: {path}: {reason}: {what}") from error


@cache
def _asked(edge: str, model: str) -> Serving:
    """The variants of a model that Triton behind `edge` holds, asked once per process. Raises NothingServed."""
    try:
        about = get_json(edge, f"/v2/models/{quote(model)}")
    except (CallError, ValueError) as error:
        what = "start the stack first (./scripts/up), or set MODEL to the model that it serves"
        raise NothingServed(f"{edge} does not serve {model}: {error}: {what}") from error
    models = (model, *(name for name in (f"{model}_trt", f"{model}_jpeg") if _holds(edge, name)))
    images = f"{model}_jpeg" in models
    shapes = [[int(size) for size in one["shape"][-3:]] for one in about["inputs"]]
    if images and shapes != [[3, SIDE, SIDE]]:
        raise NothingServed(f"{model} takes other images than {SIDE}x{SIDE}: run Locust in the stack's own containers")
    return Serving(model, models, images)


def _holds(edge: str, model: str) -> bool:
    try:
        get_json(edge, f"/v2/models/{quote(model)}")
    except CallError:
        return False
    return True


def get_json(address: str, path: str) -> Any:
    """The JSON at a path of `address` (as Endpoint has it). Raises CallError, ValueError."""
    to = Endpoint(address, path, key(), "GET")
    try:
        response = httpx.get(to.url, headers=to.headers, timeout=DEADLINE_S, trust_env=False, verify=tls.verify(to))
    except httpx.HTTPError as error:
        raise CallError(f"HTTP connection: {error}") from error
    if response.status_code != httpx.codes.OK:
        raise CallError(f"HTTP {response.status_code}: {response.text[:200].strip()} (GET {path})")
    return response.json()
