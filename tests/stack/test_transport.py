"""The profile `transport` as it runs: servers without a model behind the edge, and a distance that is waited for."""

import http.client
import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest
from fiveway.transport.v1 import base_pb2, base_pb2_grpc

from chaos.docker import address_of
from tests.clients import TIMEOUT_S, channel

ROUND_TRIP_MS = 150
KB_PER_S = 1000


@pytest.fixture
def distance() -> str:
    """The address of the proxy."""
    return address_of("distance")


@contextmanager
def toxics(address: str, kind: str, **attributes: int) -> Iterator[None]:
    """The same toxic both ways."""
    api = f"http://{address}:8474/proxies/edge/toxics"
    ways = ("upstream", "downstream")
    for way in ways:
        toxic = {"name": f"test-{kind}-{way}", "type": kind, "stream": way, "attributes": attributes}
        urllib.request.urlopen(api, json.dumps(toxic).encode(), timeout=TIMEOUT_S).close()
    try:
        yield
    finally:
        for way in ways:
            gone = urllib.request.Request(f"{api}/test-{kind}-{way}", method="DELETE")
            urllib.request.urlopen(gone, timeout=TIMEOUT_S).close()


def test_a_request_takes_at_least_the_round_trip(distance: str) -> None:
    """Over HTTP and gRPC, on a connection that is open already; any route may be asked so."""
    connection = http.client.HTTPConnection(distance, 8080, timeout=TIMEOUT_S)
    with toxics(distance, "latency", latency=ROUND_TRIP_MS // 2), channel(f"{distance}:8080") as opened:
        connection.connect()
        start = time.monotonic()
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        assert (time.monotonic() - start) * 1e3 >= ROUND_TRIP_MS
        grpc.channel_ready_future(opened).result(TIMEOUT_S)
        start = time.monotonic()
        base_pb2_grpc.BaseServiceStub(opened).Structured(base_pb2.StructuredRequest(), timeout=TIMEOUT_S)
        assert (time.monotonic() - start) * 1e3 >= ROUND_TRIP_MS
    connection.close()


def test_bytes_take_at_least_as_long_as_the_bandwidth_says(distance: str, photo: bytes) -> None:
    """Down and up, in thousands of bytes a second."""
    connection = http.client.HTTPConnection(distance, 8080, timeout=TIMEOUT_S)
    upload = photo * (KB_PER_S * 500 // len(photo))
    with toxics(distance, "bandwidth", rate=KB_PER_S):
        start = time.monotonic()
        connection.request("GET", "/transport/vectors/json?count=5000")
        size = len(connection.getresponse().read())
        assert size > 500 * KB_PER_S
        # The first tenth of a second's bytes may be let through at once.
        assert time.monotonic() - start >= size / KB_PER_S / 1e3 - 0.1
        start = time.monotonic()
        connection.request("POST", "/transport/binary", upload, {"content-type": "application/octet-stream"})
        assert json.loads(connection.getresponse().read())["size_bytes"] == len(upload)
        assert time.monotonic() - start >= len(upload) / KB_PER_S / 1e3 - 0.1
    connection.close()
