"""The servers without a model, over real sockets: the rows of the studies `base` and `distance`, and refusals."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from fiveway.transport.v1 import base_pb2, distance_pb2

from gateways.transport.echo.grpc import running
from gateways.transport.echo.http import create_app
from locustfiles import payloads
from locustfiles.answers import WrongAnswer
from locustfiles.clients import Answer, CallError, Endpoint, Payload
from locustfiles.clients.python_http import HttpxClient
from locustfiles.payloads import Images
from locustfiles.routes import Route
from locustfiles.study_routes import STUDY_ROUTES
from locustfiles.study_routes.distance import CHUNKS_64K, GRPC_64K, GRPC_NEW, GZIP, PROTOBUF, ROWS
from tests.unit.http_server import JSON, ask, http_server

BYTES = "application/octet-stream"
IMAGE = bytes(range(256)) * 100
UNLIMITED = (("grpc.max_receive_message_length", -1),)
STRUCTURED: dict[str, Any] = {"name": "é", "text": "a\nb", "entries": 3, "attributes": {"a": "1", "b": "2"}}
VECTORS = 3_000


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The HTTP server's."""
    with http_server(create_app()) as port:
        yield port


@pytest.fixture
async def channel() -> AsyncIterator[grpc.aio.Channel]:
    async with running("127.0.0.1:0") as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}", UNLIMITED) as opened:
        yield opened


async def answered(route: Route, port: int, channel: grpc.aio.Channel) -> Answer:
    """What a row's request is answered."""
    sent = route.format.encode(Images(payloads.photos("360x640")[:1], Path(), "", str(VECTORS))).body
    if route.format.protocol == "gRPC":
        call: Any = channel.stream_stream(route.path)
        return Answer(b"".join([message async for message in call(iter([sent]))]))
    path = route.path.format(model="", size=VECTORS)
    found = ask(port, route.method, path, sent or None, headers=route.format.headers)
    return Answer(found.body, found.headers)


async def test_rows_that_ask_the_same_are_answered_alike(port: int, channel: grpc.aio.Channel) -> None:
    """Whatever carried it, to the last bit; the check after each call takes it, and nothing else."""
    for study, count in {"base": 1, "distance": VECTORS}.items():
        read: dict[str, list[Any]] = {}
        for route in STUDY_ROUTES[study].values():
            answer = await answered(route, port, channel)
            route.format.check(answer, count)
            read.setdefault(route.asks, []).append(route.format.read(answer))
            for wrong in (b"", b"{}", b'{"entries":[{"label":"entry 0","score":1.0}]}', answer.body[:-1]):
                if wrong != answer.body[:-1] or route.name in (PROTOBUF, GZIP):
                    with pytest.raises(WrongAnswer):
                        route.format.check(Answer(wrong, answer.headers), count)
        for first, *others in read.values():
            assert all(np.array_equal(other, first) for other in others), study
    assert len(read["vectors"][0]) == VECTORS


def test_rows_of_distance_differ_in_one_thing() -> None:
    """The window rows in their channel's options, the row of a channel per call in its client."""
    small = {"grpc.http2.bdp_probe": 0, "grpc.http2.lookahead_bytes": 65535}
    assert {name: dict(route.format.options) for name, route in ROWS.items() if route.format.options} == {
        GRPC_64K: small,
        CHUNKS_64K: small,
    }
    assert [name for name, route in ROWS.items() if route.format.client] == [GRPC_NEW]


def test_the_client_of_httpx_says_what_went_wrong(port: int) -> None:
    """It keeps its connection; a refused call and a closed port are errors with equal texts."""
    opened: list[int] = []
    to = Endpoint(
        f"127.0.0.1:{port}", "/transport/binary", {"content-type": BYTES}, on_connect=lambda: opened.append(1)
    )
    client = HttpxClient(to)
    for _ in range(2):
        assert json.loads(client.send(Payload(IMAGE, 1)).body)["size_bytes"] == len(IMAGE)
    assert opened == [1]
    with pytest.raises(CallError, match=r"^HTTP 400: .*empty"):
        client.send(Payload(b"", 1))
    client.close()
    with pytest.raises(CallError, match=r"^HTTP connection: "):
        HttpxClient(Endpoint("127.0.0.1:1", "/"), http2=True).send(Payload(b"", 1))


def test_vectors_have_the_published_sizes(port: int) -> None:
    """1,000 vectors: 156 kB as JSON, 59 kB as gzip JSON, 59 kB as protobuf, within a twentieth."""
    for encoding, published in {"json": 156, "json-gzip": 59, "protobuf": 59}.items():
        answer = ask(port, "GET", f"/transport/vectors/{encoding}?count=1000")
        assert len(answer.body) / 1024 == pytest.approx(published, rel=0.05), encoding


BAD: list[tuple[str, bytes | None, str, int, str]] = [
    ("structured", b"{", JSON, 400, "the body is not JSON"),
    ("structured", b"{}", "text/plain", 415, "send application/json"),
    ("structured", json.dumps(STRUCTURED | {"entries": 1001}).encode(), JSON, 400, "send 0 to 1000"),
    ("structured", json.dumps(STRUCTURED | {"text": 5}).encode(), JSON, 400, "text"),
    ("structured", b'{"name": "\xff"}', JSON, 400, ""),
    # Also in a field that is not read: no parser overflows its stack.
    ("structured", b'{"more": ' + b"[" * 100_000, JSON, 400, "the body"),
    ("base64", json.dumps({"image": "*" * 8}).encode(), JSON, 400, "is not base64"),
    ("binary", b"", BYTES, 400, "the image is empty"),
    ("binary", IMAGE, "text/plain", 415, f"send {BYTES} or image/jpeg"),
    ("binary?entries=x", IMAGE, BYTES, 400, "entries"),
    ("binary", None, "", 405, "use POST"),
]
FAST = [(f"fast/{path}", *rest) for path, *rest in BAD]
VECTORS_BAD = [(f"vectors/json?count={count}", None, "", 400, "count") for count in ("0", "x")]


@pytest.mark.parametrize(("path", "body", "kind", "status", "says"), [*BAD, *FAST, *VECTORS_BAD])
def test_bad_requests_are_refused(port: int, path: str, body: bytes | None, kind: str, status: int, says: str) -> None:
    """In the form of the other servers: a code and one line that says what to send. Without a body it is a GET."""
    ask(port, "GET" if body is None else "POST", f"/transport/{path}", body, kind).refuses(status, says)


@pytest.mark.parametrize(
    ("method", "body", "says"),
    [
        ("BaseService/Structured", base_pb2.StructuredRequest(entries=1001), "entries is 1001: send 0 to 1000"),
        ("DistanceService/StreamVectors", distance_pb2.StreamVectorsRequest(count=100_001), "send 1 to 100000"),
    ],
)
async def test_bad_messages_are_refused(channel: grpc.aio.Channel, method: str, body: Any, says: str) -> None:
    """INVALID_ARGUMENT, and what to send. Others: tests/stack/bad_input.py."""
    call: Any = channel.unary_stream(f"/fiveway.transport.v1.{method}")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        [message async for message in call(body.SerializeToString())]
    assert (caught.value.code(), says in str(caught.value.details())) == (grpc.StatusCode.INVALID_ARGUMENT, True)
