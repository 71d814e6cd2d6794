"""The rows of study `base`: a structured request, an image as base64 text, an image as bytes, over REST and gRPC.

All rows of one kind send the same request and get the same answer: ENTRIES entries, and for an image its length and
CRC, which prove that it was received and, if it was text, decoded. The ways of asking:

- echo-http: FastAPI, asked by the client of every HTTP route here. Behind echo-http-fast it is msgspec and pybase64.
- echo-httpx: the same server, asked as the original did, by a client in pure Python; echo-http2: that one over HTTP/2.
- echo-grpc: grpc.aio, a call each by grpcio; echo-grpc-light: by the client of every gRPC route here;
  echo-grpc-stream: one stream of grpcio per user, a message each way per request.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from fiveway.transport.v1 import base_pb2 as pb
from google.protobuf.message import Message

from locustfiles import payloads
from locustfiles.answers import expect, parsed
from locustfiles.clients import BOTH, UNARY, Answer, Payload
from locustfiles.clients.python_http import HttpxClient
from locustfiles.payloads import Images
from locustfiles.routes import Format, Route, by_name

ENTRIES, HUNDRED = 10, 100
STRUCTURED, BASE64, BINARY = KINDS = ("structured", "base64", "binary")
STREAM = (STRUCTURED, BINARY)
HUNDRED_ROW = "echo-grpc-structured-100"
COUNTED = "{:g} of {} entries"
# Two texts, a number and a map: about 1 kB, as the original's.
_FIELDS: Mapping[str, Any] = {"name": "Hello", "text": "World", "attributes": {str(i): str(i) for i in range(100)}}


def _asked(kind: str, images: Images, entries: int = ENTRIES) -> dict[str, Any]:
    """The fields of a request."""
    if kind == STRUCTURED:
        return {**_FIELDS, "entries": entries}
    jpeg = payloads.jpeg(images).body
    return {"image": base64.b64encode(jpeg).decode() if kind == BASE64 else jpeg, "entries": entries}


def encode_json(kind: str, images: Images) -> Payload:
    return Payload(json.dumps(_asked(kind, images)).encode(), 1)


def encode_grpc(method: str, kind: str, entries: int, images: Images) -> Payload:
    message = getattr(pb, f"{kind.title()}Request")(**_asked(kind, images, entries))
    if method != kind.title():
        message = getattr(pb, f"{method}Request")(request=message)
    return Payload(message.SerializeToString(), 1)


def check_json(answer: Answer, images: int) -> None:
    expect(answer.body.count(b'"label"'), ENTRIES, COUNTED)


def check_grpc(kind: type[Message], entries: int, answer: Answer, images: int) -> None:
    message: Any = parsed(kind, answer.body)
    expect(len(getattr(message, "response", message).entries), entries, COUNTED)


def read_json(answer: Answer) -> Any:
    """The answer as Python's own things."""
    return json.loads(answer.body)


def read_grpc(kind: type[Message], answer: Answer) -> Any:
    """The same for a protobuf message: the dictionary that its JSON form is."""
    message: Any = kind.FromString(answer.body)
    message = getattr(message, "response", message)
    entries = [{"label": entry.label, "score": entry.score} for entry in message.entries]
    if isinstance(message, pb.StructuredResponse):
        return {"name": message.name, "text": message.text, "entries": entries, "attributes": dict(message.attributes)}
    return {"size_bytes": message.size_bytes, "crc32": message.crc32, "entries": entries}


def _http(way: str, kind: str, prefix: str = "", http2: bool | None = None) -> Route:
    client = None if http2 is None else partial(HttpxClient, http2=http2)
    headers = {"content-type": "application/json"}
    form = Format("HTTP", partial(encode_json, kind), check_json, read_json, headers, max_batch=1, client=client)
    path = f"/transport/{prefix}{kind}"
    if kind == BINARY:
        form = replace(form, encode=payloads.jpeg, headers={"content-type": "image/jpeg"})
        path += f"?entries={ENTRIES}"
    return Route(f"{way}-{kind}", path, "echo-http:8000", form, of="echo-http", asks=_asks(kind))


def _grpc(way: str, kind: str, *, messages: str = UNARY, entries: int = ENTRIES, grpcio: bool = True) -> Route:
    method = kind.title() if messages == UNARY else f"{kind.title()}Stream"
    answered = getattr(pb, f"{method}Response")
    form = Format(
        "gRPC",
        partial(encode_grpc, method, kind, entries),
        partial(check_grpc, answered, entries),
        partial(read_grpc, answered),
        max_batch=1,
        grpcio=grpcio,
        messages=messages,
    )
    path = f"/fiveway.transport.v1.BaseService/{method}"
    return Route(f"{way}-{kind}", path, "echo-grpc:50051", form, of="echo-grpc", asks=_asks(kind))


def _asks(kind: str) -> str:
    """Of an image length and CRC are asked for, however it is sent."""
    return STRUCTURED if kind == STRUCTURED else "image"


# The original's gRPC server answered ten times as many as its REST server.
_HUNDRED = replace(_grpc("", STRUCTURED, entries=HUNDRED), name=HUNDRED_ROW, asks=f"{HUNDRED} entries")
ROWS = by_name(
    *(row for kind in KINDS for row in (_http("echo-http", kind), _grpc("echo-grpc", kind))),
    *(_grpc("echo-grpc-light", kind, grpcio=False) for kind in KINDS),
    *(_http("echo-httpx", kind, http2=False) for kind in KINDS),
    *(_http("echo-http-fast", kind, "fast/") for kind in KINDS),
    *(_http("echo-http2", kind, http2=True) for kind in (STRUCTURED, BINARY)),
    *(_grpc("echo-grpc-stream", kind, messages=BOTH) for kind in STREAM),
    _HUNDRED,
)
