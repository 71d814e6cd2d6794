"""The client of the distance proxy: what it asks Toxiproxy to do, and what it says when that fails."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from locustfiles import toxiproxy
from locustfiles.clients import CallError
from tests.unit.locust_servers import Reply, answering

PLACE = {"name": "edge", "listen": "0.0.0.0:8080", "upstream": "edge:8080"}
Asked = list[tuple[str, str, Any]]
"""Method, path and body of every request."""


@pytest.mark.parametrize("text", ["150", "150ms", "-2ms-100mbit", "150ms-0mbit", "150ms-100", "far", "1e3ms-1mbit"])
def test_another_text_is_refused_with_an_example(text: str) -> None:
    """The message shows how to write it."""
    with pytest.raises(ValueError, match="like 150ms-100mbit"):
        toxiproxy.parse(text)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """What a Toxiproxy was asked that refuses a round trip of 99 ms."""
    requests: Asked = []
    toxics: list[Any] = [{"name": "latency-upstream"}]

    def answer(method: str, path: str, _: object, sent: bytes) -> Reply:
        requests.append((method, path, json.loads(sent) if sent else None))
        if b'"round_trip":99' in sent:
            return 409, b'{"error": "no"}', {}
        if method == "DELETE":
            toxics.clear()
        elif path.endswith("/toxics"):
            toxics.append(json.loads(sent))
        found = PLACE | {"enabled": True, "toxics": toxics} if method == "GET" else {}
        return 200, json.dumps(found).encode(), {}

    with answering(answer) as port:
        monkeypatch.setattr(toxiproxy, "API", f"http://127.0.0.1:{port}")
        yield requests


def test_the_proxy_is_made_anew(asked: Asked) -> None:
    """Old connections end, old toxics go with it; both ways get a new connection's cost, a bandwidth, a delay."""
    toxiproxy.apply("25ms-100mbit")
    assert asked[1:3] == [("DELETE", "/proxies/edge", None), ("POST", "/proxies", PLACE | {"enabled": False})]
    assert asked[-1] == ("POST", "/proxies/edge", {"enabled": True})
    assert {path for _, path, _ in asked[3:-1]} == {"/proxies/edge/toxics"}
    # The client's way begins with a round trip; the window of each grows by round trips. A bandwidth is in kB/s.
    assert [(body["stream"], body["type"], body["attributes"]) for _, _, body in asked[3:-1]] == [
        (stream, kind, attributes)
        for stream, ms in (("upstream", 12), ("downstream", 13))
        for kind, attributes in (
            ("tcp", {"round_trip": 25, "handshake": stream == "upstream"}),
            ("bandwidth", {"rate": 12_500}),
            ("latency", {"latency": ms, "jitter": 0}),
        )
    ]


def test_who_comes_second_leaves_the_connections_of_the_first(asked: Asked) -> None:
    """Cells that take turns are as far away as each other: only another distance makes the proxy anew."""
    toxiproxy.apply("25ms-100mbit")
    asked.clear()
    toxiproxy.apply("25ms-100mbit")
    assert asked == [("GET", "/proxies/edge", None)]
    toxiproxy.apply("26ms-100mbit")
    assert asked[2] == ("DELETE", "/proxies/edge", None)


def test_a_failure_says_what_the_proxy_said(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused toxic is an error. Without a proxy, which is off by default, the error says how to start one."""
    with pytest.raises(CallError, match="the distance proxy: HTTP 409"):
        toxiproxy.apply("99ms-1mbit")
    monkeypatch.setattr(toxiproxy, "API", "http://127.0.0.1:1")
    with pytest.raises(CallError, match="scripts/up --profile transport"):
        toxiproxy.apply("2ms-1mbit")
