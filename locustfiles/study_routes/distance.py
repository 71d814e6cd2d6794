"""The rows of study `distance`: long lists of vectors, as JSON and protobuf, over REST and gRPC.

Every row keeps its connection, but for `...-new`, which opens a channel for each call, as the published study did. How
much the client lets the server send ahead (the HTTP/2 window) differs between the rows too.
"""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from fiveway.transport.v1.distance_pb2 import (
    ListVectorsRequest,
    ListVectorsResponse,
    StreamVectorsRequest,
    StreamVectorsResponse,
)
from numpy.typing import NDArray

from locustfiles.answers import Check, WrongAnswer
from locustfiles.clients import ANSWERS, Answer, Client, Endpoint, Payload
from locustfiles.clients.policy import ColdClient
from locustfiles.payloads import Images
from locustfiles.routes import Format, Route

Options = Sequence[tuple[str, int]]
"""Arguments of a gRPC channel."""
Vectors = NDArray[np.float64]
"""[N,6]: start x, y, z, end x, y, z."""

VECTOR_BYTES = 60
"""A vector in a protobuf list: no coordinate of the server's is 0, which protobuf would leave out."""
CHUNK = 1_000
WINDOW = 64 * 1024 - 1
"""Of HTTP/2, where nobody asks for more."""

LIST = "10000"
"""Vectors of a list, as published."""


# ---- what is sent: how many vectors to answer


def _get(images: Images) -> Payload:
    """The number is in the path."""
    return Payload(b"", int(images.size))


def _list(images: Images) -> Payload:
    count = int(images.size)
    return Payload(ListVectorsRequest(count=count).SerializeToString(), count)


def _stream(per_message: int, images: Images) -> Payload:
    count = int(images.size)
    return Payload(StreamVectorsRequest(count=count, per_message=per_message).SerializeToString(), count)


# ---- whether all of it came: cheap, and after every call


def check_json(answer: Answer, vectors: int) -> None:
    _expect(answer.body.count(b'"start"'), vectors)


def check_gzip(answer: Answer, vectors: int) -> None:
    """By the length that gzip writes at its end: too long for fewer vectors with as many digits as ours have."""
    if answer.headers.get("content-encoding") != "gzip":
        raise WrongAnswer("not a gzip answer")
    length = int.from_bytes(answer.body[-4:], "little")
    if not 100 * vectors < length < 200 * vectors:
        raise WrongAnswer(f"{length} bytes of JSON for {vectors} vectors")


def check_protobuf(answer: Answer, vectors: int) -> None:
    """Messages of a stream in a row are as long as one list of all of them."""
    whole, rest = divmod(len(answer.body), VECTOR_BYTES)
    _expect(whole if not rest else -1, vectors)


def _expect(answered: int, asked: int) -> None:
    if answered != asked:
        raise WrongAnswer(f"{answered if answered >= 0 else 'no whole number'} of {asked} vectors")


# ---- what a program makes of it


def read_json(answer: Answer) -> Vectors:
    vectors = json.loads(answer.body)["vectors"]
    ends = [(vector["start"], vector["end"]) for vector in vectors]
    return np.array([(a["x"], a["y"], a["z"], b["x"], b["y"], b["z"]) for a, b in ends])


def read_gzip(answer: Answer) -> Vectors:
    return read_json(Answer(gzip.decompress(answer.body)))


def read_list(answer: Answer) -> Vectors:
    return np.array(_coordinates(ListVectorsResponse.FromString(answer.body)))


def read_stream(per_message: int, answer: Answer) -> Vectors:
    """Message by message, as a program gets them."""
    step = per_message * VECTOR_BYTES
    messages = (answer.body[start : start + step] for start in range(0, len(answer.body), step))
    return np.array([row for message in messages for row in _coordinates(StreamVectorsResponse.FromString(message))])


def _coordinates(message: ListVectorsResponse | StreamVectorsResponse) -> list[tuple[float, ...]]:
    ends = [(vector.start, vector.end) for vector in message.vectors]
    return [(a.x, a.y, a.z, b.x, b.y, b.z) for a, b in ends]


# ---- the rows


def _new_channel(options: Options, to: Endpoint) -> Client:
    """A channel for every call, inside its clock, whatever the policy."""
    from locustfiles.clients.grpcio import (
        GrpcioClient,  # patched by gevent where calls are made, not where this is read
    )

    return ColdClient(lambda: GrpcioClient(to, options=options))


SMALL = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", WINDOW))
"""The window stays small: grpcio does not measure the connection. It still asks for all of a message that has begun, so
a list takes two round trips, and only a stream of messages goes by the window."""


def _rest(name: str, encoding: str, check: Check, read: Callable[[Answer], Vectors]) -> Route:
    path = f"/transport/vectors/{encoding}?count={{size}}"
    form = Format("HTTP", _get, check, read)
    return Route(name, path, "echo-http:8000", form, of="echo-http", method="GET", asks="vectors", modelless=True)


def _grpc(name: str, *, per_message: int = 0, new: bool = False, options: Options = ()) -> Route:
    """A list, or a stream of messages of so many vectors."""
    client = partial(_new_channel, options) if new else None
    form = Format("gRPC", _list, check_protobuf, read_list, grpcio=True, options=options, client=client)
    if per_message:
        encode, read = partial(_stream, per_message), partial(read_stream, per_message)
        form = replace(form, encode=encode, read=read, messages=ANSWERS)
    path = f"/fiveway.transport.v1.DistanceService/{'StreamVectors' if per_message else 'ListVectors'}"
    return Route(name, path, "echo-grpc:50051", form, of="echo-grpc", asks="vectors", modelless=True)


JSON, GZIP, PROTOBUF = "vectors-json", "vectors-json-gzip", "vectors-protobuf"
GRPC, STREAM, CHUNKS = "vectors-grpc-list", "vectors-grpc-stream", "vectors-grpc-stream-1000"
GRPC_NEW, GRPC_64K, CHUNKS_64K = "vectors-grpc-list-new", "vectors-grpc-list-64k", "vectors-grpc-stream-1000-64k"

ROWS: Mapping[str, Route] = {
    route.name: route
    for route in (
        _rest(JSON, "json", check_json, read_json),
        _rest(GZIP, "json-gzip", check_gzip, read_gzip),
        _rest(PROTOBUF, "protobuf", check_protobuf, read_list),
        _grpc(GRPC),
        _grpc(STREAM, per_message=1),
        _grpc(CHUNKS, per_message=CHUNK),
        _grpc(GRPC_NEW, new=True),
        _grpc(GRPC_64K, options=SMALL),
        _grpc(CHUNKS_64K, per_message=CHUNK, options=SMALL),
    )
}
