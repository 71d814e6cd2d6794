"""The study `base`: the servers answer every row alike, another answer is wrong, claims judge made-up ratios."""

import json
import zlib
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest

from bench.analysis import claims
from bench.measure.measured import Cell
from bench.studies import STUDIES
from bench.studies.base import BASE, SIZES
from bench.studies.study import EQUAL
from gateways.transport.echo_grpc.service import create_server
from gateways.transport.echo_http.app import create_app
from locustfiles import payloads
from locustfiles.answers import WrongAnswer
from locustfiles.clients import BOTH, Answer, CallError, Payload
from locustfiles.clients.python_http import HttpxClient
from locustfiles.payloads import Images
from locustfiles.study_routes import WAYS
from locustfiles.study_routes.base import KINDS, ROWS
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
    assert form.read
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


def test_rows_ask_for_the_same() -> None:
    """One word per answer, so that parity compares them: the image's is the same as bytes and as base64."""
    asked = {row: route.asks for row, route in ROWS.items()}
    assert {asked[row] for row in asked if "structured" not in row} == {"image"}
    assert {row for row in asked if asked[row] not in ("image", "structured")} == {"echo-grpc-structured-100"}
    assert {route.cluster for route in ROWS.values()} == {"echo-http", "echo-grpc"}
    assert all(route.modelless for route in ROWS.values())
    assert STUDIES["base"] is BASE


def test_the_cells_are_those_of_the_issue() -> None:
    """Three kinds, published rows in three sizes in gathers of 20, and one caller; the quick form has every row."""
    full, quick = BASE.cells(False), BASE.cells(True)
    assert len(full) == len(set(full))
    assert {cell.name for cell in full} == set(ROWS) == {cell.name for cell in quick}
    for row in published_rows():
        gathers = [cell for cell in full if cell.name == row and cell.gather]
        assert {cell.users for cell in gathers} == {20}
        assert [cell.size or cell.photo for cell in gathers] == (["structured"] if "structured" in row else [*SIZES])
        assert {(cell.users, cell.gather) for cell in full if cell.name == row} == {(20, True), (1, False)}
    assert len(quick) == len(ROWS)
    seconds = BASE.blocks * len(full) * (BASE.seconds + 1.4)
    assert seconds < 7 * 60


def published_rows() -> list[str]:
    return [f"echo-{protocol}-{kind}" for protocol in ("http", "grpc") for kind in KINDS]


@pytest.mark.parametrize(
    ("row", "photo", "expected"),
    [
        ("echo-http-structured", "224x224", [0.0723, 0.0611, 0.0583]),
        ("echo-grpc-structured", "224x224", [0.0093, 0.0090, 0.0097]),
        ("echo-httpx-base64", "1080x1920", [0.8056]),
        ("echo-grpc-binary", "720x1280", [0.0570]),
        ("echo-grpc-stream-binary", "720x1280", []),
        ("echo-grpc-structured-100", "224x224", []),
    ],
)
def test_published_numbers_stand_beside_their_rows(row: str, photo: str, expected: list[float]) -> None:
    """Gathers of the two published ways; a structured request has no size, so all three of its numbers."""
    assert list(BASE.published({"name": row, "photo": photo, "gather": True}).values()) == expected
    assert not BASE.published({"name": row, "photo": photo, "gather": False})


def test_every_pair_of_a_claim_is_compared() -> None:
    """A claim rests on ratios that the study makes, of rows that it has."""
    for claim in BASE.claims:
        assert set(claim.pairs) <= set(BASE.pairs), claim.id
    assert {name for pair in BASE.pairs for name in pair} == set(ROWS)


def ratio(a: str, b: str, cell: Cell, value: float) -> dict[str, Any]:
    """A ratio of calls per second with a narrow interval around `value`."""
    return {
        "a": cell.id,
        "b": cell.id.replace(a, b),
        "a_name": a,
        "b_name": b,
        "measure": "images_per_s",
        "value": value,
        "low": value * 0.99,
        "high": value * 1.01,
        "verdict": "lower" if value < 0.99 else "higher" if value > 1.01 else "no difference shown",
        "why": [],
    }


def judged(value: float) -> dict[str, str]:
    """The verdicts where gRPC answers `value` times as much as REST, and bytes `value` times as much as base64."""
    cells = [cell for cell in BASE.cells(False) if cell.gather]
    ratios = [
        ratio(a, b, cell, value if a.startswith("echo-grpc") and b.startswith("echo-http") else 1 / value)
        for a, b in BASE.pairs
        for cell in cells
        if cell.name == a
    ]
    factors = {cell.id: {"gather": cell.gather, "photo": cell.photo} for cell in cells}
    return {one["id"]: one["verdict"] for one in claims.judge(BASE, factors, ratios)}


def test_claims_are_judged() -> None:
    """A finding that names a size needs about that size; as fast is within a tenth."""
    sizes = {claim.id for claim in BASE.claims if claim.expected != EQUAL}
    assert judged(7.0) == {claim.id: "reproduced" if claim.id in sizes else "not reproduced" for claim in BASE.claims}
    assert {name for name, verdict in judged(1.7).items() if verdict == "reproduced"} == {"B4a", "B4b", "B6"}
    assert {name for name, verdict in judged(1.0).items() if verdict == "reproduced"} == {"B5a", "B5b"}


def test_the_answer_names_the_ratios() -> None:
    """With the light client and with httpx, where both have a verdict; else nothing."""
    cell = next(cell for cell in BASE.cells(False) if cell.name == "echo-grpc-structured" and cell.gather)
    cells = [{"id": cell.id, "gather": True, "photo": cell.photo, "size": cell.size}]
    ratios = [
        ratio(cell.name, "echo-http-structured", cell, 1.5),
        ratio(cell.name, "echo-httpx-structured", cell, 3.0),
    ]
    said = BASE.answer({"cells": cells, "analysis": {"ratios": ratios}})
    assert said.endswith("in gathers of 20: 1.50x for structured requests (3.00x where httpx asks).")
    assert BASE.answer({"cells": cells, "analysis": {"ratios": ratios[:1]}}) == ""


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
