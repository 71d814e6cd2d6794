"""What both servers answer, whatever the protocol: computed from the request alone, the same every time.

Answers are made once and encoded for every request: what a call costs is its transport and its encoding.
"""

import random
import zlib
from collections.abc import Sequence
from functools import cache, lru_cache

from fiveway.transport.v1 import distance_pb2 as pb

from gateways.core.errors import ServeError, Status

MAX_ENTRIES = 1_000
MAX_VECTORS = 100_000

_ENTRIES = tuple((f"entry {n}", 1 / (n + 1)) for n in range(MAX_ENTRIES))


def entries(count: int) -> Sequence[tuple[str, float]]:
    """Label and score of the first `count` entries."""
    if not 0 <= count <= MAX_ENTRIES:
        raise ServeError(Status.INVALID, f"entries is {count}: send 0 to {MAX_ENTRIES}")
    return _ENTRIES[:count]


def received(image: bytes) -> tuple[int, int]:
    """Length and CRC-32 of an image: they tell whether all of it arrived."""
    if not image:
        raise ServeError(Status.INVALID, "the image is empty: send at least one byte")
    return len(image), zlib.crc32(image)


@cache
def coordinates() -> Sequence[Sequence[float]]:
    """Every vector as six numbers above 0 and below 1: start x, y, z and end x, y, z."""
    numbers = random.Random(0)
    return [[1 - numbers.random() for _ in range(6)] for _ in range(MAX_VECTORS)]


def check_vectors(count: int) -> int:
    """`count`, if that many vectors can be answered."""
    if not 1 <= count <= MAX_VECTORS:
        raise ServeError(Status.INVALID, f"count is {count}: send 1 to {MAX_VECTORS}")
    return count


@lru_cache(maxsize=4)
def vector_list(count: int) -> pb.ListVectorsResponse:
    """The first `count` vectors in one message."""
    return pb.ListVectorsResponse(vectors=_messages(0, check_vectors(count)))


@lru_cache(maxsize=4)
def vector_stream(count: int, per_message: int) -> Sequence[pb.StreamVectorsResponse]:
    """The same in messages of `per_message` vectors."""
    starts = range(0, check_vectors(count), per_message)
    return [pb.StreamVectorsResponse(vectors=_messages(start, min(start + per_message, count))) for start in starts]


def _messages(start: int, end: int) -> list[pb.Vector]:
    return [
        pb.Vector(start=pb.Point(x=a, y=b, z=c), end=pb.Point(x=d, y=e, z=f))
        for a, b, c, d, e, f in coordinates()[start:end]
    ]
