"""What the load finds in /artifacts: a model `tiny` with a tensor per photo, and the word that it is served."""

from pathlib import Path

import numpy as np

from gateways.core.serving import Serving
from locustfiles.payloads import ALL, photos

TINY = "tiny"


def tiny(folder: Path, side: int = 224, size: str = ALL) -> Path:
    """Write it all, for the photos of one size or of all: each tensor, float32 [3, side, side], is full of its photo's
    number. Returns `folder`."""
    tensors = folder / TINY / "tensors"
    tensors.mkdir(parents=True)
    for number, name in enumerate(photos(size)):
        np.save(tensors / f"{name}.npy", np.full((3, side, side), number, np.float32))
    declare(folder)
    return folder


def declare(folder: Path, model: str = TINY, accelerated: str | None = f"{TINY}_trt", *, images: bool = True) -> None:
    """Write serving.json as the models service does."""
    folder.mkdir(exist_ok=True)
    models = model, *([accelerated] if accelerated else []), *([f"{model}_jpeg"] if images else [])
    Serving(model, accelerated, images, models).write(folder)
