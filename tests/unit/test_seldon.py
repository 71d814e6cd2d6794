"""Seldon's v1 protocol as its clients see it: both gateways on real sockets, both modes, good and bad messages."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import Mock

import grpc
import pytest
from google.protobuf import json_format
from seldon import prediction_pb2 as pb

from gateways.core.errors import INTERNAL_MESSAGE
from gateways.transport.seldon import payload
from gateways.transport.seldon.grpc import SERVICE, running
from gateways.transport.seldon.http import PATH, create_app
from locustfiles.clients import Answer
from locustfiles.study_routes.encodings import from_json, read_seldon
from tests.unit.http_server import JSON, ask, http_server


def proto(message: str | bytes) -> bytes:
    """The same message, serialized."""
    return json_format.Parse(message, pb.SeldonMessage()).SerializeToString()


def number(message: pb.SeldonMessage) -> tuple[str, float]:
    """The form and the only number of an answer."""
    array = read_seldon(lambda _: message, Answer(b""))
    return str(message.data.WhichOneof("data_oneof")), array.item()


@dataclass
class Both:
    """Both servers; answers are form and number as Seldon's parser reads them, failures status and message."""

    port: int
    channel: grpc.aio.Channel

    def post(self, body: bytes, mode: str | None = None) -> tuple[str | int, Any]:
        answer = ask(self.port, "POST", PATH, body, JSON, headers={"x-mode": mode} if mode else {})
        if answer.status != 200:
            status, _, message = answer.error
            return status, message
        assert "total;dur=" in answer.headers["server-timing"]
        return number(from_json(answer.body))

    async def call(self, body: bytes, mode: str | None = None) -> tuple[str, Any]:
        unary: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(f"/{SERVICE}/Predict")
        call = unary(body, metadata=(("x-mode", mode),) if mode else ())
        try:
            answer = number(pb.SeldonMessage.FromString(await call))
        except grpc.aio.AioRpcError as error:
            return error.code().name, error.details()
        assert "total;dur=" in dict(await call.trailing_metadata())["server-timing"]
        return answer


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with http_server(create_app()) as port:
        yield port


@pytest.fixture
async def both(port: int) -> AsyncIterator[Both]:
    async with running("127.0.0.1:0") as address, grpc.aio.insecure_channel(f"127.0.0.1:{address}") as channel:
        yield Both(port, channel)


# That every form gives its sum: tests/unit/test_study_encodings.py.
# From Seldon's API description and from its own benchmark (seldon-core, testing/benchmarking/python).
PUBLISHED_JSON = [
    ('{"data":{"names":["feature1"],"tensor":{"shape":[1,1],"values":[1]}}}', ("tensor", 1)),
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
    assert both.post(text.encode()) == both.post(text.encode(), "decoded") == expected
    assert await both.call(proto(text)) == await both.call(proto(text), "decoded") == expected


@pytest.mark.parametrize(
    ("dtype", "field", "sent", "total"),
    [
        ("DT_HALF", "halfVal", [15360], 4.0),
        ("DT_BOOL", "boolVal", [False, True], 3.0),
        ("DT_UINT8", "intVal", [255], 1020.0),
        ("DT_DOUBLE", "doubleVal", [], 0.0),
    ],
)
async def test_a_tftensor_is_filled_with_its_last_value(
    both: Both, dtype: str, field: str, sent: Any, total: float
) -> None:
    """Four values are said by fewer, as TensorFlow reads them; none means zeros."""
    tensor = {"dtype": dtype, "tensorShape": {"dim": [{"size": "2"}, {"size": "2"}]}, field: sent}
    assert both.post(json.dumps({"data": {"tftensor": tensor}}).encode()) == ("tftensor", total)


@pytest.mark.parametrize("message", ['{"strData":"x"}', '{"binData":"AAE="}', '{"jsonData":{"a":[1]}}'])
async def test_raw_takes_any_message(both: Both, message: str) -> None:
    """What holds no array passes untouched, over both."""
    assert both.post(message.encode(), "raw") == ("tftensor", 1)
    assert await both.call(proto(message), "raw") == ("tftensor", 1)


async def test_unknown_fields_do_not_shift_values(both: Both) -> None:
    """A Tensor of a newer Seldon, with a field after its values, is still read right."""
    tensor = pb.Tensor(shape=[2], values=[1, 2]).SerializeToString() + bytes.fromhex("9a0603616263")
    data = bytes([0x12, len(tensor)]) + tensor
    assert await both.call(bytes([0x1A, len(data)]) + data) == ("tensor", 3)


# Bad messages: the same over REST and gRPC where both can say it. More are in tests/stack/bad_input.py.

BAD = [
    ('{"data":{}}', "has no values"),
    ('{"data":{"ndarray":[{"a":1}]}}', "a value that is not a number"),
    ('{"data":{"tensor":{"shape":[-1],"values":[1]}}}', "send at most 32 non-negative dimensions"),
    ('{"data":{"tensor":{"values":[1,2]}}}', "holds 1 values and there are 2"),
    ('{"data":{"tftensor":{"floatVal":[1]}}}', "dtype is DT_INVALID"),
    ('{"data":{"tftensor":{"dtype":"DT_FLOAT","tensorShape":{"unknownRank":true}}}}', "unknown rank"),
    ('{"data":{"tftensor":{"dtype":"DT_FLOAT","tensorShape":{"dim":[{"size":"1"}]},"tensorContent":"AAAA"}}}', "<f4"),
    (
        '{"data":{"tftensor":{"dtype":"DT_UINT8","tensorShape":{"dim":[{"size":"1"}]},"intVal":[300]}}}',
        "send values of the tensor's type",
    ),
]
BAD_JSON = [
    ("[1]", "not a SeldonMessage"),
    ('{"data":{"ndarray":5}}', "not a list"),
    ('{"data":{"ndarray":' + "[" * 100 + "1" + "]" * 100 + "}}", "data "),
    ('{"data":{"ndarray":[1],"tensor":{}}}', "ndarray and tensor"),
    ('{"data":{"tensor":[1]}}', "not an object"),
    ('{"data":{"tensor":{"shape":[true],"values":[1]}}}', "integers"),
    ('{"data":{"tftensor":{"dtype":"nothing"}}}', "not a TensorProto"),
    ('{"data":{"ndarray":[1e400]}}', "not JSON"),
]


@pytest.mark.parametrize(("text", "words"), [*BAD, *BAD_JSON])
async def test_bad_messages(both: Both, text: str, words: str) -> None:
    """400 or INVALID_ARGUMENT, with one message that says what to send."""
    status, message = both.post(text.encode())
    assert (status, words in message) == (400, True), message
    if (text, words) in BAD:
        assert await both.call(proto(text)) == ("INVALID_ARGUMENT", message)


async def test_a_fault_of_ours_stays_in_the_log(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """INTERNAL and the fixed text, over both."""
    monkeypatch.setattr(payload, "model", Mock(side_effect=RuntimeError("secret")))
    body = b'{"data":{"ndarray":[1]}}'
    assert both.post(body) == (500, INTERNAL_MESSAGE)
    assert await both.call(proto(body)) == ("INTERNAL", INTERNAL_MESSAGE)
