"""A server of HTTP/2 that a test scripts, on h2: whatever breaks the protocol ends the connection and is told."""

import contextlib
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, StreamEnded
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

LEADING = [(":status", "200"), ("content-type", "application/grpc")]
TRAILING = [("grpc-status", "0")]


class Server:
    """Echoes gRPC messages. `script` sees every event first, and says whether that was all there is to do about it."""

    def __init__(self, script: Callable[["Peer", Event], bool], settings: dict[SettingCodes | int, int]) -> None:
        self.accepted = 0
        self.errors: list[str] = []
        self._script, self._settings = script, settings
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"

    def run(self) -> None:
        with contextlib.suppress(OSError):  # closed: the test is over
            while True:
                connected, _ = self._listening.accept()
                self.accepted += 1
                threading.Thread(target=self._serve, args=[connected], daemon=True).start()

    def _serve(self, connected: socket.socket) -> None:
        peer = Peer(connected, self._settings)
        with contextlib.suppress(OSError), connected:
            while received := connected.recv(65536):
                try:
                    for event in peer.h2.receive_data(received):
                        if not self._script(peer, event):
                            peer.echo(event)
                except ProtocolError as error:
                    self.errors.append(repr(error))
                    return
                finally:
                    connected.sendall(peer.h2.data_to_send())

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


class Peer:
    """One connection, seen from the server."""

    def __init__(self, connected: socket.socket, settings: dict[SettingCodes | int, int]) -> None:
        self.socket = connected
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.h2.update_settings(settings)
        self.bodies: dict[int, bytes] = defaultdict(bytes)

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
    server = Server(script, settings or {})
    threading.Thread(target=server.run, daemon=True).start()
    try:
        yield server
    finally:
        server.close()
        assert not server.errors, server.errors
