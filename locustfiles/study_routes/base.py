"""The rows of study `base`: a structured request, an image as base64 text, an image as bytes, over REST and gRPC.

All rows of one kind ask for the same and get the same answer: ENTRIES entries, and of an image its length and its CRC,
so that it was received, and decoded where it was text. The ways of asking:

- echo-http: FastAPI, asked by the client of every HTTP route here. Behind echo-http-fast it is msgspec and pybase64.
- echo-httpx: the same server, asked as the original did, by a client in pure Python; echo-http2: that one over HTTP/2.
- echo-grpc: grpc.aio, a call each; echo-grpc-stream: one stream per user, a message each way per request.
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from fiveway.transport.v1 import base_pb2 as pb
from google.protobuf.message import DecodeError, Message

from locustfiles import payloads
from locustfiles.answers import WrongAnswer
from locustfiles.clients import BOTH, UNARY, Answer, Payload
from locustfiles.clients.python_http import HttpxClient
from locustfiles.payloads import Encoder, Images
from locustfiles.routes import Format, Route

ENTRIES, HUNDRED = 10, 100
STRUCTURED, BASE64, BINARY = KINDS = ("structured", "base64", "binary")
# About 1 kB, as the original's.
_FIELDS: Mapping[str, Any] = {"name": "Hello", "text": "World", "attributes": {str(i): str(i) for i in range(100)}}


def structured_json(images: Images) -> Payload:
    """Two texts, a number, a map."""
    return Payload(json.dumps({**_FIELDS, "entries": ENTRIES}).encode(), 1)


def base64_json(images: Images) -> Payload:
    return Payload(json.dumps({"image": _base64(images), "entries": ENTRIES}).encode(), 1)


def _structured(images: Images, entries: int = ENTRIES) -> pb.StructuredRequest:
    return pb.StructuredRequest(**_FIELDS, entries=entries)


def _base64_request(images: Images) -> pb.Base64Request:
    return pb.Base64Request(image=_base64(images), entries=ENTRIES)


def _binary(images: Images) -> pb.BinaryRequest:
    return pb.BinaryRequest(image=payloads.jpeg(images).body, entries=ENTRIES)


def _base64(images: Images) -> str:
    return base64.b64encode(payloads.jpeg(images).body).decode()


def _message(request: Callable[[Images], Message], images: Images) -> Payload:
    return Payload(request(images).SerializeToString(), 1)


def check_json(answer: Answer, images: int) -> None:
    _expect(answer.body.count(b'"label"'), ENTRIES)


def check_grpc(kind: type[Message], answer: Answer, images: int, entries: int = ENTRIES) -> None:
    try:
        message: Any = kind.FromString(answer.body)
    except DecodeError as error:
        raise WrongAnswer(f"not a {kind.DESCRIPTOR.name}") from error
    _expect(len(getattr(message, "response", message).entries), entries)


def _expect(answered: int, entries: int) -> None:
    if answered != entries:
        raise WrongAnswer(f"{answered} of {entries} entries")


def read_json(answer: Answer) -> Any:
    """The answer as Python's own things."""
    return json.loads(answer.body)


def read_grpc(kind: type[Message], answer: Answer) -> Any:
    """The same of a message: the dictionary that the JSON is."""
    message: Any = kind.FromString(answer.body)
    message = getattr(message, "response", message)
    entries = [{"label": entry.label, "score": entry.score} for entry in message.entries]
    if isinstance(message, pb.StructuredResponse):
        return {"name": message.name, "text": message.text, "entries": entries, "attributes": dict(message.attributes)}
    return {"size_bytes": message.size_bytes, "crc32": message.crc32, "entries": entries}


_JSON = {"content-type": "application/json"}
# Kind -> encoder, headers, end of the path.
_HTTP: Mapping[str, tuple[Encoder, Mapping[str, str], str]] = {
    STRUCTURED: (structured_json, _JSON, "structured"),
    BASE64: (base64_json, _JSON, "base64"),
    BINARY: (payloads.jpeg, {"content-type": "image/jpeg"}, f"binary?entries={ENTRIES}"),
}
# Kind -> method, request, message of the answer.
_Method = tuple[str, Callable[[Images], Message], type[Message]]
_GRPC: Mapping[str, _Method] = {
    STRUCTURED: ("Structured", _structured, pb.StructuredResponse),
    BASE64: ("Base64", _base64_request, pb.Base64Response),
    BINARY: ("Binary", _binary, pb.BinaryResponse),
}
STREAM: Mapping[str, _Method] = {
    STRUCTURED: (
        "StructuredStream",
        lambda images: pb.StructuredStreamRequest(request=_structured(images)),
        pb.StructuredStreamResponse,
    ),
    BINARY: (
        "BinaryStream",
        lambda images: pb.BinaryStreamRequest(request=_binary(images)),
        pb.BinaryStreamResponse,
    ),
}


def _asks(kind: str) -> str:
    """Of an image length and CRC are asked for, however it is sent."""
    return STRUCTURED if kind == STRUCTURED else "image"


def _http(way: str, kind: str, prefix: str = "", http2: bool | None = None) -> Route:
    encode, headers, path = _HTTP[kind]
    client = None if http2 is None else partial(HttpxClient, http2=http2)
    return Route(
        f"{way}-{kind}",
        f"/transport/{prefix}{path}",
        "echo-http:8000",
        Format("HTTP", encode, check_json, read_json, headers, max_batch=1, client=client),
        of="echo-http",
        asks=_asks(kind),
        modelless=True,
    )


def _grpc(way: str, kind: str, messages: str = UNARY) -> Route:
    method, request, answered = (_GRPC if messages == UNARY else STREAM)[kind]
    return Route(
        f"{way}-{kind}",
        f"/fiveway.transport.v1.BaseService/{method}",
        "echo-grpc:50051",
        Format(
            "gRPC",
            partial(_message, request),
            partial(check_grpc, answered),
            partial(read_grpc, answered),
            max_batch=1,
            grpcio=True,
            messages=messages,
        ),
        of="echo-grpc",
        asks=_asks(kind),
        modelless=True,
    )


HUNDRED_ROW = "echo-grpc-structured-100"
_SAME = _grpc("echo-grpc", STRUCTURED)
# The original's gRPC server answered ten times as many as its REST server.
_HUNDRED = replace(
    _SAME,
    name=HUNDRED_ROW,
    format=replace(
        _SAME.format,
        encode=partial(_message, partial(_structured, entries=HUNDRED)),
        check=partial(check_grpc, pb.StructuredResponse, entries=HUNDRED),
    ),
    asks=f"{HUNDRED} entries",
)
_ROWS = (
    *(row for kind in KINDS for row in (_http("echo-http", kind), _grpc("echo-grpc", kind))),
    *(_http("echo-httpx", kind, http2=False) for kind in KINDS),
    *(_http("echo-http-fast", kind, "fast/") for kind in KINDS),
    *(_http("echo-http2", kind, http2=True) for kind in (STRUCTURED, BINARY)),
    *(_grpc("echo-grpc-stream", kind, BOTH) for kind in STREAM),
    _HUNDRED,
)
ROWS: Mapping[str, Route] = {route.name: route for route in _ROWS}
