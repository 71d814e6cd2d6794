"""Checks that the users of this process wait concurrently. If they did not, nothing would fail, and latencies would
look better."""

import socket

import gevent

from locustfiles.clients import CallError, Client, Endpoint, Payload
from locustfiles.clients.grpc import GrpcClient
from locustfiles.clients.grpcio import GrpcioClient
from locustfiles.clients.http import HttpClient

USERS = 4
EVERYBODY = 3 * USERS
WAIT_S = 0.2
# A busy machine can delay this process by all of WAIT_S.
TRIES = 5


def check() -> None:
    """Let users of every client call a server that never answers: all must be waiting at the same time.

    Raises RuntimeError. Takes WAIT_S.
    """
    # The kernel accepts the connections; nobody reads them.
    with socket.create_server(("127.0.0.1", 0), backlog=EVERYBODY * TRIES) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        if not any(_most_at_once(address) == EVERYBODY for _ in range(TRIES)):
            why = "gevent must patch before grpc is imported, then init_gevent"
            raise RuntimeError(
                f"{EVERYBODY} users run one at a time, and no latency measured here would be true: {why}"
            )


def _most_at_once(address: str) -> int:
    silent = Endpoint(address, "/silent/Call", deadline_s=WAIT_S)
    clients: list[Client] = [client(silent) for client in (GrpcClient, GrpcioClient, HttpClient) for _ in range(USERS)]
    waiting = most = 0

    def call(client: Client) -> None:
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        try:
            client.send(Payload(b"", 0))
        except CallError:
            waiting -= 1

    gevent.joinall([gevent.spawn(call, client) for client in clients], raise_error=True)
    for client in clients:
        client.close()
    return most
