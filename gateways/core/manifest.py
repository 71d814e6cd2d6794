"""What is being served: the artefact folder that the `models` service writes, read and checked once at start."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from gateways.core.preprocess import Preprocess

SCHEMA = 1


class ManifestError(RuntimeError):
    """The artefacts are absent or unusable. The message says what to do."""


@dataclass(frozen=True)
class Parity:
    """How far the ONNX model was from PyTorch on the sample photos when it was built."""

    photos: int
    max_abs: float
    min_cosine: float


@dataclass(frozen=True)
class Manifest:
    """One model's artefacts. `labels` is empty for an embedding model; `files` maps relative path to SHA-256."""

    directory: Path
    model: str
    kind: Literal["classifier", "embedding"]
    weights: Literal["real", "random"]
    weights_source: str
    preprocess: Preprocess
    embedding_dim: int
    classes: int
    build_key: str
    files: dict[str, str]
    parity: Parity
    labels: tuple[str, ...]

    @classmethod
    def load(cls, artifacts: Path, model: str) -> "Manifest":
        """Read `artifacts`/`model`/manifest.json and labels.txt. Raises ManifestError."""
        directory = artifacts / model
        path = directory / "manifest.json"
        try:
            data = json.loads(path.read_text())
        except FileNotFoundError:
            raise ManifestError(
                f"no artefacts of model {model!r}: {path} is absent. Run the `models` service."
            ) from None
        except (OSError, ValueError) as error:
            raise ManifestError(f"{path} cannot be read ({error}). Run the `models` service again.") from error
        if data.get("schema") != SCHEMA:
            raise ManifestError(
                f"{path} has schema {data.get('schema')}, wanted {SCHEMA}. Run the `models` service again."
            )
        try:
            return cls._from_json(directory, data)
        except (KeyError, TypeError, ValueError, OSError) as error:
            raise ManifestError(f"{path} is incomplete ({error!r}). Run the `models` service again.") from error

    @classmethod
    def _from_json(cls, directory: Path, data: dict[str, Any]) -> "Manifest":
        steps = data["preprocess"]
        labels = tuple((directory / "labels.txt").read_text().splitlines()) if data["kind"] == "classifier" else ()
        if len(labels) != data["classes"]:
            raise ValueError(f"{data['classes']} classes but {len(labels)} labels")
        return cls(
            directory=directory,
            model=data["model"],
            kind=data["kind"],
            weights=data["weights"],
            weights_source=data["weights_source"],
            preprocess=Preprocess(
                steps["resize"], steps["crop"], steps["interpolation"], tuple(steps["mean"]), tuple(steps["std"])
            ),
            embedding_dim=data["embedding_dim"],
            classes=data["classes"],
            build_key=data["build_key"],
            files=dict(data["files"]),
            parity=Parity(**data["parity"]),
            labels=labels,
        )
