"""Which upstream a call wants, and whether that upstream answers."""

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from gateways.core.answer import Prediction
from gateways.core.errors import ServeError, Status
from gateways.core.health import PHOTO
from gateways.core.manifest import Manifest
from gateways.core.serving import Serving
from gateways.core.timing import Stages
from gateways.upstreams.torchserve import TorchServe
from gateways.upstreams.triton import Triton

log = logging.getLogger(__name__)

Upstream = TorchServe | Triton

DEFAULT = TorchServe.name
NAMES = (DEFAULT, Triton.name)

# A failing upstream is asked again soon; an idle healthy one rarely, because each question is a real inference.
PROBE_EVERY_S = 10.0
RETRY_EVERY_S = 1.0
# Long, because a probe may wait behind a client's batch of 32: busy is not dead.
PROBE_TIMEOUT_S = 20.0

Report = Callable[[str, bool], Awaitable[None]]
"""Told the name of an upstream and whether it answers."""


@dataclass
class Watched:
    """An upstream and what its last calls said about its health."""

    upstream: Upstream
    successes: int = 0
    suspect: asyncio.Event = field(default_factory=asyncio.Event)

    async def predict(
        self, jpegs: Sequence[bytes], *, stages: Stages, timeout: float | None, top_k: int
    ) -> list[Prediction]:
        """Predict, and remember how it went: a call of a client is as good a probe as ours."""
        try:
            predictions = await self.upstream.predict(jpegs, stages=stages, timeout=timeout, top_k=top_k)
        except Exception as error:
            if not isinstance(error, ServeError) or error.status is Status.UNAVAILABLE:
                self.suspect.set()
            raise
        self.successes += 1
        return predictions

    async def answered_once(self) -> None:
        """One real prediction. Raises ServeError where there is none."""
        await self.predict([PHOTO], stages=Stages(), timeout=PROBE_TIMEOUT_S, top_k=1)

    async def watch(self, report: Report) -> None:
        """Report it as serving only while predictions succeed; never returns.

        While clients' calls succeed they are the proof, here or at the server itself, and no probe is sent: it would
        be in somebody's measurement.
        """
        name = self.upstream.name
        serving, seen = False, math.nan
        while True:
            answered, failure = await self._answered(), None
            if self.suspect.is_set() or not answered > seen:
                try:
                    await self.answered_once()
                except Exception as error:
                    failure = error
                answered = await self._answered()  # our own answer proves nothing the next time
            self.suspect.clear()
            seen = answered
            if serving is not (failure is None):
                serving = failure is None
                log.info("%s: %s", name, "serving" if serving else f"not serving: {failure!r}")
                await report(name, serving)
            if serving:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.suspect.wait(), PROBE_EVERY_S)
            else:
                await asyncio.sleep(RETRY_EVERY_S)

    async def _answered(self) -> float:
        """How much was answered, here and at the server itself; NaN, which is not more than anything, if unknown."""
        return self.successes + await self.upstream.answered()


class Served:
    """What is served, and the upstreams that answer it: none while the model takes no photos."""

    def __init__(
        self, report: Report, serving: Serving, manifest: Manifest | None = None, upstreams: Iterable[Upstream] = ()
    ) -> None:
        self.serving = serving
        self.manifest = manifest
        self.upstreams: Mapping[str, Watched] = {one.name: Watched(one) for one in upstreams}
        self._report = report
        self._watchers: list[asyncio.Task[None]] = []

    def choose(self, name: str | None) -> Watched:
        """The upstream that metadata `x-backend` names. Raises ServeError for an unknown one, or if there is none."""
        if not self.upstreams:
            raise ServeError(Status.NOT_FOUND, self.serving.no_photos)
        try:
            return self.upstreams[name or DEFAULT]
        except KeyError:
            choices = " or ".join(sorted(self.upstreams))
            raise ServeError(
                Status.INVALID, f"x-backend is {name!r}: send {choices}, or leave it out for {DEFAULT}"
            ) from None

    async def ready(self, old: Self | None) -> None:
        """Report its upstreams from now on; without any, healthy means that this gateway can say so.

        An `old` one is reported until the new model has answered here.
        """
        if old:
            try:
                for one in self.upstreams.values():
                    await one.answered_once()
            except Exception:
                await self.close()
                raise
            old.unwatch()
        if not self.upstreams:
            for name in NAMES:
                await self._report(name, True)
        self._watchers = [asyncio.create_task(one.watch(self._report)) for one in self.upstreams.values()]

    def unwatch(self) -> None:
        for watcher in self._watchers:
            watcher.cancel()

    async def close(self) -> None:
        self.unwatch()
        for one in self.upstreams.values():
            await one.upstream.close()
