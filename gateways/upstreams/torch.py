"""The model in this process, off the event loop.

Photos from many callers wait in one queue, and whatever computes takes of it when it is free (torchscript.py). No delay
is added. The event loop owns the queue, so there are no locks: a thread only ever sees photos.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from gateways.core.answer import Prediction
from gateways.core.errors import ServeError, Status, told
from gateways.core.image import check_count
from gateways.core.manifest import Manifest
from gateways.core.timing import Stages
from gateways.core.waiting import Line
from gateways.upstreams.calls import tensors
from gateways.upstreams.torchscript import Answers, Model, Photo, joined, pick_device

MAX_WAITING = 512
"""Photos in progress at once: a bound on memory. On a slow machine gateways.core.waiting lets fewer wait."""

log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Work:
    """One request: its photos, the future that its caller awaits, and how far it is."""

    photos: Sequence[Photo]
    answer: asyncio.Future[Answers]
    taken: int = 0
    """Photos that left the queue."""
    started_at: float = 0.0
    parts: dict[int, Answers] = field(default_factory=dict)
    """By the index of their first photo."""


_Share = list[tuple[_Work, range]]
"""Photos that are computed together, of one or more requests."""


class TorchPredictor:
    """An upstream in this process: a Model. Use as `async with TorchPredictor(manifest) as predictor`."""

    def __init__(self, manifest: Manifest, told_batch: Callable[[int], object] = lambda _: None) -> None:
        """`told_batch` is told how many photos are answered together. Raises ServingError if the device is absent."""
        self.manifest = manifest
        self.last_answer = float("-inf")
        """When the model last answered, on time.monotonic's clock."""
        self.device = pick_device()
        self._queue: dict[_Work, None] = {}  # ordered, and a cancelled request leaves it in O(1)
        self._busy = 0  # of what the model computes at once
        self._line = Line()
        self._told_batch = told_batch
        self._model: Model | None = None

    @property
    def engine(self) -> Mapping[str, str | int | None]:
        """What computes here, once the model is loaded."""
        assert self._model
        return self._model.engine

    @property
    def pending(self) -> int:
        """The photos in progress."""
        return self._line.images

    async def __aenter__(self) -> Self:
        """Load the model, which answers then: a predictor that entered has worked."""
        self._model = await asyncio.to_thread(Model, self.manifest.directory / "model.pt", self.manifest, self.device)
        self.last_answer = time.monotonic()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._queue.clear()
        if self._model:
            self._model.close()

    async def predict(self, jpegs: Sequence[bytes], *, stages: Stages, timeout: float | None) -> list[Prediction]:
        """See gateways.upstreams. OVERLOADED when MAX_WAITING photos are in progress already, or it would wait too
        long (gateways.core.waiting)."""
        check_count(len(jpegs))
        if self.pending + len(jpegs) > MAX_WAITING:
            raise ServeError(Status.OVERLOADED, f"{self.pending} images are waiting: send this again in a second")
        try:
            with self._line.join(len(jpegs), timeout):
                async with asyncio.timeout(timeout):
                    return await self._enqueue(await self._photos(jpegs, stages), stages)
        except TimeoutError:
            raise ServeError(Status.TIMEOUT, f"no answer within {timeout} s: send fewer images at once") from None

    async def _photos(self, jpegs: Sequence[bytes], stages: Stages) -> list[Photo]:
        """Each is decoded by the thread that computes it; or before, so that a GPU does not wait for it."""
        names = [f"images[{i}]" for i in range(len(jpegs))] if len(jpegs) > 1 else ["image"]
        preprocess = self.manifest.preprocess
        assert self._model
        if not self._model.decoders:
            decode = partial(preprocess.tensor, channels_last=True)
            return [partial(decode, jpeg, name=name) for jpeg, name in zip(jpegs, names, strict=True)]
        with stages.stage("preprocess"):
            return [*await tensors(self._model.decoders, preprocess, jpegs, names)]

    async def _enqueue(self, photos: Sequence[Photo], stages: Stages) -> list[Prediction]:
        """Raises the ServeError of the first photo that has one."""
        queued_at = time.perf_counter()
        work = _Work(photos, asyncio.get_running_loop().create_future())
        self._queue[work] = None
        self._dispatch()
        try:
            answers = await work.answer
        finally:
            self._queue.pop(work, None)
        stages.add("queue", (work.started_at - queued_at) * 1e3)
        stages.add("preprocess", answers.preprocess_s * 1e3)
        found = list[Prediction]()
        for one in answers.found:
            if isinstance(one, ServeError):
                raise one
            found.append(one)
        stages.add("compute", answers.compute_s * 1e3)
        return found

    def _dispatch(self) -> None:
        """Give the model as much of what waits as it can compute now."""
        assert self._model
        model = self._model
        while self._queue and self._busy < model.at_once:
            waiting = sum(len(work.photos) - work.taken for work in self._queue)
            alone = waiting == 1 and not self._busy
            share = self._take(min(model.most, math.ceil(waiting / model.at_once)))
            photos = [photo for work, part in share for photo in work.photos[part.start : part.stop]]
            room = model.at_once if alone else 1
            self._busy += room
            asyncio.wrap_future(model.submit(photos, alone=alone)).add_done_callback(partial(self._answer, share, room))

    def _take(self, most: int) -> _Share:
        """The oldest photos, out of the queue."""
        share = _Share()
        while most and self._queue:
            work = next(iter(self._queue))
            part = range(work.taken, min(len(work.photos), work.taken + most))
            share.append((work, part))
            if not work.taken:
                work.started_at = time.perf_counter()
            work.taken = part.stop
            most -= len(part)
            if work.taken == len(work.photos):
                del self._queue[work]
        return share

    def _answer(self, share: _Share, room: int, job: asyncio.Future[Answers]) -> None:
        """Tell those who asked, and go on with what waits."""
        self._busy -= room
        if job.cancelled():  # the model is closed
            return
        if error := job.exception():
            failure = told(error, log, f"{sum(len(part) for _, part in share)} photos failed")
            for work, _ in share:
                self._queue.pop(work, None)
                if not work.answer.done():
                    work.answer.set_exception(failure)
        else:
            answers, now = job.result(), time.perf_counter()
            if computed := sum(isinstance(one, Prediction) for one in answers.found):
                self.last_answer = time.monotonic()
                self._told_batch(computed)
            at = 0
            for work, part in share:
                found = answers.found[at : at + len(part)]
                at += len(part)
                work.parts[part.start] = answers._replace(found=found)
                if any(isinstance(one, ServeError) for one in found):
                    self._queue.pop(work, None)  # those before it are taken already
                done = sum(len(one.found) for one in work.parts.values())
                if work not in self._queue and done == work.taken and not work.answer.done():
                    parts = [one for _, one in sorted(work.parts.items())]
                    work.answer.set_result(joined(parts, now - work.started_at))
        self._dispatch()
