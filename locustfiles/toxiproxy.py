"""Simulated distance: Toxiproxy between the clients and the edge (compose/transport.yaml).

It delays and limits the bytes of a connection in both directions. Both ends of every TCP connection are still near. So
our Toxiproxy plug-in (compose/toxiproxy/tcp.go) simulates what a new connection costs over a distance: a round trip for
its handshake, and slow start. No packet is ever lost.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

import httpx

from locustfiles.clients import START_TRANSPORT, CallError

ADDRESS, API = "distance:8080", "http://distance:8474"
PROXY = "edge"
TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Distance:
    """A distance between client and edge."""

    round_trip_ms: int
    mbit_per_s: int


def parse(text: str) -> Distance:
    """`150ms-100mbit`; raises ValueError, which says how to write it."""
    found = re.fullmatch(r"(\d{1,4})ms-(\d{1,5})mbit", text)
    if not found or not int(found[2]):
        raise ValueError(f"distance {text!r}: write a round trip and a bandwidth, like 150ms-100mbit")
    return Distance(int(found[1]), int(found[2]))


def apply(text: str) -> None:
    """Put the edge that far away, for every connection that is made from now on; raises CallError.

    Where it is that far already, kept connections stay: cells that take turns have some. Else the proxy is made anew,
    which ends them. Changed in place, Toxiproxy 2.12.0 gives its new toxics to connections that are just ending too,
    and dies of it ("index out of range").
    """
    (before,) = _ask("GET", f"/proxies/{PROXY}")
    toxics = _toxics(parse(text))
    there = {one["name"]: one for one in before["toxics"]}
    if before["enabled"] and [there.get(name) for name in toxics] == list(toxics.values()):
        return
    _ask("DELETE", f"/proxies/{PROXY}")
    _ask("POST", "/proxies", {name: before[name] for name in ("name", "listen", "upstream")} | {"enabled": False})
    for about in toxics.values():
        _ask("POST", f"/proxies/{PROXY}/toxics", about)
    _ask("POST", f"/proxies/{PROXY}", {"enabled": True})


def _toxics(wanted: Distance) -> dict[str, dict[str, Any]]:
    """By name, as Toxiproxy says them."""
    found = {}
    half = wanted.round_trip_ms // 2
    # Toxiproxy counts in whole milliseconds: of an odd round trip the way back is the longer one.
    for stream, ms in (("upstream", half), ("downstream", wanted.round_trip_ms - half)):
        kinds: dict[str, dict[str, int | bool]] = {
            "tcp": {"round_trip": wanted.round_trip_ms, "handshake": stream == "upstream"},
            "bandwidth": {"rate": wanted.mbit_per_s * 125},  # Toxiproxy counts in kB/s
            "latency": {"latency": ms, "jitter": 0},
        }
        for kind, attributes in kinds.items():
            name = f"{kind}-{stream}"
            found[name] = {"type": kind, "name": name, "stream": stream, "toxicity": 1, "attributes": attributes}
    return found


def _ask(method: str, path: str, body: object = None) -> list[dict[str, Any]]:
    """The JSON of an answer; [] if it is empty."""
    try:  # no proxy of this machine's, and no certificates to load
        answer = httpx.request(method, API + path, json=body, timeout=TIMEOUT_S, trust_env=False, verify=False)
        if answer.is_error:
            raise CallError(f"the distance proxy: HTTP {answer.status_code}: {answer.text[:200]}")
        found = json.loads(answer.content or b"[]")
    except (httpx.HTTPError, ValueError) as error:
        raise CallError(f"the distance proxy does not answer ({error}): {START_TRANSPORT}") from None
    return found if isinstance(found, list) else [found]
