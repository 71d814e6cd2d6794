"""The HTTP client of the load."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from locustfiles.clients import CallError, Endpoint, Payload, http
from locustfiles.clients.http import HttpClient

CALL = Payload(b"{}", 1)


class _Impatient(BaseHTTPRequestHandler):
    """Closes a connection that idles."""

    protocol_version = "HTTP/1.1"
    timeout = 0.2
    closed: threading.Event

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def finish(self) -> None:
        super().finish()
        self.connection.close()
        self.closed.set()

    def log_message(self, *_: object) -> None:
        pass


class _Late(_Impatient):
    """Closes it when the next call has come, which is lost."""

    timeout = 60
    calls = 0

    def do_POST(self) -> None:
        self.calls += 1
        if self.calls == 1:
            super().do_POST()
        self.close_connection = self.calls > 1


@contextmanager
def client_of(handler: type[_Impatient]) -> Iterator[tuple[HttpClient, Counter[str]]]:
    """A client of such a server, and how many connections it has opened."""
    opened: Counter[str] = Counter()
    handler.closed = threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        to = Endpoint(f"127.0.0.1:{server.server_port}", "/", on_connect=lambda: opened.update(["connection"]))
        client = HttpClient(to)
        yield client, opened
        client.close()
        server.shutdown()


def test_a_connection_that_the_server_closed_meanwhile_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that waited for its turn loses no call; one that is kept is used again."""
    monkeypatch.setattr(http, "IDLE_S", 0.0)
    with client_of(_Impatient) as (client, opened):
        for _ in range(2):
            assert client.send(CALL).body == b"{}"
        kept = opened["connection"]
        assert _Impatient.closed.wait(20)
        assert client.send(CALL).body == b"{}"
    assert (kept, opened["connection"]) == (1, 2)


@pytest.mark.parametrize("idle_s", [0.0, 60.0], ids=["idled", "in use"])
def test_a_connection_that_is_closed_as_a_call_comes(monkeypatch: pytest.MonkeyPatch, idle_s: float) -> None:
    """A server's clock may strike just then, above all of one that was paused. If it was in use, that is a failure."""
    monkeypatch.setattr(http, "IDLE_S", idle_s)
    with client_of(_Late) as (client, opened):
        client.send(CALL)
        if idle_s:
            with pytest.raises(CallError, match="connection"):
                client.send(CALL)
        else:
            assert client.send(CALL).body == b"{}"
    assert opened["connection"] == 1 + (not idle_s)
