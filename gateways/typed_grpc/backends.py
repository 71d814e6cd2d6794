"""Which backend a call wants, and whether that backend answers."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gateways.core.answer import Prediction
from gateways.core.errors import ServeError, Status
from gateways.core.health import PHOTO
from gateways.core.manifest import Manifest
from gateways.core.serving import Serving
from gateways.core.timing import Stages

log = logging.getLogger(__name__)

DEFAULT = "torchserve"

# A failing backend is asked again soon; an idle healthy one rarely, because each question is a real inference.
PROBE_EVERY_S = 10.0
RETRY_EVERY_S = 1.0
# Long, because a probe may wait behind a client's batch of 32: busy is not dead.
PROBE_TIMEOUT_S = 20.0
DRAIN_S = 60.0


class Predictor(Protocol):
    """gateways.core.predict.Predictor that also picks the number of classes, at most `max_top_k` (None: all)."""

    @property
    def name(self) -> str: ...

    @property
    def max_top_k(self) -> int | None: ...

    async def answered(self) -> int | None:
        """How many requests the server behind has answered so far, whoever asked; None where it does not say."""
        ...

    async def predict(
        self, jpegs: Sequence[bytes], *, stages: Stages, timeout: float | None, top_k: int
    ) -> list[Prediction]: ...

    async def close(self) -> None: ...


@dataclass
class Backend:
    """A predictor and what its last calls said about its health."""

    predictor: Predictor
    successes: int = 0
    suspect: asyncio.Event = field(default_factory=asyncio.Event)

    async def predict(
        self, jpegs: Sequence[bytes], *, stages: Stages, timeout: float | None, top_k: int
    ) -> list[Prediction]:
        """Predict, and remember how it went: a call of a client is as good a probe as ours."""
        try:
            predictions = await self.predictor.predict(jpegs, stages=stages, timeout=timeout, top_k=top_k)
        except ServeError as error:
            if error.status is Status.UNAVAILABLE:
                self.suspect.set()
            raise
        except Exception:
            self.suspect.set()
            raise
        self.successes += 1
        return predictions


@dataclass(eq=False)
class Served:
    """What is served, and the backends that answer it: none while the model takes no photos."""

    serving: Serving
    manifest: Manifest | None = None
    backends: Mapping[str, Backend] = field(default_factory=dict)
    at_work: int = 0
    """Calls that began with this model: they end with it."""

    async def drained(self) -> None:
        """Wait until its last call has ended, DRAIN_S at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                while self.at_work:
                    await asyncio.sleep(0.05)

    async def close(self) -> None:
        for backend in self.backends.values():
            await backend.predictor.close()


def choose(served: Served, name: str | None) -> Backend:
    """The backend that metadata `x-backend` names. Raises ServeError for an unknown one, and where there is none."""
    if not served.backends:
        raise ServeError(Status.NOT_FOUND, served.serving.no_photos)
    try:
        return served.backends[name or DEFAULT]
    except KeyError:
        choices = " or ".join(sorted(served.backends))
        raise ServeError(
            Status.INVALID, f"x-backend is {name!r}: send {choices}, or leave it out for {DEFAULT}"
        ) from None


async def watch(backend: Backend, report: Callable[[str, bool], Awaitable[None]]) -> None:
    """Report the backend as serving only while predictions succeed; never returns.

    While clients' calls succeed they are the proof, here or at the server itself, and no probe is sent: it would be in
    somebody's measurement.
    """
    name = backend.predictor.name
    serving = False
    seen = 0
    answered: int | None = None
    while True:
        now = await backend.predictor.answered()
        moved = now is not None and answered is not None and now > answered
        if (backend.successes > seen or moved) and not backend.suspect.is_set():
            failure = None
            answered = now
        else:
            failure = await _probe(backend)
            answered = await backend.predictor.answered()  # our own answer proves nothing the next time
        backend.suspect.clear()
        seen = backend.successes
        if serving is not (failure is None):
            serving = failure is None
            log.info("%s: %s", name, "serving" if serving else f"not serving: {failure}")
            await report(name, serving)
        if serving:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(backend.suspect.wait(), PROBE_EVERY_S)
        else:
            await asyncio.sleep(RETRY_EVERY_S)


async def answered_once(backend: Backend) -> None:
    """One real prediction. Raises ServeError where there is none."""
    await backend.predict([PHOTO], stages=Stages(), timeout=PROBE_TIMEOUT_S, top_k=1)


async def _probe(backend: Backend) -> str | None:
    """None when a prediction was answered, else why it was not."""
    try:
        await answered_once(backend)
    except ServeError as error:
        return error.message
    except Exception as error:
        return repr(error)
    return None
