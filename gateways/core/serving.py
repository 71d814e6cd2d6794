"""What is served now: /artifacts/serving.json, written by the models service and scripts/swap, followed by the servers.

A server that follows the file changes models between two requests: each request is answered by the model with which it
began (Followed).

Standard library only: health checks read it every few seconds.
"""

import asyncio
import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, NoReturn, Protocol, TypeVar
from weakref import WeakKeyDictionary

ARTIFACTS = Path(os.environ.get("ARTIFACTS", "/artifacts"))
"""Where the artefacts are."""
SCHEMA = 1
NAME = "serving.json"
NEXT = "serving.next.json"
"""What a swap is about to serve."""
FOLLOWED = Path(os.environ.get("TMPDIR", "/tmp"), "serving")
"""The file in its container in which a server that follows says which model it serves."""
POLL_S = 1.0
RETRY_S = 5.0
DRAIN_S = 60.0

log = logging.getLogger(__name__)


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


class Answering(Protocol):
    """Answers requests for one choice of what is served. `ready` is called when it replaces `old`; it is closed after
    its last request."""

    serving: Serving

    async def ready(self, old: Any) -> None: ...

    async def close(self) -> None: ...


A = TypeVar("A", bound=Answering)


class Followed(Generic[A]):
    """Holds the Answering for serving.json, made by `make`. When the file changes, a new one is made beside the old
    one.

    Use as `async with`. A request ends with the one with which it began. The old one answers until the new one is
    ready.
    """

    def __init__(self, artifacts: Path, make: Callable[[Serving], A]) -> None:
        """Raises ServingError, and what `make` raises."""
        self._artifacts = artifacts
        self._make = make
        self.now = make(Serving.load(artifacts))
        self._at_work: WeakKeyDictionary[A, int] = WeakKeyDictionary()

    async def __aenter__(self) -> "Followed[A]":
        await self.now.ready(None)
        followed(self.now.serving)
        self._follower = asyncio.create_task(self._follow())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._follower.cancel()
        await self.now.close()

    @contextmanager
    def use(self) -> Iterator[A]:
        """The Answering for one request, until the request ends."""
        now = self.now
        self._at_work[now] = self._at_work.get(now, 0) + 1
        try:
            yield now
        finally:
            self._at_work[now] -= 1

    async def _follow(self) -> NoReturn:
        while True:
            await asyncio.sleep(POLL_S)
            try:
                found, now = Serving.load(self._artifacts), self.now.serving
                if (found.model, found.images) != (now.model, now.images):
                    await self._change_over(found)
            except Exception as error:  # the old model continues to be served
                log.error("cannot follow %s: the old model stays", NAME, exc_info=error)
                await asyncio.sleep(RETRY_S)

    async def _change_over(self, serving: Serving) -> None:
        new = self._make(serving)
        try:
            await new.ready(self.now)
        except BaseException:
            await new.close()  # it is made anew with the next try: its connections and threads would stay
            raise
        old, self.now = self.now, new
        try:
            async with asyncio.timeout(DRAIN_S):
                while self._at_work.get(old):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            log.warning("requests of the old model did not end within %g s", DRAIN_S)
        await old.close()
        followed(serving)
        log.info("serving %s", serving.model)
