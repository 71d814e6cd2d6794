"""gRPC with grpcio, the client of the published comparisons. With gevent its users take turns in a process.

Import this after gevent has patched the standard library (importing `locust` does). Without `init_gevent` nothing
fails, but users run one at a time and latencies look better than they are. `locustfiles.overlap` checks that they
overlap.
"""

import math
import queue
import time
from collections import UserDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import gevent
import grpc
import grpc.experimental.gevent
from gevent import monkey
from gevent.threadpool import ThreadPool

from locustfiles.clients import ANSWERS, BOTH, UNARY, Answer, CallError, Endpoint, Payload, joined
from locustfiles.clients.channels import channel

if not monkey.is_module_patched("threading"):
    raise RuntimeError("import locust (or gevent's monkey patch) before locustfiles.clients.grpcio")

WAITING = 64
"""The most calls and open streams of a process that can wait at once. Each holds a thread of gevent's pool. With its
default of 10, an eleventh call waits for another's answer, and streams that wait for each other wait forever."""


class Waits(ThreadPool):
    """grpcio's waiting takes place in threads, so that the other users of the process can run."""

    here = False
    """The process itself waits: no other user runs meanwhile."""

    def apply(self, func: Any, args: Any = None, kwds: Any = None) -> Any:
        return func(*(args or ()), **(kwds or {})) if self.here else super().apply(func, args, kwds)


waits = gevent.get_hub().threadpool = Waits(WAITING)
grpc.experimental.gevent.init_gevent()

alone = False
"""Set in a process with one user: its unary calls wait without a thread, which would add a tenth of a millisecond."""
LONG_S = 0.1
"""Calls that take longer wait in a thread all the same: the process must hear its master in between."""
last_s = math.inf
"""What the last one took."""


@contextmanager
def waiting() -> Iterator[None]:
    """Around a unary call: where a user is alone, it waits without a thread, unless calls are long."""
    global last_s
    waits.here = alone and last_s < LONG_S
    begin = time.perf_counter()
    try:
        yield
    finally:
        waits.here = False
        last_s = time.perf_counter() - begin


OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # A failed call is a result: a retry would hide it.
    ("grpc.enable_retries", 0),
)


class GrpcioClient:
    """One channel for unary calls.

    Channels with the same target share one TCP connection unless told otherwise: `own_connection` tells them. `options`
    are arguments of the channel besides OPTIONS.
    """

    _kind = "unary_unary"
    """The method of grpc.Channel for this kind of call."""

    def __init__(self, to: Endpoint, *, own_connection: bool = True, options: Sequence[tuple[str, int]] = ()) -> None:
        every = (*OPTIONS, ("grpc.use_local_subchannel_pool", int(own_connection)), *options)
        self._to = to
        self._channel = channel(to, every)
        self._metadata = tuple(to.headers.items())
        # No serializers: bytes go in and come out, so no protobuf work is on the clock.
        self._call = getattr(self._channel, self._kind)(to.path)
        self._connects = True  # with its first call

    def send(self, payload: Payload) -> Answer:
        if self._connects:
            self._to.on_connect()
            self._connects = False
        try:
            return self._exchange(payload.body)
        except grpc.RpcError as error:
            raise CallError(f"{error.code().name}: {(error.details() or '')[:200]}") from error

    def close(self) -> None:
        self._channel.close()

    def _exchange(self, body: bytes) -> Answer:
        with waiting():
            answer, call = self._call.with_call(body, timeout=self._to.deadline_s, metadata=self._metadata)
        return Answer(answer, Metadata(call))


class AnswersClient(GrpcioClient):
    """A stream of answers to each request. The answer's body is all of them in a row: one message, as protobuf joins
    messages, whose repeated fields have what all of theirs have.
    """

    _kind = "unary_stream"

    def _exchange(self, body: bytes) -> Answer:
        call = self._call(body, timeout=self._to.deadline_s, metadata=self._metadata)
        return Answer(b"".join(call), Metadata(call))


class StreamClient(GrpcioClient):
    """One stream that stays open: every request is a message on it, and the next message is its answer."""

    _kind = "stream_stream"
    _requests: "queue.SimpleQueue[bytes | None] | None" = None

    def _exchange(self, body: bytes) -> Answer:
        if self._requests is None:
            self._requests = queue.SimpleQueue()
            # No deadline: it would end the stream, not a call.
            self._answers = self._call(iter(self._requests.get, None), metadata=self._metadata)
        self._requests.put(body)
        try:
            return Answer(next(self._answers))
        except StopIteration:
            raise CallError("CANCELLED: the server ended the stream") from None
        except BaseException:
            self._requests = None  # the next call opens another
            raise

    def close(self) -> None:
        if self._requests is not None:
            self._requests.put(None)
        super().close()


CLIENTS: Mapping[str, type[GrpcioClient]] = {UNARY: GrpcioClient, ANSWERS: AnswersClient, BOTH: StreamClient}
"""By how many messages a call has."""


class Metadata(UserDict[str, str]):
    """The metadata of an answer, leading and trailing. It is read on first use, outside of the clock."""

    def __init__(self, call: grpc.Call) -> None:
        self._call = call

    @cached_property
    def data(self) -> dict[str, str]:  # type: ignore[override]
        both = (*(self._call.initial_metadata() or ()), *(self._call.trailing_metadata() or ()))
        return joined((name, value) for name, value in both if isinstance(value, str))
