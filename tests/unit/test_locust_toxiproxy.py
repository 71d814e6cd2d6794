"""The client of the distance proxy: what it asks Toxiproxy to do, and what it says when that fails."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from locustfiles import toxiproxy
from locustfiles.clients import CallError
from locustfiles.toxiproxy import Distance


@pytest.mark.parametrize(
    ("text", "found"),
    [("0ms-100mbit", Distance(0, 100)), ("25ms-1000mbit", Distance(25, 1000)), ("300ms-10mbit", Distance(300, 10))],
)
def test_a_distance_is_a_round_trip_and_a_bandwidth(text: str, found: Distance) -> None:
    """Whole milliseconds, whole megabits."""
    assert toxiproxy.parse(text) == found


@pytest.mark.parametrize("text", ["150", "150ms", "-2ms-100mbit", "150ms-0mbit", "150ms-100", "far", "1e3ms-1mbit"])
def test_another_text_is_refused_with_an_example(text: str) -> None:
    """The message shows how to write it."""
    with pytest.raises(ValueError, match="like 150ms-100mbit"):
        toxiproxy.parse(text)


class Toxiproxy(BaseHTTPRequestHandler):
    """Keeps what it was asked, and has two toxics from before."""

    asked: list[tuple[str, str, Any]]
    fails = ""

    def do_GET(self) -> None:
        self._answer([{"name": "latency-upstream"}, {"name": "bandwidth-upstream"}])

    def do_POST(self) -> None:
        self._answer({})

    do_DELETE = do_POST

    def _answer(self, body: object) -> None:
        sent = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.asked.append((self.command, self.path, json.loads(sent) if sent else None))
        failed = self.fails and self.fails in self.path
        self.send_response(409 if failed else 200)
        self.end_headers()
        self.wfile.write(b'{"error": "no"}' if failed else json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Toxiproxy]]:
    handler = type("Handler", (Toxiproxy,), {"asked": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    monkeypatch.setattr(toxiproxy, "API", f"http://127.0.0.1:{server.server_port}")
    yield handler
    server.shutdown()
    server.server_close()


def test_what_was_there_before_is_taken_off(proxy: type[Toxiproxy]) -> None:
    """Old connections end first and old toxics go; then both ways get a new connection's cost, a bandwidth, a delay."""
    toxiproxy.apply("25ms-100mbit")
    asked = proxy.asked
    assert asked[0] == ("POST", "/proxies/edge", {"enabled": False})
    assert asked[-1] == ("POST", "/proxies/edge", {"enabled": True})
    assert [path for method, path, _ in asked if method == "DELETE"] == [
        "/proxies/edge/toxics/latency-upstream",
        "/proxies/edge/toxics/bandwidth-upstream",
    ]
    toxics = [body for method, path, body in asked if method == "POST" and path.endswith("/toxics")]
    of = [(body["stream"], body["type"], body["attributes"]) for body in toxics]
    assert sum(attributes.get("latency", 0) for _, _, attributes in of) == 25
    assert {attributes["rate"] for _, kind, attributes in of if kind == "bandwidth"} == {12_500}  # kB/s
    assert {stream for stream, _, _ in of} == {"upstream", "downstream"}
    tcp = {stream: attributes for stream, kind, attributes in of if kind == "tcp"}
    # The client's way begins with a round trip; the window of each grows by round trips.
    assert tcp == {name: {"round_trip": 25, "handshake": name == "upstream"} for name in ("upstream", "downstream")}
    assert [kind for stream, kind, _ in of if stream == "downstream"] == ["tcp", "bandwidth", "latency"]


def test_a_failure_says_what_the_proxy_said(proxy: type[Toxiproxy]) -> None:
    """A refused toxic is no distance."""
    proxy.fails = "toxics"
    with pytest.raises(CallError, match="the distance proxy: HTTP 409"):
        toxiproxy.apply("2ms-1mbit")


def test_without_a_proxy_it_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The profile is off by default."""
    monkeypatch.setattr(toxiproxy, "API", "http://127.0.0.1:1")
    with pytest.raises(CallError, match="--profile transport up"):
        toxiproxy.apply("2ms-1mbit")
