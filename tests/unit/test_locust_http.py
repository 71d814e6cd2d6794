"""The HTTP client of the load."""

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from chaos.docker import wait_until
from locustfiles.clients import Endpoint, Payload, http
from locustfiles.clients.http import HttpClient


class _Impatient(BaseHTTPRequestHandler):
    """Closes a connection that idles."""

    protocol_version = "HTTP/1.1"
    timeout = 0.2

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


def test_a_connection_that_the_server_closed_meanwhile_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that waited for its turn loses no call; one that is kept is used again."""
    monkeypatch.setattr(http, "IDLE_S", 0.0)
    opened: Counter[str] = Counter()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Impatient) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        to = Endpoint(f"127.0.0.1:{server.server_port}", "/", on_connect=lambda: opened.update(["connection"]))
        client = HttpClient(to)
        for _ in range(2):
            assert client.send(Payload(b"{}", 1)).body == b"{}"
        kept = opened["connection"]
        wait_until(client._dropped, "the server closes it", seconds=20, every=0.05)
        assert client.send(Payload(b"{}", 1)).body == b"{}"
        client.close()
        server.shutdown()
    assert (kept, opened["connection"]) == (1, 2)
