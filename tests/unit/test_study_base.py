"""The rows of study `base`: the servers answer every row alike, and another answer is wrong."""

import json
import zlib
from pathlib import Path

import grpc
import httpx
import pytest

from gateways.transport.echo.grpc import create_server
from gateways.transport.echo.http import create_app
from locustfiles import payloads
from locustfiles.answers import WrongAnswer
from locustfiles.clients import BOTH, Answer, CallError, Payload
from locustfiles.clients.python_http import HttpxClient
from locustfiles.payloads import Images
from locustfiles.study_routes import WAYS
from locustfiles.study_routes.base import ROWS
from tests.unit.test_bench_group import good, load  # noqa: F401  fixtures

IMAGES = Images(payloads.photos("360x640")[:1], Path(), "")
JPEG = payloads.jpeg(IMAGES).body


async def answered(row: str) -> Answer:
    """What the row's server answers to its request."""
    route = WAYS[row]
    sent = route.format.encode(IMAGES).body
    if route.format.protocol == "HTTP":
        transport = httpx.ASGITransport(create_app())
        async with httpx.AsyncClient(transport=transport, base_url="http://echo") as client:
            response = await client.post(route.path, content=sent, headers=dict(route.format.headers))
        assert response.status_code == 200, response.text
        return Answer(response.content, response.headers)
    server = create_server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        if route.format.messages == BOTH:
            stream: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(route.path)
            (body,) = [message async for message in stream(iter([sent]))]
        else:
            unary: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(route.path)
            body = await unary(sent)
    await server.stop(None)
    return Answer(body)


@pytest.mark.parametrize("row", ROWS)
async def test_every_row_is_answered_alike(row: str) -> None:
    """Ten entries, and the request's own fields or the image's length and CRC; one row has a hundred."""
    form = WAYS[row].format
    found = await answered(row)
    form.check(found, 1)
    read = form.read(found)
    count = 100 if row.endswith("-100") else 10
    assert read.pop("entries") == [{"label": f"entry {n}", "score": 1 / (n + 1)} for n in range(count)]
    if "structured" in row:
        assert (read.pop("name"), read.pop("text")) == ("Hello", "World")
        assert read == {"attributes": {str(i): str(i) for i in range(100)}}
    else:
        assert read == {"size_bytes": len(JPEG), "crc32": zlib.crc32(JPEG)}


@pytest.mark.parametrize("row", ["echo-http-structured", "echo-grpc-binary", "echo-grpc-stream-structured"])
def test_another_answer_is_wrong(row: str) -> None:
    """No entries, and no message."""
    for body in (b"", b"{}", b'{"entries":[{"label":"entry 0","score":1.0}]}'):
        with pytest.raises(WrongAnswer):
            WAYS[row].format.check(Answer(body), 1)


def test_the_client_of_httpx_says_what_went_wrong(good: dict[str, str]) -> None:  # noqa: F811
    """It sends as the other client does; a refused call and a closed port are errors with equal texts."""
    opened: list[int] = []
    address = good["http"].removeprefix("http://")
    client = HttpxClient(address, "/predictions/tiny", {}, on_connect=lambda: opened.append(1))
    for _ in range(2):
        answer = client.send(Payload(JPEG, 1))
        assert json.loads(answer.body)["embedding"]
        assert answer.headers["Content-Length"] == str(len(answer.body))
    client.close()
    assert opened == [1]
    with pytest.raises(CallError, match=r"^HTTP 404: .*no such path"):
        HttpxClient(address, "/nowhere", {}).send(Payload(b"", 1))
    with pytest.raises(CallError, match=r"^HTTP connection: "):
        HttpxClient("127.0.0.1:1", "/", {}, http2=True).send(Payload(b"", 1))
