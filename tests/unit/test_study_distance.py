"""The rows of study `distance` ask for the same vectors, and read the same numbers."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from fiveway.transport.v1 import distance_pb2 as pb

from locustfiles.answers import WrongAnswer
from locustfiles.clients import ANSWERS, UNARY, Answer
from locustfiles.payloads import Images
from locustfiles.study_routes import WAYS
from locustfiles.study_routes.distance import (
    CHUNK,
    CHUNKS,
    CHUNKS_64K,
    GRPC_64K,
    GRPC_NEW,
    GZIP,
    JSON,
    LIST,
    PROTOBUF,
    ROWS,
    STREAM,
)

NUMBERS = np.random.default_rng(1).uniform(0.01, 1, (2_500, 6))
ROWS_OF_NUMBERS = [[float(number) for number in row] for row in NUMBERS]
VECTORS = [
    pb.Vector(start=pb.Point(x=a, y=b, z=c), end=pb.Point(x=d, y=e, z=f)) for a, b, c, d, e, f in ROWS_OF_NUMBERS
]


def served(row: str) -> Answer:
    """The vectors of NUMBERS, as the server would answer this row."""
    if row in (JSON, GZIP):
        ends = [({"x": a, "y": b, "z": c}, {"x": d, "y": e, "z": f}) for a, b, c, d, e, f in ROWS_OF_NUMBERS]
        vectors = [{"start": start, "end": end} for start, end in ends]
        body = json.dumps({"vectors": vectors}, separators=(",", ":")).encode()
        return Answer(gzip.compress(body), {"content-encoding": "gzip"}) if row == GZIP else Answer(body)
    step = {STREAM: 1, CHUNKS: CHUNK, CHUNKS_64K: CHUNK}.get(row, len(VECTORS))
    starts = range(0, len(VECTORS), step)
    messages = [pb.StreamVectorsResponse(vectors=VECTORS[start : start + step]) for start in starts]
    return Answer(b"".join(message.SerializeToString() for message in messages))


@pytest.mark.parametrize("row", ROWS)
def test_every_row_asks_for_so_many_vectors(row: str) -> None:
    """In the path over REST, in the message over gRPC."""
    route = WAYS[row]
    payload = route.format.encode(Images((), Path(), "", LIST))
    assert payload.images == 10_000
    if route.format.protocol == "HTTP":
        assert (route.method, payload.body, route.cluster) == ("GET", b"", "echo-http")
        assert route.path.format(model="", size=LIST).endswith("?count=10000")
        return
    assert route.cluster == "echo-grpc"
    if route.format.messages == UNARY:
        assert route.path.endswith("/ListVectors")
        assert pb.ListVectorsRequest.FromString(payload.body).count == 10_000
        return
    assert (route.format.messages, route.path.rpartition("/")[2]) == (ANSWERS, "StreamVectors")
    asked = pb.StreamVectorsRequest.FromString(payload.body)
    assert (asked.count, asked.per_message) == (10_000, 1 if row == STREAM else 1_000)


@pytest.mark.parametrize("row", ROWS)
def test_every_row_reads_the_same_numbers(row: str) -> None:
    """[N,6], to the last bit, whatever carried them. The check after each call takes the answer, but not one of half as
    many vectors, a message without its last byte, or JSON where gzip was asked for."""
    form, answer = WAYS[row].format, served(row)
    form.check(answer, len(NUMBERS))
    assert np.array_equal(form.read(answer), NUMBERS)
    with pytest.raises(WrongAnswer):
        form.check(answer, 2 * len(NUMBERS))
    if broken := {PROTOBUF: Answer(answer.body[:-1]), GZIP: served(JSON)}.get(row):
        with pytest.raises(WrongAnswer):
            form.check(broken, len(NUMBERS))


def test_rows_differ_in_one_thing() -> None:
    """The window rows in their channel's options, the row of a channel per call in its client."""
    assert dict(ROWS[GRPC_64K].format.options) == dict(ROWS[CHUNKS_64K].format.options)
    assert dict(ROWS[GRPC_64K].format.options) == {"grpc.http2.bdp_probe": 0, "grpc.http2.lookahead_bytes": 65535}
    assert [name for name, route in ROWS.items() if route.format.client] == [GRPC_NEW]
