"""What is served now: /artifacts/serving.json, written by the models service and scripts/swap, followed by the servers.

Standard library only, and without asyncio, which is most of a health check's start: checks read it every few seconds.
"""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ARTIFACTS = Path(os.environ.get("ARTIFACTS", "/artifacts"))
"""Where the artefacts are."""
SCHEMA = 1
NAME = "serving.json"
NEXT = "serving.next.json"
"""What a swap is about to serve."""
FOLLOWED = Path(os.environ.get("TMPDIR", "/tmp"), "serving")
"""The file in its container in which a server that follows says which model it serves."""


class ServingError(RuntimeError):
    """What serving needs is absent or unusable: serving.json, a model's artefacts, the device, a setting. The message
    says what to do."""


@dataclass(frozen=True)
class Serving:
    """One choice of what is served.

    `model` is the name on the routes onnx-*, `accelerated` on trt-* (None: no accelerated model). `images`: the model
    takes photos, so its artefacts have what the photo routes need. `models` are all models that Triton must hold.
    `declared` is what the environment asked for when this was chosen. `swapped`: scripts/swap has chosen it since.
    """

    model: str
    accelerated: str | None
    images: bool
    models: tuple[str, ...]
    declared: dict[str, str] = field(default_factory=dict)
    swapped: bool = False

    @classmethod
    def load(cls, artifacts: Path = ARTIFACTS, name: str = NAME) -> "Serving":
        """Read `artifacts`/serving.json. Raises ServingError."""
        path = artifacts / name
        try:
            data: dict[str, Any] = json.loads(path.read_text())
            if (schema := data.pop("schema")) != SCHEMA:
                raise ValueError(f"schema {schema}, wanted {SCHEMA}")
            return cls(**data | {"models": tuple(data["models"])})
        except FileNotFoundError:
            raise ServingError(f"{path} is absent: run the `models` service") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ServingError(f"{path} cannot be read ({error}): run the `models` service again") from error

    def write(self, artifacts: Path, name: str = NAME) -> None:
        """Replace the file in one step: a reader sees the old one or the new one."""
        draft = artifacts / f".{name}"
        draft.write_text(json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1) + "\n")
        draft.replace(artifacts / name)

    @property
    def no_photos(self) -> str:
        """The error of a photo route while `images` is false."""
        return (
            f"model not available on this route: {self.model} takes no photos, "
            f"ask it at /v2/models/{self.model}/infer or by inference.GRPCInferenceService"
        )


def followed(serving: Serving) -> None:
    """Tell scripts/swap that this server serves it."""
    FOLLOWED.write_text(serving.model)
