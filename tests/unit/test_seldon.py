"""Seldon's v1 protocol as its clients see it: both gateways on real sockets, both modes, good and bad messages."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
import uvicorn
from google.protobuf import json_format
from seldon import prediction_pb2 as pb

from gateways.transport.seldon import payload
from gateways.transport.seldon_grpc import health as grpc_health
from gateways.transport.seldon_grpc.server import SERVICE, running
from gateways.transport.seldon_http.app import PATH, create_app
from gateways.web import admission
from locustfiles.payloads import Images
from locustfiles.study_routes.encodings import ENCODERS
from tests.unit.backend_servers import until

MIB = 1024 * 1024
FORMS = pytest.mark.parametrize("form", ["ndarray", "tensor", "tftensor"])
COUNTS = pytest.mark.parametrize("count", [1, 100_000])
ROUTES = pytest.mark.parametrize("route", ["seldon-http", "seldon-grpc"])


def asking(count: int) -> Images:
    """What a request with so many values is about."""
    return Images((), Path(), "", str(count))


@dataclass
class Both:
    """Both gateways; an answer as a dictionary of protobuf's JSON, or a failure as (status, message)."""

    session: aiohttp.ClientSession
    url: str
    channel: grpc.aio.Channel

    async def post(self, body: bytes, path: str = PATH, kind: str = "application/json", **headers: str) -> Any:
        said = {"content-type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
        async with self.session.post(self.url + path, data=body, headers=said) as response:
            answer = await response.json()
            if response.status == 200:
                assert "total;dur=" in response.headers["server-timing"]
                return answer
            assert set(answer["error"]) == {"code", "message"}
            return response.status, answer["error"]["message"]

    async def call(self, body: bytes, method: str = f"/{SERVICE}/Predict", **metadata: str) -> Any:
        unary: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(method)
        call = unary(body, metadata=tuple((name.replace("_", "-"), value) for name, value in metadata.items()))
        try:
            answer = pb.SeldonMessage.FromString(await call)
        except grpc.aio.AioRpcError as error:
            return error.code().name, error.details()
        assert "total;dur=" in dict(await call.trailing_metadata())["server-timing"]
        return json_format.MessageToDict(answer)

    async def send(self, route: str, body: bytes, **headers: str) -> Any:
        return await (self.post if route == "seldon-http" else self.call)(body, **headers)


@pytest.fixture
async def both() -> AsyncIterator[Both]:
    server = uvicorn.Server(uvicorn.Config(create_app(), port=0, log_config=None, lifespan="off"))
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    options = [("grpc.max_send_message_length", -1)]
    async with (
        running("127.0.0.1:0") as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options) as channel,
        aiohttp.ClientSession() as session,
    ):
        yield Both(session, url, channel)
    server.should_exit = True
    await task


def number(answer: dict[str, Any]) -> tuple[str, float]:
    """The form and the only number of an answer, its shape checked."""
    data = answer["data"]
    if "ndarray" in data:
        (value,) = data["ndarray"]
        return "ndarray", value
    if "tensor" in data:
        assert data["tensor"]["shape"] == [1]
        (value,) = data["tensor"]["values"]
        return "tensor", value
    assert data["tftensor"]["dtype"] == "DT_DOUBLE"
    assert data["tftensor"]["tensorShape"] == {"dim": [{"size": "1"}]}
    (value,) = data["tftensor"]["doubleVal"]
    return "tftensor", value


# Good messages


@FORMS
@COUNTS
@ROUTES
async def test_decoded_is_answered_in_its_own_form(both: Both, route: str, form: str, count: int) -> None:
    """One number, the sum of all values, equal over REST and gRPC and in each form."""
    body = ENCODERS[route, form](asking(count)).body
    assert number(await both.send(route, body)) == (form, count * (count - 1) / 2)
    assert number(await both.send(route, body, x_mode="decoded")) == (form, count * (count - 1) / 2)


@FORMS
@COUNTS
@ROUTES
async def test_raw_is_not_decoded(both: Both, route: str, form: str, count: int) -> None:
    """The answer is the constant 1 as a tftensor, whatever the form."""
    body = ENCODERS[route, form](asking(count)).body
    assert number(await both.send(route, body, x_mode="raw")) == ("tftensor", 1)


# From Seldon's API description and from its own benchmark (seldon-core, testing/benchmarking/python).
PUBLISHED_JSON = [
    ('{"data":{"names":["feature1"],"tensor":{"shape":[1,1],"values":[1]}}}', ("tensor", 1)),
    ('{"data":{"ndarray":[[1.0,2.0,5.0]]}}', ("ndarray", 8)),
    ('{"data":{"names":["a","b"],"ndarray":[[1,2],[3,4]]},"meta":{"puid":"x","tags":{"k":1}}}', ("ndarray", 10)),
    (
        '{"data":{"tftensor":{"dtype":"DT_INT64","tensorShape":{"dim":[{"size":"3"}]},'
        '"tensorContent":"AAAAAAAAAAABAAAAAAAAAAIAAAAAAAAA"}}}',
        ("tftensor", 3),
    ),
    (
        '{"data":{"tftensor":{"dtype":"DT_INT64","int64Val":["1"],"tensorShape":{"dim":[{"size":"1"}]}}}}',
        ("tftensor", 1),
    ),
]


@pytest.mark.parametrize(("text", "expected"), PUBLISHED_JSON)
async def test_messages_as_seldon_publishes_them(both: Both, text: str, expected: tuple[str, float]) -> None:
    """JSON is read as Seldon's own parser reads it, and the same message as protobuf gives the same answer."""
    assert number(await both.post(text.encode())) == expected
    message = json_format.Parse(text, pb.SeldonMessage())
    assert number(await both.call(message.SerializeToString())) == expected


async def test_json_answers_are_seldon_messages(both: Both) -> None:
    """Seldon's own JSON parser, protobuf's, reads each of them."""
    for (route, _), encode in ENCODERS.items():
        if route == "seldon-http":
            json_format.ParseDict(await both.post(encode(asking(3)).body), pb.SeldonMessage())


@pytest.mark.parametrize(
    ("dtype", "field", "sent", "total"),
    [
        ("DT_FLOAT", "floatVal", [0.5], 2.0),
        ("DT_HALF", "halfVal", [15360], 4.0),
        ("DT_BOOL", "boolVal", [False, True], 3.0),
        ("DT_UINT8", "intVal", [255], 1020.0),
        ("DT_UINT64", "uint64Val", [7], 28.0),
        ("DT_DOUBLE", "doubleVal", [], 0.0),
    ],
)
async def test_a_tftensor_is_filled_with_its_last_value(
    both: Both, dtype: str, field: str, sent: Any, total: float
) -> None:
    """Four values are said by fewer, as TensorFlow reads them; none means zeros."""
    tensor = {"dtype": dtype, "tensorShape": {"dim": [{"size": "2"}, {"size": "2"}]}, field: sent}
    assert number(await both.post(json.dumps({"data": {"tftensor": tensor}}).encode())) == ("tftensor", total)


@pytest.mark.parametrize("message", ['{"strData":"x"}', '{"binData":"AAE="}', '{"jsonData":{"a":[1]}}'])
async def test_raw_takes_any_message(both: Both, message: str) -> None:
    """What holds no array passes untouched, over both."""
    assert number(await both.post(message.encode(), x_mode="raw")) == ("tftensor", 1)
    proto = json_format.Parse(message, pb.SeldonMessage()).SerializeToString()
    assert number(await both.call(proto, x_mode="raw")) == ("tftensor", 1)


async def test_unknown_fields_do_not_shift_values(both: Both) -> None:
    """A Tensor of a newer Seldon, with a field after its values, is still read right."""
    tensor = pb.Tensor(shape=[2], values=[1, 2]).SerializeToString() + bytes.fromhex("9a0603616263")
    data = bytes([0x12, len(tensor)]) + tensor
    assert number(await both.call(bytes([0x1A, len(data)]) + data)) == ("tensor", 3)


# Bad messages: the same over REST and gRPC where both can say it.

BAD = [
    ("{}", "has no data: send data.ndarray"),
    ('{"data":{}}', "has no values"),
    ('{"strData":"x"}', "strData holds no array"),
    ('{"binData":"AAE="}', "binData holds no array"),
    ('{"jsonData":{"a":1}}', "jsonData holds no array"),
    ('{"data":{"ndarray":[[1,2],[3]]}}', "different lengths"),
    ('{"data":{"ndarray":[1,"a"]}}', "a value that is no number"),
    ('{"data":{"ndarray":[null]}}', "a value that is no number"),
    ('{"data":{"ndarray":[{"a":1}]}}', "a value that is no number"),
    ('{"data":{"tensor":{"shape":[2,2],"values":[1,2,3]}}}', "holds 4 values and there are 3"),
    ('{"data":{"tensor":{"shape":[-1],"values":[1]}}}', "send up to 32 sizes"),
    ('{"data":{"tensor":{"values":[1,2]}}}', "holds 1 values and there are 2"),
    ('{"data":{"tftensor":{"dtype":"DT_STRING","stringVal":["YQ=="]}}}', "dtype is DT_STRING"),
    ('{"data":{"tftensor":{"floatVal":[1]}}}', "dtype is DT_INVALID"),
    ('{"data":{"tftensor":{"dtype":"DT_FLOAT","tensorShape":{"unknownRank":true}}}}', "unknown rank"),
    (
        '{"data":{"tftensor":{"dtype":"DT_FLOAT","tensorShape":{"dim":[{"size":"1"}]},"tensorContent":"AAAA"}}}',
        "not a number of <f4",
    ),
    (
        '{"data":{"tftensor":{"dtype":"DT_UINT8","tensorShape":{"dim":[{"size":"1"}]},"intVal":[300]}}}',
        "send values of the tensor's type",
    ),
]


@pytest.mark.parametrize(("text", "words"), BAD)
async def test_bad_messages(both: Both, text: str, words: str) -> None:
    """400 or INVALID_ARGUMENT, with one text that says what to send."""
    status, message = await both.post(text.encode())
    assert (status, words in message) == (400, True), message
    code, details = await both.call(json_format.Parse(text, pb.SeldonMessage()).SerializeToString())
    assert (code, words in details) == ("INVALID_ARGUMENT", True), details


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"{garbage", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "no SeldonMessage"),
        (b'{"data":[1]}', "has no values"),
        (b'{"data":{"ndarray":5}}', "not a list"),
        (b'{"data":{"ndarray":' + b"[" * 100 + b"1" + b"]" * 100 + b"}}", "data "),
        (b'{"data":{"ndarray":[1],"tensor":{}}}', "ndarray and tensor"),
        (b'{"data":{"tensor":[1]}}', "not an object"),
        (b'{"data":{"tensor":{"shape":[true],"values":[1]}}}', "integers"),
        (b'{"data":{"tftensor":{"dtype":"nothing"}}}', "no TensorProto"),
        (b'{"data":{"ndarray":[1e400]}}', "not JSON"),
    ],
)
async def test_bad_json(both: Both, body: bytes, words: str) -> None:
    """400 with a text of ours, whatever is wrong with the JSON."""
    status, message = await both.post(body)
    assert (status, words in message) == (400, True), message


async def test_bytes_that_are_no_message(both: Both) -> None:
    """INVALID_ARGUMENT, not UNKNOWN."""
    code, details = await both.call(b"\xff\xff\xff")
    assert code == "INVALID_ARGUMENT"
    assert "generate your client" in details


@ROUTES
async def test_an_unknown_mode(both: Both, route: str) -> None:
    """The two modes are named."""
    status, message = await both.send(route, ENCODERS[route, "ndarray"](asking(1)).body, x_mode="fast")
    assert status in (400, "INVALID_ARGUMENT")
    assert "send decoded or raw" in message


@ROUTES
async def test_a_shape_that_a_few_bytes_fill(both: Both, route: str) -> None:
    """A tftensor that would be terabytes is refused by its shape."""
    text = (
        '{"data":{"tftensor":{"dtype":"DT_DOUBLE","tensorShape":{"dim":[{"size":"1000000000000"}]},"doubleVal":[1]}}}'
    )
    body = text.encode() if route == "seldon-http" else json_format.Parse(text, pb.SeldonMessage()).SerializeToString()
    status, message = await both.send(route, body)
    assert status in (413, "RESOURCE_EXHAUSTED")
    assert "send at most 1,048,576" in message


@ROUTES
async def test_too_large(both: Both, route: str) -> None:
    """More than 8 MiB is refused, and the next request is answered."""
    status, message = await both.send(route, bytes(9 * MIB))
    assert status in (413, "RESOURCE_EXHAUSTED")
    assert "larger than" in message
    assert number(await both.send(route, ENCODERS[route, "tensor"](asking(2)).body)) == ("tensor", 1)


async def test_other_content_types_paths_and_methods(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """415, 404, 405 and 429, each with what to do."""
    status, message = await both.post(b"json={}", kind="application/x-www-form-urlencoded")
    assert (status, "send application/json" in message) == (415, True)
    status, message = await both.post(b"{}", "/predict")
    assert (status, PATH in message) == (404, True)
    async with both.session.get(both.url + PATH) as response:
        assert (response.status, response.headers["allow"]) == (405, "POST")
    monkeypatch.setattr(admission, "MAX_HELD", 10)
    status, message = await both.post(b'{"data":{"ndarray":[1]}}')
    assert (status, "again in a second" in message) == (429, True)
    monkeypatch.undo()
    assert number(await both.post(b'{"data":{"ndarray":[1]}}')) == ("ndarray", 1)


async def test_other_grpc_methods(both: Both) -> None:
    """UNIMPLEMENTED, with the method that there is."""
    for method in (f"/{SERVICE}/SendFeedback", "/no.such.Service/Method"):
        code, details = await both.call(b"", method)
        assert code == "UNIMPLEMENTED"
        assert f"/{SERVICE}/Predict" in details


async def test_a_fault_of_ours_stays_in_the_log(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """INTERNAL and the fixed text, over both."""

    def broken(_: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(payload, "model", broken)
    body = b'{"data":{"ndarray":[1]}}'
    assert await both.post(body) == (500, "internal error: the server's log has the details")
    proto = json_format.Parse(body, pb.SeldonMessage()).SerializeToString()
    assert await both.call(proto) == ("INTERNAL", "internal error: the server's log has the details")


async def test_health(both: Both) -> None:
    """GET /health is a prediction; the gRPC check's bytes are a message that is answered."""
    async with both.session.get(both.url + "/health") as response:
        assert number(await response.json()) == ("ndarray", 1)
    assert number(await both.call(grpc_health.MESSAGE)) == ("ndarray", 0)
