"""What is served now: /artifacts/serving.json, which the models service writes and scripts/swap changes."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

SCHEMA = 1


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


def artifacts() -> Path:
    return Path(os.environ.get("ARTIFACTS", "/artifacts"))


def now() -> Serving:
    """Raises NothingServed."""
    path = artifacts() / "serving.json"
    try:
        found = json.loads(path.read_text())
        if found["schema"] != SCHEMA:
            raise ValueError(f"schema {found['schema']}, wanted {SCHEMA}")
        return Serving(found["model"], tuple(found["models"]), found["images"], path.stat().st_mtime_ns)
    except (OSError, ValueError, LookupError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        what = "start the stack first (./scripts/up); for a --target elsewhere, docker compose up models is enough"
        raise NothingServed(f"nothing is served: {path}: {reason}: {what}") from error
