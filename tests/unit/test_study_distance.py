"""The study `distance`: rows that ask for the same vectors, cells, published numbers, claims on made-up ratios."""

import gzip
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fiveway.transport.v1 import distance_pb2 as pb

from bench.analysis import claims
from bench.measure.measured import Cell
from bench.result import Interval
from bench.studies import STUDIES
from bench.studies.distance import (
    CITY,
    CLAIMS,
    DISTANCE,
    DISTANCES,
    FEW,
    MANY,
    NEAR,
    OCEAN,
    WORLD,
    answer,
    published_kb,
)
from bench.studies.study import RECEIVED
from locustfiles import toxiproxy
from locustfiles.answers import WrongAnswer
from locustfiles.clients import ANSWERS, UNARY, Answer
from locustfiles.clients.policy import COLD
from locustfiles.payloads import Images
from locustfiles.study_routes import WAYS
from locustfiles.study_routes.distance import (
    CHUNK,
    CHUNKS,
    CHUNKS_64K,
    GRPC,
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
    """[N,6], to the last bit, whatever carried them; the check after each call takes the answer."""
    form, answer = WAYS[row].format, served(row)
    form.check(answer, len(NUMBERS))
    assert form.read
    assert np.array_equal(form.read(answer), NUMBERS)


@pytest.mark.parametrize("row", ROWS)
def test_an_answer_with_fewer_vectors_is_wrong(row: str) -> None:
    """Twice as many were asked for."""
    with pytest.raises(WrongAnswer):
        WAYS[row].format.check(served(row), 2 * len(NUMBERS))


def test_an_answer_that_ends_in_a_vector_is_wrong() -> None:
    """A protobuf answer without its last byte; JSON where gzip was asked for."""
    with pytest.raises(WrongAnswer, match="no whole number of 2500 vectors"):
        WAYS[PROTOBUF].format.check(Answer(served(PROTOBUF).body[:-1]), len(NUMBERS))
    with pytest.raises(WrongAnswer, match="not a gzip answer"):
        WAYS[GZIP].format.check(served(JSON), len(NUMBERS))


def test_rows_differ_in_one_thing() -> None:
    """The window rows in their channel's options, the row of a channel per call in its client."""
    assert dict(ROWS[GRPC_64K].format.options) == dict(ROWS[CHUNKS_64K].format.options)
    assert dict(ROWS[GRPC_64K].format.options) == {"grpc.http2.bdp_probe": 0, "grpc.http2.lookahead_bytes": 65535}
    assert [name for name, route in ROWS.items() if route.format.client] == [GRPC_NEW]
    assert all(route.modelless and route.asks == "vectors" for route in ROWS.values())


def test_the_cells_are_those_of_the_issue() -> None:
    """Every row, three sizes, four round trips with a bandwidth, and policies; the quick form has every row."""
    assert STUDIES["distance"] is DISTANCE
    full, quick = DISTANCE.cells(False), DISTANCE.cells(True)
    for cells in (full, quick):
        assert {cell.route for cell in cells} == set(ROWS)
        assert len(set(cells)) == len(cells)
        assert {(cell.users, cell.batch, cell.name == cell.route) for cell in cells} == {(1, 1, True)}
    assert {cell.size for cell in full} == {FEW, LIST, MANY}
    assert {cell.distance for cell in full} == set(DISTANCES)
    assert [toxiproxy.parse(text).round_trip_ms for text in DISTANCES] == [0, 12, 150, 300]
    assert {cell.policy for cell in full} == {"pooled", COLD}
    assert {cell.distance for cell in quick} == {CITY}
    for where in DISTANCES:
        here = {cell.route for cell in full if (cell.size, cell.distance, cell.policy) == (LIST, where, "pooled")}
        assert {JSON, PROTOBUF, GRPC} <= here


@pytest.mark.parametrize("quick", [True, False])
def test_the_study_fits_its_time(quick: bool) -> None:
    """With what a visit takes besides its window: the quick form a minute, the whole one nine."""
    total = 0.0
    for cell in DISTANCE.cells(quick):
        window = max(DISTANCE.seconds / (3 if quick else 1), DISTANCE.least(cell))
        total += window + max(DISTANCE.warm_s, 2 * DISTANCE.least(cell) / 3.3) + 0.9
    assert (3 * total <= 60) if quick else (DISTANCE.blocks * total <= 540)


def test_a_long_call_has_a_long_visit() -> None:
    """A channel per call across the world takes seconds: its visit has three calls, and one before them."""
    near, world = (Cell(GRPC_NEW, GRPC_NEW, size=LIST, distance=where) for where in (NEAR, WORLD))
    assert DISTANCE.least(near) < 1 < 3 * 2.4 < DISTANCE.least(world)
    assert DISTANCE.least(Cell(GZIP, GZIP, size=MANY, distance=WORLD)) > 3 * 0.3


def test_the_published_numbers_are_beside_ours() -> None:
    """By client and server, in ms per 10 calls of 10,000 vectors; sizes in kB."""
    factors = asdict(Cell(GRPC_NEW, GRPC_NEW, size=LIST, distance=WORLD))
    assert DISTANCE.published(factors) == {
        "Eindhoven to Sydney": 55457, "Frankfurt to Sydney": 22730, "Sydney to Frankfurt": 22745,
    }  # fmt: skip
    assert DISTANCE.published(factors | {"route": PROTOBUF, "distance": CITY}) == {"Eindhoven to Frankfurt": 665}
    assert DISTANCE.published(factors | {"size": FEW}) == DISTANCE.published(factors | {"route": CHUNKS}) == {}
    assert DISTANCE.published(factors | {"distance": OCEAN}) == {}
    assert [published_kb(factors | {"route": GZIP, "size": size}) for size in (FEW, LIST, MANY)] == [59, 576, 5600]
    assert published_kb(factors) is None
    rate: Any = {"images_per_s": Interval(2.0, 1.0, 4.0)}
    assert DISTANCE.measures[0](rate) == Interval(5000, 2500, 10000)


def ratio(a: str, b: str, value: float, where: str, measure: str = "p50_ms", **factors: Any) -> dict[str, Any]:
    """A ratio with an interval of 1 % around `value`."""
    one, other = (Cell(name, name, size=LIST, distance=where, **factors) for name in (a, b))
    low, high = value * 0.99, value * 1.01
    verdict = "lower" if high < 1 else "higher" if low > 1 else "no difference shown"
    about = {"a": one.id, "b": other.id, "a_name": a, "b_name": b, "measure": measure, "why": ["a reason"]}
    return about | {"value": value, "low": low, "high": high, "verdict": verdict}


@pytest.mark.parametrize(
    ("claim", "found", "verdict"),
    [
        ("D1", ratio(GRPC_NEW, PROTOBUF, 6.5, WORLD), "reproduced"),
        ("D1", ratio(GRPC_NEW, PROTOBUF, 1.9, WORLD), "not reproduced"),
        ("D1", ratio(GRPC_NEW, PROTOBUF, 6.5, OCEAN), "cannot tell"),
        ("D1", ratio(GRPC_NEW, PROTOBUF, 6.5, WORLD, policy=COLD), "cannot tell"),
        ("D2", ratio(GRPC, PROTOBUF, 1.02, WORLD), "not reproduced"),
        ("D5", ratio(STREAM, GRPC, 90, NEAR), "reproduced"),
        ("D6", ratio(STREAM, GRPC, 1.03, WORLD), "reproduced"),
        ("D6", ratio(STREAM, GRPC, 3.0, WORLD), "not reproduced"),
        ("D6", ratio(STREAM, GRPC, 1.1, WORLD), "cannot tell"),
        ("D7", ratio(PROTOBUF, JSON, 0.5, CITY), "reproduced"),
    ],
)
def test_claims_are_judged(claim: str, found: dict[str, Any], verdict: str) -> None:
    """By ratios of the cells that they are about, and of no others."""
    cells = {cell.id: asdict(cell) for cell in DISTANCE.cells(False)}
    for policy in ("pooled", COLD):
        one = Cell(found["a_name"], found["a_name"], size=LIST, policy=policy, distance=found["a"].split("/")[-1])
        cells[one.id] = asdict(one)
    judged = {one["id"]: one["verdict"] for one in claims.judge(DISTANCE, cells, [found])}
    assert judged == {one.id: verdict if one.id == claim else "cannot tell" for one in CLAIMS}


@pytest.mark.parametrize(
    ("compressed", "marks", "verdicts"),
    [
        (580_000, [], ["reproduced", "reproduced"]),
        (900_000, [], ["not reproduced", "reproduced"]),
        (580_000, ["its answers do not agree"], ["cannot tell", "reproduced"]),
    ],
)
def test_claims_about_sizes_are_judged_by_the_bytes(compressed: int, marks: list[str], verdicts: list[str]) -> None:
    """Of equal cells, as they were counted; a cell with a mark says nothing."""
    received = {JSON: 1_600_000, GZIP: compressed, PROTOBUF: 605_000}
    cells = [Cell(row, row, size=LIST, distance=NEAR) for row in received]
    cells.append(Cell(JSON, JSON, size=FEW, distance=NEAR))  # its like is not there
    factors = {cell.id: asdict(cell) for cell in cells}
    found = [
        {"id": cell.id, RECEIVED: received[cell.route], "marks": marks if cell.route == GZIP else []} for cell in cells
    ]
    ratios = claims.sizes(DISTANCE, factors, found)
    assert len(ratios) == 2
    judged = {one["id"]: one for one in claims.judge(DISTANCE, factors, ratios)}
    assert [judged[name]["verdict"] for name in ("D8", "D9")] == verdicts
    assert "2.64x the bytes of vectors-protobuf (counted;" in judged["D9"]["text"]


def test_all_other_claims_are_untouched_by_sizes() -> None:
    """Nothing about time is made of bytes."""
    assert {claim.id for claim in CLAIMS if claim.measure == RECEIVED} == {"D8", "D9"}


def result(*ratios: dict[str, Any]) -> dict[str, Any]:
    """As much of a result as the answer needs."""
    return {"cells": [asdict(cell) | {"id": cell.id} for cell in DISTANCE.cells(False)], "analysis": {"ratios": ratios}}


def test_the_question_is_answered_from_the_numbers() -> None:
    """What a kept connection, a channel per call and the encoding make of it, each where it was measured."""
    near, far = ratio(GRPC, PROTOBUF, 1.2, NEAR), ratio(GRPC, PROTOBUF, 1.01, WORLD)
    new, plain = ratio(GRPC_NEW, PROTOBUF, 6.91, WORLD), ratio(PROTOBUF, JSON, 0.82, WORLD)
    assert answer(result(near, far, new, plain)) == (
        "Across the world (300 ms, 100 Mbit/s) a gRPC list takes 1.01 times as long as REST with protobuf on a kept"
        " connection and 6.91 times with a channel per call; REST with protobuf takes 0.82 times as long as with JSON."
    )
    assert answer(result(near, far)) == (
        "Across the world (300 ms, 100 Mbit/s) a gRPC list takes 1.01 times as long as REST with protobuf on a kept"
        " connection."
    )
    assert answer(result(near)) == ""
