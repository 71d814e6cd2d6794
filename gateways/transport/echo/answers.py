"""The answers of both servers, the same for every protocol and every time. Answers are made once, and encoded for every
request: so a call's cost is its transport and its encoding.
"""

import random
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from itertools import batched
from typing import Any

from fiveway.transport.v1 import distance_pb2 as pb

from gateways.core.errors import ServeError, Status

MAX_ENTRIES = 1_000
MAX_VECTORS = 100_000

_ENTRIES = tuple((f"entry {n}", 1 / (n + 1)) for n in range(MAX_ENTRIES))


def structured[A](asked: Any, entry: Callable[..., Any], answer: Callable[..., A]) -> A:
    """The request's own fields, and the entries that it asked for."""
    found = _entries(asked.entries, entry)
    return answer(name=asked.name, text=asked.text, entries=found, attributes=asked.attributes)


def received[A](image: bytes, entries: int, entry: Callable[..., Any], answer: Callable[..., A]) -> A:
    """Length and CRC-32 of an image, which tell whether all of it arrived, and so many entries."""
    found = _entries(entries, entry)
    if not image:
        raise ServeError(Status.INVALID, "the image is empty: send at least one byte")
    return answer(size_bytes=len(image), crc32=zlib.crc32(image), entries=found)


def _entries(count: int, entry: Callable[..., Any]) -> list[Any]:
    """The first `count` entries, each made of its label and score."""
    if not 0 <= count <= MAX_ENTRIES:
        raise ServeError(Status.INVALID, f"entries is {count}: send 0 to {MAX_ENTRIES}")
    return [entry(label=label, score=score) for label, score in _ENTRIES[:count]]


@cache
def coordinates() -> Sequence[Sequence[float]]:
    """Every vector as six numbers above 0 and below 1: start x, y, z and end x, y, z."""
    numbers = random.Random(0)
    return [[1 - numbers.random() for _ in range(6)] for _ in range(MAX_VECTORS)]


def rows(count: int) -> Sequence[Sequence[float]]:
    """The coordinates of the first `count` vectors."""
    if not 1 <= count <= MAX_VECTORS:
        raise ServeError(Status.INVALID, f"count is {count}: send 1 to {MAX_VECTORS}")
    return coordinates()[:count]


@lru_cache(maxsize=4)
def vector_list(count: int) -> pb.ListVectorsResponse:
    """The first `count` vectors in one message."""
    return pb.ListVectorsResponse(vectors=_messages(rows(count)))


@lru_cache(maxsize=4)
def vector_stream(count: int, per_message: int) -> Sequence[pb.StreamVectorsResponse]:
    """The same in messages of `per_message` vectors."""
    return [
        pb.StreamVectorsResponse(vectors=_messages(some)) for some in batched(rows(count), per_message, strict=False)
    ]


def _messages(rows: Iterable[Sequence[float]]) -> list[pb.Vector]:
    return [pb.Vector(start=pb.Point(x=a, y=b, z=c), end=pb.Point(x=d, y=e, z=f)) for a, b, c, d, e, f in rows]
