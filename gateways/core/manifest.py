"""The manifest of a model: the artefact folder that the `models` service writes, read and checked once at start."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gateways.core.preprocess import Preprocess
from gateways.core.serving import ServingError

SCHEMA = 1


@dataclass(frozen=True)
class Manifest:
    """The facts about one model's artefacts that a server needs. `labels` is empty for an embedding model."""

    directory: Path
    model: str
    kind: Literal["classifier", "embedding"]
    weights: Literal["real", "random"]
    preprocess: Preprocess
    labels: tuple[str, ...]

    @classmethod
    def load(cls, artifacts: Path, model: str) -> "Manifest":
        """Read `artifacts`/`model`/manifest.json and labels.txt. Raises ServingError."""
        directory = artifacts / model
        path = directory / "manifest.json"
        try:
            data = json.loads(path.read_text())
            if (schema := data.get("schema")) != SCHEMA:
                raise ValueError(f"schema {schema}, wanted {SCHEMA}")
            steps = data["preprocess"] | {name: tuple(data["preprocess"][name]) for name in ("mean", "std")}
            labels = tuple((directory / "labels.txt").read_text().splitlines()) if data["kind"] == "classifier" else ()
            if len(labels) != data["classes"]:
                raise ValueError(f"{data['classes']} classes but {len(labels)} labels")
            return cls(directory, data["model"], data["kind"], data["weights"], Preprocess(**steps), labels)
        except FileNotFoundError as error:
            raise ServingError(
                f"no artefacts of model {model!r}: {error.filename} is absent. Run the `models` service."
            ) from None
        except (OSError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise ServingError(f"{path} cannot be used ({error!r}). Run the `models` service again.") from error
