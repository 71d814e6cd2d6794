"""Proof that the users of this process wait side by side: where they do not, numbers get better and nothing fails."""

import socket
import time
from collections.abc import Callable

import gevent

from locustfiles.clients import CallError, Client, Payload
from locustfiles.clients.grpc import GrpcClient
from locustfiles.clients.http import HttpClient

USERS = 4
WAIT_S = 0.2


def check() -> None:
    """Let users of both protocols call a server that never answers: together they must take one deadline, not the sum.

    Raises RuntimeError. Takes WAIT_S.
    """
    # The kernel accepts the connections; nobody reads them.
    with socket.create_server(("127.0.0.1", 0), backlog=2 * USERS) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        clients: list[Client] = [GrpcClient(address, "/silent/Call", {}, WAIT_S) for _ in range(USERS)]
        clients += [HttpClient(address, "/", {}, WAIT_S) for _ in range(USERS)]
        elapsed = _together([lambda client=client: _call(client) for client in clients])  # type: ignore[misc]
        for client in clients:
            client.close()
    if elapsed > 2 * WAIT_S:
        raise RuntimeError(
            f"{len(clients)} users that wait {WAIT_S} s took {elapsed:.2f} s: they run one at a time, and no latency "
            "measured here would be true (gevent must patch before grpc is imported, then init_gevent)"
        )


def _together(calls: list[Callable[[], None]]) -> float:
    start = time.perf_counter()
    gevent.joinall([gevent.spawn(call) for call in calls], raise_error=True)
    return time.perf_counter() - start


def _call(client: Client) -> None:
    try:
        client.send(Payload(b"", 0))
    except CallError:
        return
    raise RuntimeError("a server that never answers has answered")
