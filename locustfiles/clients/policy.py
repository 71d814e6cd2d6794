"""The connection policy of a run: how many TCP connections its users share, and when they are made."""

from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from gevent.lock import BoundedSemaphore

from locustfiles.clients import Answer, Client, Payload

POOLED, SHARED, COLD, PUBLISHED = "pooled", "shared", "cold", "published"
POLICIES: Mapping[str, str] = {
    POOLED: "one connection per user, kept",
    SHARED: "one connection for all users of a process, kept: streams over gRPC, turns over HTTP/1.1",
    COLD: "a new connection for every call, inside its clock",
}
"""The policies that a run may choose. PUBLISHED belongs to the published method: it is COLD, except that simultaneous
gRPC calls share a connection, which is grpcio's default."""


class ColdClient:
    """A client for every call: what it costs to make one, and to connect it, is part of the call."""

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make

    def send(self, payload: Payload) -> Answer:
        client = self._make()
        try:
            return client.send(payload)
        finally:
            client.close()

    def close(self) -> None:
        pass


_shared: dict[Hashable, "SharedClient"] = {}


def shared(key: Hashable, make: Callable[[], Client], *, multiplexes: bool) -> Client:
    """One client for all who ask for the same one in this process; it closes with the last of them."""
    if key not in _shared:
        # Two requests at once on one HTTP/1.1 connection would be mixed up: they take turns, inside the clock.
        _shared[key] = SharedClient(key, make(), nullcontext() if multiplexes else BoundedSemaphore())
    _shared[key].holders += 1
    return _shared[key]


@dataclass(slots=True)
class SharedClient:
    key: Hashable
    client: Client
    turn: AbstractContextManager[object]
    holders: int = 0

    def send(self, payload: Payload) -> Answer:
        with self.turn:
            return self.client.send(payload)

    def close(self) -> None:
        self.holders -= 1
        if not self.holders:
            del _shared[self.key]
            self.client.close()
