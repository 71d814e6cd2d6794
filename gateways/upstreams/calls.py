"""What upstreams share: photos decoded in threads, a time limit, and groups of calls that fail together."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from gateways.core.errors import ServeError, Status
from gateways.core.preprocess import Preprocess

LIMIT_S = 60.0


async def tensors(
    threads: Executor, preprocess: Preprocess, jpegs: Sequence[bytes], names: Iterable[str]
) -> npt.NDArray[np.float32]:
    """float32 [n, 3, H, W]. The first bad image fails the request, by its name; images not begun are dropped then, and
    when the caller is cancelled."""
    loop = asyncio.get_running_loop()
    jobs = [
        loop.run_in_executor(threads, partial(preprocess.tensor, jpeg, name=name))
        for jpeg, name in zip(jpegs, names, strict=True)
    ]
    try:
        return np.stack([await job for job in jobs])
    finally:
        for job in jobs:
            if not job.cancel() and not job.cancelled():
                job.exception()  # a second bad image: its exception is read, so that asyncio does not log it


async def together[T](calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order. The first failure cancels the rest and is raised itself, not inside an ExceptionGroup."""
    if len(calls) == 1:
        return [await calls[0]]  # a task of its own would cost it 0.1 ms
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


@asynccontextmanager
async def within(timeout: float | None, server: str) -> AsyncIterator[asyncio.Timeout]:
    """Cancel the body after LIMIT_S seconds, or `timeout` where that is less. Raises ServeError then."""
    limit = LIMIT_S if timeout is None else min(timeout, LIMIT_S)
    try:
        async with asyncio.timeout(limit) as running:
            yield running
    except TimeoutError:
        raise ServeError(
            Status.TIMEOUT, f"{server} did not answer within {limit:.3g} s: allow more time or send fewer images"
        ) from None


def not_loaded(server: str, model: str) -> ServeError:
    """The error for a model that is starting or stopping. UNAVAILABLE, not NOT_FOUND: our clients name no model, so
    they cannot correct it."""
    return ServeError(
        Status.UNAVAILABLE, f"{server} has not loaded {model!r}: try again in a few seconds, then see its log"
    )
