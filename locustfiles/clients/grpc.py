"""Unary gRPC on a connection of its own, bytes in and bytes out: as light as the HTTP client beside it.

grpcio takes about twice the CPU for a call with a tensor (docs/decisions/0015-the-grpc-load-client.md). Calls that need
it use grpcio.py. The protocol: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
"""

import struct
from collections.abc import Mapping, Sequence
from urllib.parse import unquote

import gevent
from gevent.lock import BoundedSemaphore
from grpc import StatusCode
from h2.errors import ErrorCodes

from locustfiles.clients import Answer, CallError, Endpoint, Payload, joined
from locustfiles.clients.http2 import FRAME, Connection, StreamReset

NAMES: Mapping[str, str] = {str(status.value[0]): status.name for status in StatusCode}
"""Of the statuses, by their codes on the wire."""
OF_HTTP: Mapping[int, str] = {
    **{400: "INTERNAL", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "UNIMPLEMENTED"},
    **dict.fromkeys((429, 502, 503, 504), "UNAVAILABLE"),
}
"""gRPC status of an answer without one, by HTTP status; else UNKNOWN (doc/http-grpc-status-mapping.md in that
repository)."""
OF_RESET: Mapping[int, str] = {
    ErrorCodes.REFUSED_STREAM: "UNAVAILABLE",
    ErrorCodes.CANCEL: "CANCELLED",
    ErrorCodes.ENHANCE_YOUR_CALM: "RESOURCE_EXHAUSTED",
    ErrorCodes.INADEQUATE_SECURITY: "PERMISSION_DENIED",
}
"""gRPC status of a reset stream, by HTTP/2 error code; else INTERNAL."""

_PREFIX = struct.Struct(">?I")
"""The prefix of each message: whether it is compressed, and its length in bytes."""


class GrpcClient:
    """One connection. Calls at the same time are streams on it."""

    def __init__(self, to: Endpoint) -> None:
        self._to = to
        self._headers = [
            (":method", "POST"),
            (":scheme", "https" if to.tls else "http"),
            (":path", to.path),
            (":authority", to.host),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("user-agent", "fiveway"),
            ("grpc-timeout", f"{round(to.deadline_s * 1000)}m"),
            *to.headers.items(),
        ]
        self._connection: Connection | None = None
        self._connecting = BoundedSemaphore()

    def send(self, payload: Payload) -> Answer:
        # The message's head goes into the first frame; the rest of a tensor is not copied.
        first = _PREFIX.pack(False, len(payload.body)) + payload.body[: FRAME - _PREFIX.size]
        pieces = [memoryview(first)]
        if len(payload.body) > FRAME - _PREFIX.size:
            pieces.append(memoryview(payload.body)[FRAME - _PREFIX.size :])
        try:
            with gevent.Timeout(self._to.deadline_s):
                headers, body = self._connected().exchange(pieces)
        except gevent.Timeout:
            raise CallError(f"DEADLINE_EXCEEDED: no answer in {self._to.deadline_s:g} s") from None
        except StreamReset as error:
            raise CallError(f"{OF_RESET.get(error.code, 'INTERNAL')}: the server reset the call: {error}") from error
        except OSError as error:
            raise CallError(f"UNAVAILABLE: {error}") from error
        return _answer(headers, body)

    def close(self) -> None:
        if self._connection:
            self._connection.close()

    def _connected(self) -> Connection:
        with self._connecting:
            if not self._connection or not self._connection.usable:
                self._to.on_connect()
                self._connection = Connection(self._to.address, self._headers)
            return self._connection


def _answer(headers: Sequence[tuple[bytes, bytes]], body: bytes) -> Answer:
    """The answer's one message, with its metadata, leading and trailing. Raises CallError."""
    found = joined((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)
    code = found.get("grpc-status")
    if code is None:
        http = int(found.get(":status", 0))
        raise CallError(f"{OF_HTTP.get(http, 'UNKNOWN')}: HTTP {http} without a gRPC status")
    if code != "0":
        raise CallError(f"{NAMES.get(code, 'UNKNOWN')}: {unquote(found.get('grpc-message', ''))[:200]}")
    if len(body) < _PREFIX.size or _PREFIX.unpack_from(body) != (False, len(body) - _PREFIX.size):
        raise CallError(f"INTERNAL: {len(body)} bytes that are not one message without compression")
    return Answer(body[_PREFIX.size :], found)
