"""Concurrent calls that stand or fall together."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any


async def together[T](calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in order. The first failure cancels the rest and is raised itself, not inside an ExceptionGroup."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
