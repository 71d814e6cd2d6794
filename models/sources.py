"""From a spec to a PyTorch module: one small function per source kind, which a model.toml names.

A function gets the library's name for the architecture and a file of weights (None: keep the random ones) and returns
the plain module. What all share is in `load`: where the weights come from, the seed, the cut into embedding and logits.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from models.hub import Unreachable, fetch
from models.spec import Spec, SpecError

SEED = 0


class TwoOutputs(nn.Module):
    """image [N,3,H,W] -> (embedding [N,D], logits [N,C]): the module cut in front of its last layer."""

    def __init__(self, module: nn.Module, head: str) -> None:
        super().__init__()
        self.head = module.get_submodule(head)
        module.set_submodule(head, nn.Identity())
        self.trunk = module

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        embedding = self.trunk(image)
        return embedding, self.head(embedding)


class OneOutput(nn.Module):
    """image [N,3,H,W] -> (embedding [N,D],)."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.trunk = module

    def forward(self, image: Tensor) -> tuple[Tensor]:
        return (self.trunk(image),)


@dataclass(frozen=True)
class Loaded:
    """A model ready to export. `source` says in words where its weights come from."""

    module: nn.Module
    weights: Literal["real", "random"]
    source: str


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
        raise SpecError(f"torchvision's {name} has no weights {weights.name}: take the url from its weights enum")
    weights.rename(checkpoints / weights.name)
    return models.get_model(name, weights=named[0])


SOURCES: dict[str, Callable[[str, Path | None], nn.Module]] = {
    "efficientnet_lite": efficientnet_lite,
    "open_clip": open_clip,
    "torchvision": torchvision,
}


def load(spec: Spec, scratch: Path) -> Loaded:
    """The model of `spec`; a download lands in `scratch`. Raises SpecError and hub.BadDownload.

    Where the hub cannot be reached the weights are random, from a fixed seed: same shapes, same speed, no meaning.
    """
    if spec.source.kind not in SOURCES:
        raise SpecError(f"models/{spec.name}/model.toml: source.kind must be one of {', '.join(SOURCES)}")
    path: Path | None
    weights: Literal["real", "random"]
    if spec.weights.file:
        path, weights, source = _installed(spec.weights.file), "real", spec.weights.file
    else:
        path, weights, source = scratch / spec.weights.url.rsplit("/", 1)[-1], "real", spec.weights.url
        try:
            fetch(spec.weights.url, spec.weights.sha256, path)
        except Unreachable as reason:
            path, weights = None, "random"
            source = f"random, seed {SEED}: {spec.weights.url} could not be fetched ({reason})"
    torch.manual_seed(SEED)
    module = SOURCES[spec.source.kind](spec.source.name, path)
    cut = TwoOutputs(module, spec.source.head) if spec.source.head else OneOutput(module)
    return Loaded(cut.float().eval(), weights, source)


def labels(name: str) -> list[str]:
    """The class labels called `name` in a spec, by class index. Raises SpecError."""
    if name != "imagenet":
        raise SpecError(f"labels {name!r} are not known (known: imagenet): add them to models/sources.py")
    from torchvision.models._meta import _IMAGENET_CATEGORIES

    return list(_IMAGENET_CATEGORIES)


def _installed(file: str) -> Path:
    """The path of "package/file" without importing the package."""
    package, _, rest = file.partition("/")
    found = importlib.util.find_spec(package)
    if not found or not found.origin:
        raise SpecError(f"package {package} is not installed: add it to models/requirements.in")
    return Path(found.origin).parent / rest
