"""An ASGI application under uvicorn, with the settings of all our HTTP servers, and a plain client."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from chaos.docker import wait_until
from gateways.web.server import SETTINGS

JSON = "application/json"
START_S = 60


@dataclass
class Answer:
    """One HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str, str]:
        """Status, code and message of an error: one line, and nothing beside them."""
        (error,) = self.json.values()
        assert set(error) == {"code", "message"}, self
        assert "\n" not in error["message"]
        return self.status, error["code"], error["message"]

    def refuses(self, status: int, keyword: str) -> None:
        """It is that error, and its message says so."""
        found, _, message = self.error
        assert (found, keyword in message) == (status, True), self


def ask(
    port: int,
    method: str,
    path: str,
    body: Any = None,
    kind: str | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    chunked: bool = False,
) -> Answer:
    """One request on a connection of its own; `kind` is its content type."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    said = {**({"content-type": kind} if kind else {}), **(headers or {})}
    try:
        connection.request(method, path, body, said, encode_chunked=chunked)
        response = connection.getresponse()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    finally:
        connection.close()


@contextmanager
def http_server(app: ASGIApp, **settings: Any) -> Iterator[int]:
    """It runs in a thread; yields its port."""
    server = uvicorn.Server(uvicorn.Config(app, **SETTINGS, **settings))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            wait_until(lambda: server.started or not thread.is_alive(), "it starts", seconds=START_S, every=0.01)
            assert server.started
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(20)
