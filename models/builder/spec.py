"""What a model is: models/<name>/model.toml, read into frozen data and checked before anything heavy is imported.

An image model is served on every route:

    kind = "classifier"            # or "embedding": no classes, no labels, no head
    embedding_dim = 1280           # checked against what the model answers
    classes = 1000
    labels = "imagenet"            # a name in models/builder/sources.py

    [source]                       # the architecture
    kind = "torchvision"           # a name in models/builder/sources.py
    name = "densenet161"           # what that library calls it
    head = "classifier"            # dotted path of the last layer: its input is the embedding, its output the logits

    [weights]                      # either a file in an installed package ...
    file = "package/file.pth"
    url = "https://..."            # ... or a download, with at least the first 8 digits of its SHA-256
    sha256 = "..."

    [preprocess]                   # gateways.core.preprocess

Where the weights are an ONNX file, the graph is the architecture, and [source] names its tensors:

    kind = "onnx"
    input = "pixels"               # [N,3,H,W]
    embedding = "/pool/Flatten"    # any tensor of the graph
    logits = "probabilities"

A model of another kind is an ONNX file that Triton serves as it is, on the tensor routes alone:

    kind = "tensors"
    [weights]                      # as above
    [inputs.NAME]                  # none is needed:
    shape = [1, 576]               # narrows what the graph leaves open, the batch included
    value = 16000                  # what a load test fills this input with; otherwise seeded noise
    [labels]
    OUTPUT = "magika"              # for Triton's classification extension

docs/models.md has examples.
"""

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from gateways.core.preprocess import Preprocess
from models.builder.errors import BuildError

MODELS = Path(__file__).parents[1]


class SpecError(BuildError):
    """The model is unknown or its model.toml is wrong. The message says which file and what to do."""


@dataclass(frozen=True)
class Source:
    """Where the architecture comes from: a library's name for it, or the names of an ONNX graph's tensors.

    `head` is the dotted path of the last layer; it and `logits` are empty for an embedding model.
    """

    kind: str
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
        """What gives the logits; empty for an embedding model."""
        return self.logits if self.kind == "onnx" else self.head


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
class Input:
    """What a spec says about one input of a graph: () and None where it says nothing."""

    shape: tuple[int, ...] = ()
    value: float | None = None


@dataclass(frozen=True)
class Spec:
    """What every model has."""

    name: str
    kind: str
    weights: Weights

    KINDS: ClassVar[tuple[str, ...]] = ("classifier", "embedding", "tensors")

    @classmethod
    def load(cls, name: str, models: Path = MODELS) -> Self:
        """Read `models`/`name`/model.toml. Raises SpecError, also when it is another sort of spec than `cls`."""
        known = sorted(path.parent.name for path in models.glob("*/model.toml"))
        if name not in known:
            raise SpecError(f"no such model: set MODEL to one of {', '.join(known)}, or add models/<name>/model.toml")
        path = models / name / "model.toml"
        try:
            data = tomllib.loads(path.read_text())
            sort = TensorsSpec if data.get("kind") == "tensors" else ImageSpec
            spec = sort.from_toml(name, data)
        except ValueError as error:
            raise SpecError(f"models/{name}/model.toml: {error}") from error
        if not isinstance(spec, cls):
            raise SpecError(f"models/{name}/model.toml: kind {spec.kind} does not fit here")
        return spec


@dataclass(frozen=True)
class ImageSpec(Spec):
    """A model of photos. `classes` is 0 and `labels` empty for an embedding model."""

    embedding_dim: int
    source: Source
    preprocess: Preprocess
    classes: int = 0
    labels: str = ""

    def __post_init__(self) -> None:
        if self.kind not in self.KINDS[:2]:
            raise ValueError(f"kind must be one of {', '.join(self.KINDS)}, got {self.kind!r}")
        classifier = (self.classes, self.labels, self.source.classifies)
        if self.kind == "classifier" and not all(classifier):
            raise ValueError("a classifier needs classes, labels and source.head (source.logits for ONNX)")
        if self.kind == "embedding" and any(classifier):
            raise ValueError("an embedding model has no classes, labels, source.head or source.logits")
        if self.embedding_dim < 1 or self.classes < 0:
            raise ValueError("embedding_dim and classes must be positive")

    @property
    def outputs(self) -> dict[str, int]:
        """Output name to width, in order: what TorchScript, ONNX and config.pbtxt share."""
        return {"embedding": self.embedding_dim} | ({"logits": self.classes} if self.classes else {})

    @classmethod
    def from_toml(cls, name: str, data: dict[str, Any]) -> Self:
        steps = _table(
            data, "preprocess", {"resize": int, "crop": int, "interpolation": str, "mean": list, "std": list}
        )
        mean, std = (_rgb(steps, key) for key in ("mean", "std"))
        names = ("kind", "name", "head", "input", "embedding", "logits")
        source = _table(data, "source", dict.fromkeys(names, str), optional=names[1:])
        rest = {key: value for key, value in data.items() if key not in ("preprocess", "source", "weights")}
        types = {"kind": str, "embedding_dim": int, "classes": int, "labels": str}
        top = _checked(rest, "", types, optional=("classes", "labels"))
        preprocess = Preprocess(steps["resize"], steps["crop"], steps["interpolation"], mean, std)
        return cls(name=name, source=Source(**source), weights=_weights(data), preprocess=preprocess, **top)


@dataclass(frozen=True)
class TensorsSpec(Spec):
    """An ONNX file that is served as it is. `labels` maps an output to a name in models/builder/sources.py."""

    inputs: dict[str, Input] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_toml(cls, name: str, data: dict[str, Any]) -> Self:
        top = _checked(data, "", {"kind": str, "weights": dict, "inputs": dict, "labels": dict}, ("inputs", "labels"))
        labels = _checked(top.get("labels", {}), "labels.", dict.fromkeys(top.get("labels", {}), str))
        inputs = {one: _input(top["inputs"], one) for one in top.get("inputs", {})}
        return cls(name=name, kind=top["kind"], weights=_weights(data), inputs=inputs, labels=labels)


def _weights(data: dict[str, Any]) -> Weights:
    names = ("file", "url", "sha256")
    return Weights(**_table(data, "weights", dict.fromkeys(names, str), optional=names))


def _input(inputs: dict[str, Any], name: str) -> Input:
    about = inputs[name]
    if isinstance(about, dict) and about and about.keys() <= {"shape", "value"}:
        shape, value = about.get("shape", []), about.get("value", 0)
        sizes = isinstance(shape, list) and all(type(dim) is int and (dim > 0 or dim == -1) for dim in shape)
        if sizes and type(value) in (int, float):
            return Input(tuple(shape), about.get("value"))
    raise ValueError(f"inputs.{name} must be shape = [sizes, -1 for an open one], value = a number, or both")


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
