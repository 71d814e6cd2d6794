"""What is served now: /artifacts/serving.json, written by the models service and scripts/swap, followed by the servers.

A server that follows changes over between two requests: each ends with the model that it began with (Users).

Standard library only: health checks read it every few seconds.
"""

import asyncio
import json
import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NoReturn

ARTIFACTS = Path(os.environ.get("ARTIFACTS", "/artifacts"))
"""Where the artefacts are."""
SCHEMA = 1
NAME = "serving.json"
NEXT = "serving.next.json"
"""What a swap is about to serve."""
FOLLOWED = Path(os.environ.get("TMPDIR", "/tmp"), "serving")
"""Where a server that follows says, inside its container, which model it serves."""
POLL_S = 1.0
RETRY_S = 5.0
DRAIN_S = 60.0

log = logging.getLogger(__name__)


class ServingError(RuntimeError):
    """Nothing says what is served, or its artefacts are absent or unusable. The message says what to do."""


@dataclass(frozen=True)
class Serving:
    """One choice of what is served.

    `model` is the name on the routes onnx-*, `accelerated` on trt-* (None: there is none). `images`: its artefacts hold
    what the photo routes need. `models` is all that Triton must hold. `declared` is what the environment asked for when
    this was chosen; `swapped`: scripts/swap chose it since.
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
        """What a photo route tells its clients while `images` is false."""
        return (
            f"model not available on this route: {self.model} takes no photos, "
            f"ask it at /v2/models/{self.model}/infer or by inference.GRPCInferenceService"
        )


async def follow(artifacts: Path, now: Serving, switch: Callable[[Serving], Awaitable[None]]) -> NoReturn:
    """Call `switch` whenever another model than `now` is to be served; until it succeeds, again every RETRY_S."""
    while True:
        await asyncio.sleep(POLL_S)
        try:
            found = Serving.load(artifacts)
            if (found.model, found.images) != (now.model, now.images):
                await switch(found)
                log.info("serving %s", found.model)
                now = found
        except Exception as error:  # what was served before goes on being served
            log.error("cannot follow %s: the old model stays", NAME, exc_info=error)
            await asyncio.sleep(RETRY_S)


class Users:
    """The requests that began with one model."""

    def __init__(self) -> None:
        self._count = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """For as long as one request lasts."""
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1

    async def gone(self) -> None:
        """Wait until the last one has ended, DRAIN_S at most."""
        try:
            async with asyncio.timeout(DRAIN_S):
                while self._count:
                    await asyncio.sleep(0.05)
        except TimeoutError:
            log.warning("requests of the old model did not end within %g s", DRAIN_S)


def followed(serving: Serving) -> None:
    """Tell scripts/swap that this server serves it."""
    FOLLOWED.write_text(serving.model)
