"""Real artefacts of a tiny model: what the `models` service writes, small enough to build in a test."""

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from gateways.core.manifest import Manifest
from gateways.upstreams.torch import TorchPredictor
from gateways.upstreams.torchscript import Answers, Photo
from models.builder import half
from tests.unit.upstream_servers import DIM, LABELS, SIDE, Kind, manifest, write
from tests.unit.upstream_servers import MODEL as MODEL


class _Tiny(torch.nn.Module):
    """[N, 3, 32, 32] -> embedding [N, 8] and, for a classifier, logits [N, 10]."""

    def __init__(self, *, classifier: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolution = torch.nn.Conv2d(3, DIM, 8, 8)
        self.linear = torch.nn.Linear(DIM, len(LABELS))
        self.classifier = classifier

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        embedding = self.convolution(image).relu().mean((2, 3))
        return (embedding, self.linear(embedding)) if self.classifier else (embedding,)


def build(artifacts: Path, kind: Kind = "classifier", name: str = MODEL, *, fp16: bool = False) -> Manifest:
    """Write the artefacts below `artifacts` and load them."""
    folder = write(artifacts, manifest(kind, name))
    model = _Tiny(classifier=kind == "classifier").eval()
    example = torch.zeros(2, 3, SIDE, SIDE)
    trace = half.traced(model, example) if fp16 else torch.jit.trace(model, example)
    trace.save(str(folder / "model.pt"))
    return Manifest.load(artifacts, name)


class Gate:
    """Holds the model's threads at what they take next, and sees how many photos it is."""

    def __init__(self, answers: Callable[..., Answers]) -> None:
        self._answers = answers
        self._open = threading.Event()
        self.open = self._open.set
        self.entered = threading.Event()
        self.sizes: list[int] = []

    def __call__(self, model: torch.jit.ScriptModule, photos: Sequence[Photo]) -> Answers:
        self.sizes.append(len(photos))
        self.entered.set()
        assert self._open.wait(60)
        return self._answers(model, photos)


@contextmanager
def gated(predictor: TorchPredictor) -> Iterator[Gate]:
    """The predictor with a gate before its model; from the end on it is open, whatever happened."""
    model = predictor._model
    assert model
    gate = Gate(model._answers)
    model._answers = gate  # type: ignore[method-assign]
    try:
        yield gate
    finally:
        gate.open()


def jpeg(seed: int = 0, size: tuple[int, int] = (64, 48), mode: str = "RGB") -> bytes:
    """A JPEG of coloured blocks; another seed is another photo."""
    rng = np.random.default_rng(seed)
    blocks = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
    out = io.BytesIO()
    blocks.resize(size, Image.Resampling.BICUBIC).convert(mode).save(out, "JPEG", quality=90)
    return out.getvalue()
