"""A server that follows what is served changes models between two requests: each request is answered by the model with
which it began.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, NoReturn, Protocol, TypeVar
from weakref import WeakKeyDictionary

from gateways.core.serving import NAME, Serving, followed

POLL_S = 1.0
RETRY_S = 5.0
DRAIN_S = 60.0

log = logging.getLogger(__name__)


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
