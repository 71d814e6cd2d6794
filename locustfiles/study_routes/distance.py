"""The rows of study `distance`: long lists of vectors, as JSON and protobuf, over REST and gRPC.

Every row keeps its connection, except `...-new`, which opens a channel for each call, as the published study did. The
rows also differ in the HTTP/2 window, which is how much the server may send ahead.
"""

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from fiveway.transport.v1 import distance_pb2 as pb
from numpy.typing import NDArray

from locustfiles.answers import Check, WrongAnswer, expect
from locustfiles.clients import ANSWERS, UNARY, Answer, Client, Endpoint, Payload
from locustfiles.clients.policy import ColdClient
from locustfiles.payloads import Images
from locustfiles.routes import Format, Route, by_name

Options = Sequence[tuple[str, int]]
"""Arguments of a gRPC channel."""
Vectors = NDArray[np.float64]
"""[N,6]: start x, y, z, end x, y, z."""

VECTOR_BYTES = 60
"""Bytes of a vector in a protobuf list. The server's coordinates are never 0, which protobuf would leave out."""
CHUNK = 1_000
WINDOW = 64 * 1024 - 1
"""HTTP/2's default window."""

LIST = "10000"
"""Vectors of a list, as published."""


# ---- requests: the number of vectors to answer


def _get(images: Images) -> Payload:
    """The number is in the path."""
    return Payload(b"", int(images.size))


def _ask(per_message: int, images: Images) -> Payload:
    """For a list, or for a stream of messages of so many vectors."""
    count = int(images.size)
    stream = pb.StreamVectorsRequest(count=count, per_message=per_message)
    return Payload((stream if per_message else pb.ListVectorsRequest(count=count)).SerializeToString(), count)


# ---- checks that the answer is complete: cheap, after every call

COUNTED = "{:g} of {} vectors"


def check_json(answer: Answer, vectors: int) -> None:
    expect(answer.body.count(b'"start"'), vectors, COUNTED)


def check_gzip(answer: Answer, vectors: int) -> None:
    """Checked by the length at the end of the gzip data: fewer vectors could not be as long."""
    if answer.headers.get("content-encoding") != "gzip":
        raise WrongAnswer("not a gzip answer")
    length = int.from_bytes(answer.body[-4:], "little")
    if not 100 * vectors < length < 200 * vectors:
        raise WrongAnswer(f"{length} bytes of JSON for {vectors} vectors")


def check_protobuf(answer: Answer, vectors: int) -> None:
    """Messages of a stream in a row are as long as one list of all of them."""
    expect(len(answer.body) / VECTOR_BYTES, vectors, COUNTED)


# ---- readers: the answer as data of a program


def read_json(answer: Answer) -> Vectors:
    vectors = json.loads(answer.body)["vectors"]
    ends = [(vector["start"], vector["end"]) for vector in vectors]
    return np.array([(a["x"], a["y"], a["z"], b["x"], b["y"], b["z"]) for a, b in ends])


def read_gzip(answer: Answer) -> Vectors:
    return read_json(Answer(gzip.decompress(answer.body)))


def read_protobuf(per_message: int, answer: Answer) -> Vectors:
    """One list, or message by message, as a program gets them."""
    kind = pb.StreamVectorsResponse if per_message else pb.ListVectorsResponse
    step = per_message * VECTOR_BYTES or len(answer.body)
    messages = (kind.FromString(answer.body[start : start + step]) for start in range(0, len(answer.body), step))
    ends = ((vector.start, vector.end) for message in messages for vector in message.vectors)
    return np.array([(a.x, a.y, a.z, b.x, b.y, b.z) for a, b in ends])


# ---- the rows


def _new_channel(to: Endpoint) -> Client:
    """A channel for every call, inside its clock, whatever the policy."""
    # Not above: gevent patches it where calls are made, not where this is read.
    from locustfiles.clients.grpcio import GrpcioClient

    return ColdClient(lambda: GrpcioClient(to))


SMALL = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", WINDOW))
"""The window stays small, because grpcio does not measure the connection. It still requests the rest of a message once
that has begun, so a list takes two round trips; only a stream of messages is limited by the window."""


def _rest(name: str, encoding: str, check: Check, read: Callable[[Answer], Vectors]) -> Route:
    path = f"/transport/vectors/{encoding}?count={{size}}"
    form = Format("HTTP", _get, check, read)
    return Route(name, path, "echo-http:8000", form, of="echo-http", method="GET", asks="vectors")


def _grpc(name: str, *, per_message: int = 0, new: bool = False, options: Options = ()) -> Route:
    """A list, or a stream of messages of so many vectors."""
    encode, read = partial(_ask, per_message), partial(read_protobuf, per_message)
    form = Format("gRPC", encode, check_protobuf, read, grpcio=True, options=options)
    form = replace(form, client=_new_channel if new else None, messages=ANSWERS if per_message else UNARY)
    path = f"/fiveway.transport.v1.DistanceService/{'StreamVectors' if per_message else 'ListVectors'}"
    return Route(name, path, "echo-grpc:50051", form, of="echo-grpc", asks="vectors")


JSON, GZIP, PROTOBUF = "vectors-json", "vectors-json-gzip", "vectors-protobuf"
GRPC, STREAM, CHUNKS = "vectors-grpc-list", "vectors-grpc-stream", "vectors-grpc-stream-1000"
GRPC_NEW, GRPC_64K, CHUNKS_64K = "vectors-grpc-list-new", "vectors-grpc-list-64k", "vectors-grpc-stream-1000-64k"

ROWS = by_name(
    _rest(JSON, "json", check_json, read_json),
    _rest(GZIP, "json-gzip", check_gzip, read_gzip),
    _rest(PROTOBUF, "protobuf", check_protobuf, partial(read_protobuf, 0)),
    _grpc(GRPC),
    _grpc(STREAM, per_message=1),
    _grpc(CHUNKS, per_message=CHUNK),
    _grpc(GRPC_NEW, new=True),
    _grpc(GRPC_64K, options=SMALL),
    _grpc(CHUNKS_64K, per_message=CHUNK, options=SMALL),
)
