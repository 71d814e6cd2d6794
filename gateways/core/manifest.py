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
            data: dict[str, Any] = json.loads(path.read_text())
            if (schema := data.pop("schema", None)) != SCHEMA:
                raise ValueError(f"schema {schema}, wanted {SCHEMA}")
            steps = data["preprocess"] | {name: tuple(data["preprocess"][name]) for name in ("mean", "std")}
            labels = tuple((directory / "labels.txt").read_text().splitlines()) if data["kind"] == "classifier" else ()
            if len(labels) != data["classes"]:
                raise ValueError(f"{data['classes']} classes but {len(labels)} labels")
            made = {"directory": directory, "preprocess": Preprocess(**steps), "parity": Parity(**data["parity"])}
            return cls(**data | made | {"labels": labels})
        except FileNotFoundError as error:
            raise ManifestError(
                f"no artefacts of model {model!r}: {error.filename} is absent. Run the `models` service."
            ) from None
        except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise ManifestError(f"{path} cannot be used ({error!r}). Run the `models` service again.") from error
