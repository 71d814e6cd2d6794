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
from gateways.core.waiting import Line
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
"""Called with the name of an upstream and whether it answers."""


@dataclass
class Watched:
    """An upstream, and its health by its last calls."""

    upstream: Upstream
    line: Line = field(default_factory=Line)
    """Where clients' calls stand. A probe does not: one that is refused because many wait would call busy dead."""
    successes: int = 0
    suspect: asyncio.Event = field(default_factory=asyncio.Event)

    async def predict(
        self, jpegs: Sequence[bytes], *, stages: Stages, timeout: float | None, top_k: int
    ) -> list[Prediction]:
        """Predict, and remember whether it succeeded: a client's call says as much about health as a probe."""
        try:
            predictions = await self.upstream.predict(jpegs, stages=stages, timeout=timeout, top_k=top_k)
        except Exception as error:
            if not isinstance(error, ServeError) or error.status is Status.UNAVAILABLE:
                self.suspect.set()
            raise
        self.successes += 1
        return predictions

    async def answered_once(self) -> None:
        """Make one real prediction. Raises ServeError if it fails."""
        await self.predict([PHOTO], stages=Stages(), timeout=PROBE_TIMEOUT_S, top_k=1)

    async def watch(self, report: Report) -> None:
        """Report it as serving only while predictions succeed; never returns.

        While clients' calls succeed, here or at the server itself, they prove it, and no probe is sent: a probe would
        disturb a measurement.
        """
        name = self.upstream.name
        # Nothing is reported yet: what is there may be the health of the model before.
        serving: bool | None = None
        seen = math.nan
        while True:
            answered, failure = await self._answered(), None
            if self.suspect.is_set() or not answered > seen:
                try:
                    await self.answered_once()
                except Exception as error:
                    failure = error
                answered = await self._answered()  # a probe's own answer must not count as a client's the next time
            self.suspect.clear()
            seen = answered
            if serving != (failure is None):
                serving = failure is None
                log.info("%s: %s", name, "serving" if serving else f"not serving: {failure!r}")
                await report(name, serving)
            if serving:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.suspect.wait(), PROBE_EVERY_S)
            else:
                await asyncio.sleep(RETRY_EVERY_S)

    async def _answered(self) -> float:
        """The number of answers, here and at the server itself. NaN if it is unknown: NaN is not greater than any
        number."""
        return self.successes + await self.upstream.answered()


class Served:
    """What is served, and its upstreams. There are none while the model takes no photos."""

    def __init__(
        self, report: Report, serving: Serving, manifest: Manifest | None = None, upstreams: Iterable[Upstream] = ()
    ) -> None:
        self.serving = serving
        self.manifest = manifest
        self.upstreams: Mapping[str, Watched] = {one.name: Watched(one) for one in upstreams}
        self._report = report
        self._watchers: list[asyncio.Task[None]] = []

    def choose(self, name: str | None) -> Watched:
        """The upstream that metadata `x-backend` names. Raises ServeError for an unknown name, or while there are no
        upstreams."""
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
        """Report the health of its upstreams from now on. Without upstreams the gateway is healthy if it runs. The
        `old` model's health is reported until the new model has answered here.
        """
        if old:
            for one in self.upstreams.values():
                await one.answered_once()
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
