"""The client of the distance proxy: what it asks Toxiproxy to do, and what it says when that fails."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from locustfiles import toxiproxy
from locustfiles.clients import CallError
from locustfiles.toxiproxy import Distance
from tests.unit.locust_servers import Reply, answering


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


class Toxiproxy:
    """Keeps what it was asked, and has two toxics from before."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, Any]] = []
        self.fails = ""

    def answer(self, method: str, path: str, _: object, sent: bytes) -> Reply:
        self.asked.append((method, path, json.loads(sent) if sent else None))
        if self.fails and self.fails in path:
            return 409, b'{"error": "no"}', {}
        found = [{"name": "latency-upstream"}, {"name": "bandwidth-upstream"}] if method == "GET" else {}
        return 200, json.dumps(found).encode(), {}


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Toxiproxy]:
    found = Toxiproxy()
    with answering(found.answer) as port:
        monkeypatch.setattr(toxiproxy, "API", f"http://127.0.0.1:{port}")
        yield found


def test_what_was_there_before_is_taken_off(proxy: Toxiproxy) -> None:
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


def test_a_failure_says_what_the_proxy_said(proxy: Toxiproxy) -> None:
    """A refused toxic is no distance."""
    proxy.fails = "toxics"
    with pytest.raises(CallError, match="the distance proxy: HTTP 409"):
        toxiproxy.apply("2ms-1mbit")


def test_without_a_proxy_it_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The profile is off by default."""
    monkeypatch.setattr(toxiproxy, "API", "http://127.0.0.1:1")
    with pytest.raises(CallError, match="--profile transport up"):
        toxiproxy.apply("2ms-1mbit")
