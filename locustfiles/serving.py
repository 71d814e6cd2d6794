"""What the stack serves now: as /artifacts/serving.json says, which the models service writes and scripts/swap changes.

A machine without that file, where Locust runs outside of the stack, asks Triton over the stack's one port for the model
that MODEL names.
"""

import http.client
import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from locustfiles.clients import DEADLINE_S, CallError

SCHEMA = 1
DEFAULT_MODEL = "efficientnet_lite0"
SIDE = 224
"""Pixels: a photo's tensor is [3, SIDE, SIDE]."""


class NothingServed(OSError):
    """Nothing says what is served; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Serving:
    """`model` is what the routes onnx-* ask, `models` all that Triton holds: `<model>_trt` and `<model>_jpeg`, where
    they are, are what trt-* and onnx-jpeg-* ask.

    `images`: it takes photos, so every route can ask it; else the model takes tensors of any kind, on KServe's routes.
    """

    model: str
    models: tuple[str, ...]
    images: bool
    since: int = 0
    """When that was chosen, in ns: what is known of a model holds for this choice only."""
    here: bool = True
    """Does this machine have the model builder's folder?"""

    @property
    def tensors(self) -> Path | None:
        """The folder with a tensor per photo, where there is one."""
        return artifacts() / self.model / "tensors" if self.here else None


def artifacts() -> Path:
    return Path(os.environ.get("ARTIFACTS", "/artifacts"))


def now(edge: str = "") -> Serving:
    """What is served. `edge`: host:port of a stack that is asked where there is no file. Raises NothingServed."""
    path = artifacts() / "serving.json"
    try:
        if edge and not path.exists():
            return _asked(edge, os.environ.get("MODEL") or DEFAULT_MODEL)
        found = json.loads(path.read_text())
        if found["schema"] != SCHEMA:
            raise ValueError(f"schema {found['schema']}, wanted {SCHEMA}")
        return Serving(found["model"], tuple(found["models"]), found["images"], path.stat().st_mtime_ns)
    except NothingServed:
        raise
    except (OSError, ValueError, LookupError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        what = "start the stack first (./scripts/up); for a --target elsewhere, docker compose up models is enough"
        raise NothingServed(f"nothing is served: {path}: {reason}: {what}") from error


@cache
def _asked(edge: str, model: str) -> Serving:
    """What Triton behind `edge` holds of a model, asked once by each process. Raises NothingServed."""
    try:
        about = get_json(edge, f"/v2/models/{quote(model)}")
    except (OSError, CallError, ValueError) as error:
        what = "start the stack first (./scripts/up), or set MODEL to the model that it serves"
        raise NothingServed(f"{edge} does not serve {model}: {error}: {what}") from error
    models = (model, *(name for name in (f"{model}_trt", f"{model}_jpeg") if _holds(edge, name)))
    images = f"{model}_jpeg" in models
    shapes = [[int(size) for size in one["shape"][-3:]] for one in about["inputs"]]
    if images and shapes != [[3, SIDE, SIDE]]:
        raise NothingServed(
            f"{model} takes images of another size than {SIDE}: run Locust in the stack's own containers"
        )
    return Serving(model, models, images, here=False)


def _holds(edge: str, model: str) -> bool:
    try:
        get_json(edge, f"/v2/models/{quote(model)}")
    except CallError:
        return False
    return True


def get_json(address: str, path: str) -> Any:
    """The JSON at a path of `address` (host:port). Raises CallError, OSError, ValueError."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=DEADLINE_S)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        text = response.read().decode(errors="replace")
    except http.client.HTTPException as error:
        raise CallError(f"HTTP connection: {error}") from error
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise CallError(f"HTTP {response.status}: {text[:200].strip()} (GET {path})")
    return json.loads(text)
