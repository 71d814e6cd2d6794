"""From a spec to a PyTorch module: one small function per source kind, which a model.toml names.

A function gets the library's name for the architecture and a file of weights (None: keep the random ones) and returns
the plain module. `load` does what all share: it gets the weights, sets the seed, and cuts the model into embedding and
logits. An ONNX file is both architecture and weights: models/builder/from_onnx.py.
"""

import importlib.util
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import nn

from models.builder import from_onnx
from models.builder.hub import Unreachable, fetch
from models.builder.spec import BuildError, ImageSpec, Weights

SEED = 0


@dataclass(frozen=True)
class Origin:
    """Whether a model's weights are real; `source` says in words where they come from."""

    weights: Literal["real", "random"]
    source: str


@dataclass(frozen=True)
class Loaded(Origin):
    """A model ready to export. `graph` is its ONNX file, where it began as one."""

    module: nn.Module
    graph: Path | None = None


def efficientnet_lite(name: str, weights: Path | None) -> nn.Module:
    """PyPI's efficientnet-lite-pytorch."""
    from efficientnet_lite_pytorch import EfficientNet

    module: nn.Module = EfficientNet.from_name(name)
    if weights:
        module.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    return module


def open_clip(name: str, weights: Path | None) -> nn.Module:
    """The image tower of an OpenCLIP model."""
    import open_clip

    # OpenAI's weights are a TorchScript archive, which weights_only refuses; hub.fetch has checked the file's SHA-256.
    model = open_clip.create_model(name, pretrained=str(weights) if weights else None, weights_only=False)
    visual: nn.Module = model.visual
    return visual


def torchvision(name: str, weights: Path | None) -> nn.Module:
    """Any classifier of torchvision.models. Its own loader reads the file: it mends old checkpoints' key names."""
    from torchvision import models

    if weights is None:
        module: nn.Module = models.get_model(name, weights=None)
        return module
    torch.hub.set_dir(str(weights.parent))
    checkpoints = weights.parent / "checkpoints"
    checkpoints.mkdir(exist_ok=True)
    named = [entry for entry in models.get_model_weights(name) if Path(entry.url).name == weights.name]
    if not named:
        raise BuildError(f"torchvision's {name} has no weights {weights.name}: take the url from its weights enum")
    weights.rename(checkpoints / weights.name)
    return models.get_model(name, weights=named[0])


def timm(name: str, weights: Path | None) -> nn.Module:
    """Any image model of timm, with a file of its state, as .safetensors or not."""
    import timm

    module: nn.Module = timm.create_model(name, pretrained=False, checkpoint_path=str(weights or ""))
    return module


def pool(name: str, _: Path | None) -> nn.Module:
    """Next to no model: the mean colours of a photo's tiles, `name` pixels wide and high."""
    return nn.Sequential(nn.AvgPool2d(int(name)), nn.Flatten())


SOURCES: dict[str, Callable[[str, Path | None], nn.Module]] = {
    "efficientnet_lite": efficientnet_lite,
    "open_clip": open_clip,
    "pool": pool,
    "timm": timm,
    "torchvision": torchvision,
}


def load(spec: ImageSpec, scratch: Path) -> Loaded:
    """The model of `spec`; a download lands in `scratch`. Raises BuildError and hub.BuildError.

    Where the hub cannot be reached the weights are random, from a fixed seed: same shapes, same speed, no meaning.
    """
    if spec.source.kind == "onnx" and spec.weights:
        path, origin = file_of(spec.weights, scratch)
        graph = from_onnx.named(path, spec, scratch)
        return Loaded(origin.weights, origin.source, from_onnx.module(graph), graph)
    # Libraries' own loaders unpickle what they are given, unless this is set.
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = str(int(spec.source.kind != "open_clip"))
    weights: Path | None = None
    origin = Origin("real", "it has none")
    try:
        if spec.weights:
            weights, origin = file_of(spec.weights, scratch)
    except Unreachable as reason:
        origin = Origin("random", f"random, seed {SEED}: {reason}")
    torch.manual_seed(SEED)
    module = from_onnx.Outputs(SOURCES[spec.source.kind](spec.source.name, weights), spec.source.head)
    return Loaded(origin.weights, origin.source, module.float().eval())


def file_of(weights: Weights, scratch: Path) -> tuple[Path, Origin]:
    """The file of weights: where a package has it, or downloaded to `scratch`. Raises Unreachable and BuildError."""
    if weights.file:
        return _installed(weights.file), Origin("real", weights.file)
    path = scratch / weights.url.rsplit("/", 1)[-1]
    fetch(weights.url, weights.sha256, path)
    return path, Origin("real", weights.url)


def _imagenet() -> list[str]:
    from torchvision.models._meta import _IMAGENET_CATEGORIES

    return list(_IMAGENET_CATEGORIES)


def _magika() -> list[str]:
    about = json.loads(_installed("magika/models/standard_v3_3/config.min.json").read_text())
    return list(about["target_labels_space"])


LABELS: dict[str, Callable[[], list[str]]] = {"imagenet": _imagenet, "magika": _magika}


def labels(name: str) -> list[str]:
    """The class labels called `name` in a spec, by class index. Raises BuildError."""
    if name not in LABELS:
        raise BuildError(
            f"labels {name!r} are not known (known: {', '.join(LABELS)}): add them to models/builder/sources.py"
        )
    return LABELS[name]()


def _installed(file: str) -> Path:
    """The path of "package/file" without importing the package."""
    package, _, rest = file.partition("/")
    found = importlib.util.find_spec(package)
    if not found or not found.origin:
        raise BuildError(f"package {package} is not installed: add it to the group models in pyproject.toml")
    path = Path(found.origin).parent / rest
    if not path.is_file():
        raise BuildError(f"package {package} has no {rest}: look for another name in this version")
    return path
