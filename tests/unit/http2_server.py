"""A server of HTTP/2 that a test scripts, on h2: whatever breaks the protocol ends the connection and is told."""

import contextlib
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from socketserver import BaseRequestHandler, ThreadingTCPServer

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, StreamEnded
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

LEADING = [(":status", "200"), ("content-type", "application/grpc")]
TRAILING = [("grpc-status", "0")]


class Server(ThreadingTCPServer):
    """Echoes gRPC messages. `script` sees every event first, and says whether that was all there is to do about it."""

    daemon_threads = True

    def __init__(self, script: Callable[["Peer", Event], bool], settings: dict[SettingCodes | int, int]) -> None:
        super().__init__(("127.0.0.1", 0), Peer)
        self.script, self.settings = script, settings
        self.address = f"127.0.0.1:{self.server_address[1]}"
        self.accepted = 0
        self.errors: list[str] = []
        self.events: list[Event] = []

    def seen[E: Event](self, kind: type[E]) -> list[E]:
        """The events of this kind, of all connections."""
        return [event for event in self.events if isinstance(event, kind)]


class Peer(BaseRequestHandler):
    """One connection, seen from the server."""

    server: Server

    def handle(self) -> None:
        self.server.accepted += 1
        self.socket: socket.socket = self.request
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.h2.update_settings(self.server.settings)
        self.bodies: dict[int, bytes] = defaultdict(bytes)
        with contextlib.suppress(OSError):
            while received := self.socket.recv(65536):
                try:
                    for event in self.h2.receive_data(received):
                        self.server.events.append(event)
                        if not self.server.script(self, event):
                            self.echo(event)
                except ProtocolError as error:
                    self.server.errors.append(repr(error))
                    return
                finally:
                    self.socket.sendall(self.h2.data_to_send())

    def echo(self, event: Event) -> None:
        if isinstance(event, DataReceived):
            self.bodies[event.stream_id] += event.data
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            self.answer(event.stream_id, self.bodies.pop(event.stream_id, b""))

    def answer(self, stream: int, body: bytes) -> None:
        self.h2.send_headers(stream, LEADING)
        for start in range(0, len(body), 16_000):
            self.h2.send_data(stream, body[start : start + 16_000], pad_length=7)
        self.h2.send_headers(stream, TRAILING, end_stream=True)


@contextlib.contextmanager
def serving(
    script: Callable[[Peer, Event], bool] = lambda *_: False, settings: dict[SettingCodes | int, int] | None = None
) -> Iterator[Server]:
    with Server(script, settings or {}) as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
    assert not server.errors, server.errors
