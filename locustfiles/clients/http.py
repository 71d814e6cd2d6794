"""HTTP/1.1 on a gevent socket with geventhttpclient's C parser: the parts of Locust's FastHttpUser without its session.

FastHttpUser's session costs about as much CPU as the request itself (docs/decisions/0006-the-http-load-client.md).
"""

import time
from collections.abc import Mapping

import gevent
import gevent.socket
from geventhttpclient.response import HTTPConnectionClosed, HTTPParseError, HTTPSocketResponse

from locustfiles.clients import Answer, CallError, Endpoint, Payload
from locustfiles.clients.sockets import connect

BLOCK = 64 * 1024
IDLE_S = 1.0


class HttpClient:
    """One keep-alive connection."""

    def __init__(self, to: Endpoint) -> None:
        self._to = to
        common = {"host": to.host, "user-agent": "fiveway", **to.headers}
        self._head = f"{to.method} {to.path} HTTP/1.1\r\n{_lines(common)}"
        self._socket: gevent.socket.socket | None = None
        self._used_s = 0.0

    def send(self, payload: Payload) -> Answer:
        head = f"{self._head}{_lines(payload.headers)}content-length: {len(payload.body)}\r\n\r\n".encode("latin-1")
        try:
            with gevent.Timeout(self._to.deadline_s):
                response, body = self._exchange(head, payload.body)
        except gevent.Timeout:
            self.close()
            raise CallError(f"HTTP timeout: no answer in {self._to.deadline_s:g} s") from None
        except (OSError, HTTPConnectionClosed, HTTPParseError) as error:
            self.close()
            raise CallError(f"HTTP connection: {error}") from error
        except BaseException:  # the user is being stopped in the middle of an answer
            self.close()
            raise
        if response.should_close():
            self.close()
        if response.status_code != 200:
            raise CallError(f"HTTP {response.status_code}: {body[:200].decode(errors='replace').strip()}")
        return Answer(body, response.info())

    def _exchange(self, head: bytes, body: bytes) -> tuple[HTTPSocketResponse, bytes]:
        """A server may close a connection that idled, as they do after 5 s and more, also just as a call comes. A
        client then opens another, within its call (RFC 9112, section 9.3.1)."""
        idled = self._socket is not None and time.monotonic() - self._used_s >= IDLE_S
        try:
            return self._ask(head, body)
        except (OSError, HTTPConnectionClosed):
            if not idled:
                raise
            self.close()
            return self._ask(head, body)

    def _ask(self, head: bytes, body: bytes) -> tuple[HTTPSocketResponse, bytes]:
        if self._socket is None:
            self._to.on_connect()
            self._socket = connect(self._to.address)
        if len(body) < BLOCK:  # one segment for both; a tensor is not worth the copy
            self._socket.sendall(head + body)
        else:
            self._socket.sendall(head)
            self._socket.sendall(body)
        response = HTTPSocketResponse(self._socket, block_size=BLOCK, method=self._to.method)
        whole = bytes(response.read())
        self._used_s = time.monotonic()
        return response, whole

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _lines(headers: Mapping[str, str]) -> str:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items())
