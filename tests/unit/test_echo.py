"""The servers without a model, over real sockets: equal vectors, refusals.

That all give the same answers: tests/unit/test_study_base.py.
"""

import gzip
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import grpc
import pytest
from fiveway.transport.v1 import base_pb2, distance_pb2, distance_pb2_grpc
from google.protobuf.json_format import MessageToDict

from gateways.transport.echo import answers
from gateways.transport.echo.grpc import running
from gateways.transport.echo.http import create_app
from tests.unit.http_server import JSON, ask, http_server

BYTES = "application/octet-stream"
IMAGE = bytes(range(256)) * 100
NOT_BASE64 = "*" * 8
UNLIMITED = (("grpc.max_receive_message_length", -1),)
STRUCTURED: dict[str, Any] = {"name": "é", "text": "a\nb", "entries": 3, "attributes": {"a": "1", "b": "2"}}

paths = pytest.mark.parametrize("prefix", ["/transport", "/transport/fast"])


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The HTTP server's."""
    with http_server(create_app()) as port:
        yield port


@pytest.fixture
async def channel() -> AsyncIterator[grpc.aio.Channel]:
    async with running("127.0.0.1:0") as port, grpc.aio.insecure_channel(f"127.0.0.1:{port}", UNLIMITED) as opened:
        yield opened


def as_json(message: Any) -> Any:
    return MessageToDict(message, preserving_proto_field_name=True)


@pytest.mark.parametrize("count", [1, 1_000, 3_000])
async def test_vectors_are_the_same_in_every_encoding(port: int, channel: grpc.aio.Channel, count: int) -> None:
    """JSON, gzip JSON, protobuf over REST, a gRPC list and both streams decode to one list, bit for bit."""
    stub = distance_pb2_grpc.DistanceServiceStub(channel)
    listed = await stub.ListVectors(distance_pb2.ListVectorsRequest(count=count))
    assert len(listed.vectors) == count
    plain, squeezed, packed = (
        ask(port, "GET", f"/transport/vectors/{encoding}?count={count}")
        for encoding in ("json", "json-gzip", "protobuf")
    )
    assert packed.body == listed.SerializeToString()
    assert plain.json == as_json(listed)
    assert squeezed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(squeezed.body) == plain.body
    for per_message in (0, 1, 300):
        request = distance_pb2.StreamVectorsRequest(count=count, per_message=per_message)
        messages = [message async for message in stub.StreamVectors(request)]
        assert len(messages) == -(-count // (per_message or 1))
        assert [vector for message in messages for vector in message.vectors] == list(listed.vectors)


def test_vectors_have_the_published_sizes(port: int) -> None:
    """1,000 vectors: 156 kB as JSON, 59 kB as gzip JSON, 59 kB as protobuf, within a twentieth."""
    for encoding, published in {"json": 156, "json-gzip": 59, "protobuf": 59}.items():
        answer = ask(port, "GET", f"/transport/vectors/{encoding}?count=1000")
        assert len(answer.body) / 1024 == pytest.approx(published, rel=0.05), encoding


BAD: list[tuple[str, bytes, str, int, str]] = [
    ("structured", b"{", JSON, 400, "the body is not JSON"),
    ("structured", b"{}", JSON, 400, "name"),
    ("structured", b"{}", "text/plain", 415, "send application/json"),
    ("structured", json.dumps(STRUCTURED | {"entries": 1001}).encode(), JSON, 400, "send 0 to 1000"),
    ("structured", json.dumps(STRUCTURED | {"entries": -1}).encode(), JSON, 400, "send 0 to 1000"),
    ("structured", json.dumps(STRUCTURED | {"text": 5}).encode(), JSON, 400, "text"),
    ("structured", b"[" * 100_000, JSON, 400, ""),
    ("structured", b'{"name": "\xff"}', JSON, 400, ""),
    # In a field that nobody reads either: no parser is led to the end of its stack.
    ("structured", b'{"more": ' + b"[" * 100_000, JSON, 400, "the body"),
    ("base64", json.dumps({"image": NOT_BASE64}).encode(), JSON, 400, "is not base64"),
    ("base64", b'{"image": ""}', JSON, 400, "the image is empty"),
    ("binary", b"", BYTES, 400, "the image is empty"),
    ("binary", IMAGE, "text/plain", 415, f"send {BYTES} or image/jpeg"),
    ("binary?entries=x", IMAGE, BYTES, 400, "entries"),
]


@paths
@pytest.mark.parametrize(("path", "body", "kind", "status", "says"), BAD)
def test_bad_requests_are_refused(
    port: int, prefix: str, path: str, body: bytes, kind: str, status: int, says: str
) -> None:
    """In the form of the other servers: a code and one line that says what to send."""
    ask(port, "POST", f"{prefix}/{path}", body, kind).refuses(status, says)


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        *((f"/transport/vectors/json?count={count}", 400, "count") for count in ("0", "100001", "x", "")),
        ("/transport/binary", 405, "use POST"),
        ("/transport/fast/binary", 405, "use POST"),
    ],
)
def test_wrong_questions_are_refused(port: int, path: str, status: int, says: str) -> None:
    """A list has 1 to 100,000 vectors; an unknown path is told what there is."""
    ask(port, "GET", path).refuses(status, says)


@pytest.mark.parametrize(
    ("method", "body", "says"),
    [
        ("BaseService/Structured", base_pb2.StructuredRequest(entries=1001), "entries is 1001: send 0 to 1000"),
        ("DistanceService/ListVectors", distance_pb2.ListVectorsRequest(), "count is 0: send 1 to 100000"),
        ("DistanceService/StreamVectors", distance_pb2.StreamVectorsRequest(count=100_001), "send 1 to 100000"),
    ],
)
async def test_bad_messages_are_refused(channel: grpc.aio.Channel, method: str, body: Any, says: str) -> None:
    """INVALID_ARGUMENT, and what to send. Others: tests/stack/bad_input.py."""
    call: Any = channel.unary_stream(f"/fiveway.transport.v1.{method}")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        [message async for message in call(body.SerializeToString())]
    assert (caught.value.code(), says in str(caught.value.details())) == (grpc.StatusCode.INVALID_ARGUMENT, True)


def test_answers_are_encoded_for_every_request() -> None:
    """What is kept is the list, not its bytes: a call costs its encoding."""
    assert answers.vector_list(5) is answers.vector_list(5)
    assert answers.vector_stream(5, 2) is answers.vector_stream(5, 2)
