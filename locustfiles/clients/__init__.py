"""One file per client protocol. A client sends ready-made bytes to one address and returns the answer's bytes.

A client is timed from outside, so it does no work that can be done before or after: `payloads` builds bodies and
headers, `answers` checks answers.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

UNARY, ANSWERS, BOTH = "unary", "a stream of answers", "an open stream, a message each way per request"
"""How many messages a gRPC call has."""
START_TRANSPORT = "start it with ./scripts/up --profile transport"
"""The advice if a server of the profile `transport` does not answer."""
HTTPS = "https://"
"""Before an address whose connections are TLS."""
DEADLINE_S = 30.0
"""An answer that takes longer than this is a failure."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address of a client's requests, and their common headers."""

    address: str
    """host:port, or [host]:port for IPv6; with https:// before it where the connection is TLS."""
    path: str
    """The URL's path, or the full gRPC method: /package.Service/Method."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Of HTTP, or gRPC metadata, in lower case."""
    method: str = "POST"
    on_connect: Callable[[], None] = lambda: None
    """Called for each connection that the client opens as far as it knows: grpcio opens another by itself when it loses
    one."""
    deadline_s: float = DEADLINE_S

    @property
    def host(self) -> str:
        """host:port."""
        return self.address.removeprefix(HTTPS)

    @property
    def tls(self) -> bool:
        return self.host != self.address

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}{self.path}"


def key() -> dict[str, str]:
    """The headers that let a client in: API_KEY of the stack, and those of REQUEST_HEADERS, a JSON object; {} without
    them."""
    found = os.environ.get("API_KEY")
    more: dict[str, str] = json.loads(os.environ.get("REQUEST_HEADERS") or "{}")
    return ({"authorization": f"Bearer {found}"} if found else {}) | more


@dataclass(frozen=True, slots=True)
class Payload:
    """One request, ready to be sent, with its own headers of HTTP."""

    body: bytes
    images: int
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the body, and over HTTP the headers, found by their names in any case."""

    body: bytes
    headers: Mapping[str, Any] = field(default_factory=dict)


def joined(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """A header by name; repeated ones are joined with commas (RFC 9110, 5.2)."""
    found: dict[str, str] = {}
    for name, value in headers:
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


class CallError(Exception):
    """The call failed. The text begins with the gRPC status name or `HTTP <code>`; equal failures have equal texts."""


class Client(Protocol):
    """One user's connection to one Endpoint, made by the first request and again after it was lost."""

    def send(self, payload: Payload) -> Answer:
        """Send one request and wait for the whole answer; raises CallError."""
        ...

    def close(self) -> None: ...
