"""The spec of a model: models/<name>/model.toml, read into frozen data and checked before any slow import.

docs/models.md describes every field, with examples.
"""

import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Literal, Self

import msgspec

from gateways.core.preprocess import Preprocess

MODELS = Path(__file__).parents[1]


class BuildError(Exception):
    """The artefacts cannot be made. The message is one line: what is wrong and what to do."""


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a model.toml: a typo must never become a default."""


class Source(Table, frozen=True):
    """Where the architecture comes from: a library's name for it, or the names of an ONNX graph's tensors.

    `head` is the dotted path of the last layer; it and `logits` are empty for an embedding model.
    """

    kind: Literal["efficientnet_lite", "onnx", "open_clip", "pool", "timm", "torchvision"]
    name: str = ""
    head: str = ""
    input: str = ""
    embedding: str = ""
    logits: str = ""

    def __post_init__(self) -> None:
        library, graph = (self.name, self.head), (self.input, self.embedding, self.logits)
        if self.kind == "onnx" and (any(library) or not (self.input and self.embedding)):
            raise ValueError("source.kind onnx needs input and embedding, and has no name or head")
        if self.kind != "onnx" and (any(graph) or not self.name):
            raise ValueError("source.name is missing, or source.kind is not onnx and has input, embedding or logits")

    @property
    def classifies(self) -> str:
        """The tensor or layer with the logits; empty for an embedding model."""
        return self.logits if self.kind == "onnx" else self.head


class Weights(Table, frozen=True):
    """Where the weights come from: `file` inside an installed package, or `url` with (the start of) its SHA-256."""

    file: str = ""
    url: str = ""
    sha256: str = ""

    def __post_init__(self) -> None:
        if bool(self.file) == bool(self.url):
            raise ValueError("weights: name one of file and url")
        if self.url and not self.url.startswith("https://"):
            raise ValueError(f"weights.url must start with https://, got {self.url}")
        if self.url and not re.fullmatch(r"[0-9a-f]{8,64}", self.sha256):
            raise ValueError(f"weights.sha256 must be 8 to 64 lower-case hex digits, got {self.sha256!r}")


class Input(Table, frozen=True):
    """The spec of one input of a graph; () and None where it leaves a field out."""

    shape: tuple[int, ...] = ()
    value: float | None = None

    def __post_init__(self) -> None:
        if any(dim < 1 and dim != -1 for dim in self.shape) or (not self.shape and self.value is None):
            raise ValueError("an input has shape = [sizes, -1 for an open one], value = a number, or both")


class Spec(Table, frozen=True):
    """Fields of every model. `name` is the name of its folder. Only the source `pool` has no weights."""

    name: str
    kind: str
    weights: Weights | None = None

    def wrong(self, reason: str) -> BuildError:
        """The error for a model.toml that does not fit the model."""
        return BuildError(f"models/{self.name}/model.toml: {reason}")

    @classmethod
    def load(cls, name: str, models: Path = MODELS) -> Self:
        """Read `models`/`name`/model.toml. Raises BuildError, also when it is another sort of spec than `cls`."""
        known = sorted(path.parent.name for path in models.glob("*/model.toml"))
        if name not in known:
            raise BuildError(f"no such model: set MODEL to one of {', '.join(known)}, or add models/<name>/model.toml")
        try:
            data = tomllib.loads((models / name / "model.toml").read_text())
            if "name" in data:
                raise ValueError("name is the name of the folder: leave it out")
            if (kind := str(data.get("kind"))) not in KINDS:
                raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {kind!r}")
            spec = msgspec.convert(data | {"name": name}, KINDS[kind])
            # The servers share this class: by itself it ignores what it does not know.
            if unknown := data.get("preprocess", {}).keys() - {field.name for field in fields(Preprocess)}:
                raise ValueError(f"preprocess contains unknown field {', '.join(sorted(unknown))}")
        except ValueError as error:
            text = f"models/{name}/model.toml: {error} (docs/models.md describes every field)"
            raise BuildError(text) from error
        if not isinstance(spec, cls):
            raise spec.wrong(f"kind {kind} does not fit here")
        return spec


class ImageSpec(Spec, frozen=True, kw_only=True):
    """A model of photos. `classes` is 0 and `labels` empty for an embedding model."""

    embedding_dim: int
    source: Source
    preprocess: Preprocess
    classes: int = 0
    labels: str = ""

    def __post_init__(self) -> None:
        classifier = (self.classes, self.labels, self.source.classifies)
        if self.kind == "classifier" and not all(classifier):
            raise ValueError("a classifier needs classes, labels and source.head (source.logits for ONNX)")
        if self.kind == "embedding" and any(classifier):
            raise ValueError("an embedding model has no classes, labels, source.head or source.logits")
        if (self.source.kind == "pool") == bool(self.weights):
            raise ValueError("[weights] is missing, or source.kind is pool, which has none")
        if self.embedding_dim < 1 or self.classes < 0:
            raise ValueError("embedding_dim and classes must be positive")

    @property
    def outputs(self) -> dict[str, int]:
        """Output name to width, in order: what TorchScript, ONNX and config.pbtxt share."""
        return {"embedding": self.embedding_dim} | ({"logits": self.classes} if self.classes else {})


class TensorsSpec(Spec, frozen=True, kw_only=True):
    """An ONNX file that is served as it is. `labels` maps an output to a name in models/builder/sources.py."""

    weights: Weights
    inputs: dict[str, Input] = {}
    labels: dict[str, str] = {}


KINDS: dict[str, type[ImageSpec | TensorsSpec]] = {
    "classifier": ImageSpec,
    "embedding": ImageSpec,
    "tensors": TensorsSpec,
}
