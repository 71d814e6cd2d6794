"""The study `distance`: long lists of small things, as JSON and protobuf, over REST and gRPC, near and far away.

The published study asked for 10,000 vectors ten times in a row and found gRPC 4.7 times as slow as REST on the way to
Sydney. Its REST calls shared a kept connection, its gRPC calls opened a channel each, and a new TCP connection begins
slowly: the row `...-new` does as it did. The rows are in locustfiles/study_routes/distance.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from bench import words
from bench.measure.measured import Cell
from bench.result import Result
from bench.studies.study import MEDIAN, PER_SECOND, RECEIVED, Claim, Measure, Ratios, Study, cross, ratios_of, rows_of
from locustfiles import toxiproxy
from locustfiles.clients.policy import COLD, POOLED
from locustfiles.study_routes.distance import (
    CHUNKS,
    CHUNKS_64K,
    GRPC,
    GRPC_64K,
    GRPC_NEW,
    GZIP,
    JSON,
    LIST,
    PROTOBUF,
    STREAM,
    VECTOR_BYTES,
)

DISTANCES = NEAR, CITY, OCEAN, WORLD = "0ms-1000mbit", "12ms-100mbit", "150ms-100mbit", "300ms-100mbit"
"""One room, Eindhoven to Frankfurt, half way, and Europe to Sydney."""
FEW, MANY = "1000", "100000"

_SERVER_US = {JSON: 3, GZIP: 18, STREAM: 160}
"""What a vector costs a server or a client, where it is much."""
_NEW = 8
"""Round trips of a list on a new connection: handshake, settings, and six in slow start."""
_ROUND_TRIPS = {GRPC_NEW: _NEW, GRPC_64K: 2, CHUNKS_64K: 6}
_CALLS = 3.3
"""So many fill a visit. The first begins before its steady window: three are left, twelve in all blocks."""


def least(cell: Cell) -> float:
    """By about how long a call takes."""
    way, count = toxiproxy.parse(cell.distance), int(cell.size)
    bits = 8 * count * (160 if cell.route == JSON else VECTOR_BYTES)
    waits = _ROUND_TRIPS.get(cell.route, _NEW if cell.policy == COLD else 1) * way.round_trip_ms / 1e3
    call_s = waits + bits / way.mbit_per_s / 1e6 + count * _SERVER_US.get(cell.route, 0) / 1e6
    return _CALLS * call_s


def cells(quick: bool) -> Sequence[Cell]:
    """What was published, and where windows, connections and sizes make the difference."""

    def some(rows: Sequence[str], size: str, *distances: str, policy: str = POOLED) -> list[Cell]:
        return cross(Cell("", "", size=size, policy=policy), distance=distances, route=rows)

    if quick:
        return [
            *some([JSON, GZIP, PROTOBUF, GRPC, CHUNKS, GRPC_NEW, GRPC_64K, CHUNKS_64K], LIST, CITY),
            *some([GRPC, STREAM], FEW, CITY),
        ]
    return [
        *some([JSON, PROTOBUF, GRPC], LIST, *DISTANCES),
        *some([STREAM, CHUNKS], LIST, NEAR, WORLD),
        *some([GZIP], LIST, NEAR, CITY),
        *some([GRPC_NEW], LIST, NEAR, CITY, WORLD),
        *some([GRPC_64K, CHUNKS, CHUNKS_64K], LIST, OCEAN),
        *some([PROTOBUF, GRPC], LIST, CITY, policy=COLD),
        *some([JSON, GZIP, PROTOBUF, GRPC], FEW, NEAR),
        *some([JSON, GZIP, PROTOBUF, GRPC], MANY, NEAR),
        *some([PROTOBUF, GRPC], MANY, WORLD),
    ]


def published(cell: Cell) -> Mapping[str, float]:
    """ms per 10 calls, by the way it was measured on; nothing for what was not published."""
    row_name = cell.route.removesuffix("-new")
    return {
        f"{row['client']} to {row['server']}": float(row[row_name])
        for row in rows_of("distance_ms_per_10_calls.csv")
        if row_name in row and (LIST, row["distance"]) == (cell.size, cell.distance)
    }


def published_kb(cell: Cell) -> float | None:
    """The size of an answer's body in KiB, which the page calls kB."""
    sizes = {row["vectors"]: row for row in rows_of("distance_response_kb.csv")}
    found = sizes.get(cell.size, {}).get(cell.route)
    return float(found) if found else None


def _at(*distances: str) -> Mapping[str, Any]:
    return {"distance": distances, "size": LIST, "policy": POOLED}


CLAIMS = {
    "D1": Claim(
        "Across the world a gRPC list takes 4.7 times as long as REST with protobuf (a new gRPC channel for each call)",
        "11,658 against 55,457 ms for 10 calls from Eindhoven to Sydney; 4,930 against 22,730 from Frankfurt",
        Ratios([(GRPC_NEW, PROTOBUF)], "higher", where=_at(WORLD), size=4.7),
    ),
    "D2": Claim(
        "Across the world a gRPC list takes 4.7 times as long as REST with protobuf (one kept connection)",
        "the same numbers, which the page gives for gRPC as such",
        Ratios([(GRPC, PROTOBUF)], "higher", where=_at(WORLD), size=4.7),
    ),
    "D3": Claim(
        "Over 12 ms a gRPC list takes 2.5 times as long as REST with protobuf (a new gRPC channel for each call)",
        "665 against 1,689 ms for 10 calls from Eindhoven to Frankfurt",
        Ratios([(GRPC_NEW, PROTOBUF)], "higher", where=_at(CITY), size=2.5),
    ),
    "D4": Claim(
        "On one machine a gRPC list takes 1.5 times as long as REST with protobuf (a new gRPC channel for each call)",
        "77 against 118 ms for 10 calls",
        Ratios([(GRPC_NEW, PROTOBUF)], "higher", where=_at(NEAR), size=1.5),
    ),
    "D5": Claim(
        "On one machine a gRPC stream of single vectors takes 15 times as long as a list",
        "118 against 1,764 ms for 10 calls",
        Ratios([(STREAM, GRPC)], "higher", where=_at(NEAR), size=15),
    ),
    "D6": Claim(
        "Across the world a stream of single vectors takes as long as a list",
        "55,457 against 57,537 ms for 10 calls",
        Ratios([(STREAM, GRPC)], "equal", where=_at(WORLD)),
    ),
    "D7": Claim(
        "REST is faster with protobuf than with JSON, near and far",
        "77 against 326 ms for 10 calls on one machine, 665 against 883 to Frankfurt, 11,658 against 16,161 to Sydney",
        Ratios([(PROTOBUF, JSON)], "lower", where=_at(NEAR, CITY, WORLD)),
    ),
    "D8": Claim(
        "Compressed JSON is as small as protobuf",
        "59, 576 and 5,600 kB against 59, 586 and 5,720",
        Ratios([(GZIP, PROTOBUF)], "equal", RECEIVED),
    ),
    "D9": Claim(
        "JSON is 2.6 times as large as protobuf",
        "156, 1,520 and 15,220 kB against 59, 586 and 5,720",
        Ratios([(JSON, PROTOBUF)], "higher", RECEIVED, size=2.6),
    ),
}


def answer(result: Result) -> list[str]:
    """Across the world, by the ratios of a result."""
    found = {
        pair: ratio
        for pair, cell, ratio in ratios_of(result)
        if (cell.distance, cell.size, cell.policy) == (WORLD, LIST, POOLED)
    }
    if not {(PROTOBUF, JSON), (GRPC, PROTOBUF), (GRPC_NEW, PROTOBUF)} <= found.keys():
        return []
    return [
        f"Across the world {words.between('protobuf', 'JSON', found[PROTOBUF, JSON])}.",
        f"On a kept connection {words.between('gRPC', 'REST', found[GRPC, PROTOBUF])}; with a new connection for every"
        f" call {words.between('gRPC', 'REST', found[GRPC_NEW, PROTOBUF])}.",
    ]


DISTANCE = Study(
    name="distance",
    question="JSON or protobuf, REST or gRPC, for long lists and over long distances?",
    source="Luc Engelen, Sending Data to the Other Side of the World: JSON vs Protocol Buffers and REST vs gRPC,"
    " Kabisa, 19 February 2019; GitHub repository ljpengelen/RPC, commit b0bf69856b37d8df6468e9915b821ff9b9c3d390",
    cells=cells,
    pairs={
        (GRPC, PROTOBUF): "protocol",
        (GRPC_NEW, PROTOBUF): "protocol and connections",
        (GRPC_NEW, GRPC): "connections",
        (GRPC_64K, GRPC): "window",
        (CHUNKS_64K, CHUNKS): "window",
        (CHUNKS_64K, PROTOBUF): "protocol and window",
        (STREAM, GRPC): "messages",
        (CHUNKS, GRPC): "messages",
        (PROTOBUF, JSON): "format",
        (JSON, PROTOBUF): "format",
        (GZIP, PROTOBUF): "format",
        (GZIP, JSON): "compression",
    },
    measures=(Measure("ms per 10 calls", PER_SECOND, 10_000, inverse=True, published=published), MEDIAN),
    columns=("distance",),
    unit="vectors",
    claims=CLAIMS,
    published_kb=published_kb,
    flaws=(
        "Every gRPC call opened a channel, while REST calls shared a connection. A new connection costs a handshake,"
        f" HTTP/2 settings and TCP's slow start. Shown by: connections, {GRPC_NEW} against {GRPC}.",
        "The HTTP/2 window, which limits the bytes under way, was left to each library."
        f" Shown by: window, {GRPC_64K} and {CHUNKS_64K} against {GRPC} and {CHUNKS}.",
        f"Each vector of a stream was a message of its own. Shown by: messages, {STREAM} against {CHUNKS}.",
        f"JSON was timed without compression and its size taken with it. Shown by: compression, {GZIP} against {JSON}.",
    ),
    advice=(
        "Keep connections open. A new one waits several round trips for its first large answer.",
        "Put many items into each message of a stream.",
        "Do not set small HTTP/2 windows where round trips are long: one round trip carries at most one window.",
        "Compress JSON where bandwidth is dearer than the server's CPU.",
    ),
    answer=answer,
    no_gate="Nothing is computed here, so reading the answers is a large part of every number.",
    seconds=0.7,
    least=least,
    warm_s=0.3,
    blocks=4,
)
