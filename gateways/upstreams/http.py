"""HTTP/1.1 to one server: a body there and an answer back, on connections that are kept.

No redirects, cookies, compression or proxies: no upstream needs them. aiohttp does all of them, and a call took 0.4 ms
of CPU time more with it (docs/decisions/0027-the-typed-gateways-own-time.md).
"""

import asyncio
from collections.abc import Iterable
from urllib.parse import urlsplit

import httptools

from gateways.core.serving import ServingError

# A server that is gone is said so at once: it is on this host. The lookup of its name is in it.
CONNECT_S = 1.0

Answer = tuple[int, bytes]
"""The status, and the body."""


class Server:
    """The server at `url` (http://host:port), and the free connections to it, of which some may have ended."""

    def __init__(self, url: str) -> None:
        """Raises ServingError for another URL."""
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ServingError(f"the address of a server is {url!r}: write it like http://host:8080")
        self._host, self._port, self.name = parts.hostname, parts.port or 80, parts.netloc
        self.free: list[Connection] = []
        self.closed = False

    async def connection(self) -> "Connection":
        """One that is free, the last used first, or a new one. Raises OSError, TimeoutError included."""
        while self.free:
            if (one := self.free.pop()).is_open():
                return one
        async with asyncio.timeout(CONNECT_S):
            loop = asyncio.get_running_loop()
            return (await loop.create_connection(lambda: Connection(self), self._host, self._port))[1]

    def close(self) -> None:
        """Close the connections that are free, and the others when they become so."""
        self.closed = True
        for one in self.free:
            one.close()


class Connection(asyncio.Protocol):
    """A connection for one call at a time. httptools calls the methods on_*."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._parser = httptools.HttpResponseParser(self)
        self._answer: asyncio.Future[Answer] | None = None
        self._body: list[bytes] = []

    def post(
        self, path: str, body: bytes, headers: Iterable[tuple[str, str]], limit_s: float
    ) -> asyncio.Future[Answer]:
        """Send, and return what will be the answer. It comes, or fails with an OSError within `limit_s`, whether its
        caller waits for it or not: a server computes what it has taken."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers if value.isprintable())
        fixed = f"host: {self._server.name}\r\ncontent-length: {len(body)}\r\n"
        self._transport.writelines((f"POST {path} HTTP/1.1\r\n{fixed}{lines}\r\n".encode(), body))
        loop = asyncio.get_running_loop()
        self._limit = loop.call_later(limit_s, self._transport.abort)
        self._answer = loop.create_future()
        return self._answer

    def is_open(self) -> bool:
        """Whether the server has not ended it."""
        return not self._transport.is_closing()

    def close(self) -> None:
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.abort()

    def on_body(self, part: bytes) -> None:
        self._body.append(part)

    def on_message_complete(self) -> None:
        body, self._body = b"".join(self._body), []
        answer, self._answer = self._answer, None
        if answer and self._parser.should_keep_alive() and not self._server.closed:
            self._server.free.append(self)
        else:
            self._transport.close()
        if answer:
            self._limit.cancel()
            answer.set_result((self._parser.get_status_code(), body))

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer:
            self._limit.cancel()
            self._answer.set_exception(ConnectionError("the connection was lost before the answer"))
