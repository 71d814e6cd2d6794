"""What a model is: models/<name>/model.toml, read into frozen data and checked before anything heavy is imported.

    kind = "classifier"            # or "embedding": no classes, no labels, no head
    embedding_dim = 1280           # checked against what the model answers
    classes = 1000
    labels = "imagenet"            # a name in models/sources.py

    [source]                       # the architecture
    kind = "torchvision"           # a name in models/sources.py
    name = "densenet161"           # what that library calls it
    head = "classifier"            # dotted path of the last layer: its input is the embedding, its output the logits

    [weights]                      # either a file in an installed package ...
    file = "package/file.pth"
    url = "https://..."            # ... or a download, with at least the first 8 digits of its SHA-256
    sha256 = "..."

    [preprocess]                   # gateways.core.preprocess

Another torchvision classifier or OpenCLIP image tower is such a file and nothing else.
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gateways.core.preprocess import Preprocess
from models.errors import BuildError

MODELS = Path(__file__).parent


class SpecError(BuildError):
    """The model is unknown or its model.toml is wrong. The message says which file and what to do."""


@dataclass(frozen=True)
class Source:
    """Where the architecture comes from. `head` is the dotted path of the last layer, empty for an embedding model."""

    kind: str
    name: str
    head: str = ""


@dataclass(frozen=True)
class Weights:
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


@dataclass(frozen=True)
class Spec:
    """One model. `classes` is 0 and `labels` empty for an embedding model."""

    name: str
    kind: Literal["classifier", "embedding"]
    embedding_dim: int
    source: Source
    weights: Weights
    preprocess: Preprocess
    classes: int = 0
    labels: str = ""

    def __post_init__(self) -> None:
        if self.kind not in ("classifier", "embedding"):
            raise ValueError(f'kind must be "classifier" or "embedding", got {self.kind!r}')
        classifier = (self.classes, self.labels, self.source.head)
        if self.kind == "classifier" and not all(classifier):
            raise ValueError("a classifier needs classes, labels and source.head")
        if self.kind == "embedding" and any(classifier):
            raise ValueError("an embedding model has no classes, labels or source.head")
        if self.embedding_dim < 1 or self.classes < 0:
            raise ValueError("embedding_dim and classes must be positive")

    @property
    def outputs(self) -> dict[str, int]:
        """Output name to width, in order: what TorchScript, ONNX and config.pbtxt share."""
        return {"embedding": self.embedding_dim} | ({"logits": self.classes} if self.classes else {})

    @classmethod
    def load(cls, name: str, models: Path = MODELS) -> "Spec":
        """Read `models`/`name`/model.toml. Raises SpecError."""
        known = sorted(path.parent.name for path in models.glob("*/model.toml"))
        if name not in known:
            raise SpecError(f"no such model: set MODEL to one of {', '.join(known)}, or add models/<name>/model.toml")
        path = models / name / "model.toml"
        try:
            return cls._from_toml(name, tomllib.loads(path.read_text()))
        except ValueError as error:
            raise SpecError(f"models/{name}/model.toml: {error}") from error

    @classmethod
    def _from_toml(cls, name: str, data: dict[str, Any]) -> "Spec":
        steps = _table(
            data, "preprocess", {"resize": int, "crop": int, "interpolation": str, "mean": list, "std": list}
        )
        mean, std = (_rgb(steps, key) for key in ("mean", "std"))
        source = _table(data, "source", {"kind": str, "name": str, "head": str}, optional=("head",))
        weights = _table(data, "weights", {"file": str, "url": str, "sha256": str}, optional=("file", "url", "sha256"))
        rest = {key: value for key, value in data.items() if key not in ("preprocess", "source", "weights")}
        types = {"kind": str, "embedding_dim": int, "classes": int, "labels": str}
        top = _checked(rest, "", types, optional=("classes", "labels"))
        preprocess = Preprocess(steps["resize"], steps["crop"], steps["interpolation"], mean, std)
        return cls(name=name, source=Source(**source), weights=Weights(**weights), preprocess=preprocess, **top)


def _table(data: dict[str, Any], name: str, types: dict[str, type], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    if not isinstance(data.get(name), dict):
        raise ValueError(f"[{name}] is missing")
    return _checked(data[name], f"{name}.", types, optional)


def _checked(
    values: dict[str, Any], prefix: str, types: dict[str, type], optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """`values` itself, when every key is known, has its type, and none but the optional ones is absent."""
    for key, value in values.items():
        if key not in types:
            raise ValueError(f"{prefix}{key} is not known (known: {', '.join(types)})")
        if type(value) is not types[key]:
            raise ValueError(f"{prefix}{key} must be {types[key].__name__}, got {value!r}")
    for key in types:
        if key not in values and key not in optional:
            raise ValueError(f"{prefix}{key} is missing")
    return values


def _rgb(steps: dict[str, Any], key: str) -> tuple[float, float, float]:
    match steps[key]:
        case [float() as r, float() as g, float() as b]:
            return r, g, b
    raise ValueError(f"preprocess.{key} must be three decimal numbers, got {steps[key]!r}")
