"""The study `distance`: long lists of small things, as JSON and protobuf, over REST and gRPC, near and far away.

The published study asked for 10,000 vectors ten times in a row and found gRPC 4.7 times as slow as REST on the way to
Sydney. Its REST calls shared a kept connection, its gRPC calls opened a channel each, and a new TCP connection begins
slowly: the row `...-new` does as it did, the others keep their connection. How much the client lets the server send
ahead (the HTTP/2 window) is a factor too.
"""

import gzip
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from fiveway.transport.v1.distance_pb2 import (
    ListVectorsRequest,
    ListVectorsResponse,
    StreamVectorsRequest,
    StreamVectorsResponse,
)
from numpy.typing import NDArray

from bench.measure.measured import Cell
from bench.studies.study import (
    EQUAL,
    HIGHER,
    LOWER,
    MEDIAN,
    P50,
    PER_SECOND,
    RECEIVED,
    Claim,
    Measure,
    Study,
    cross,
    rows_of,
)
from locustfiles import distance
from locustfiles.answers import Check, WrongAnswer
from locustfiles.clients import Answer, Client, Payload
from locustfiles.clients.policy import COLD, POOLED, ColdClient
from locustfiles.payloads import Images
from locustfiles.routes import ANSWERS, Format, Route

Vectors = NDArray[np.float64]
"""[N,6]: start x, y, z, end x, y, z."""

VECTOR_BYTES = 60
"""A vector in a protobuf list: no coordinate of the server's is 0, which protobuf would leave out."""
CHUNK = 1_000
WINDOW = 64 * 1024 - 1
"""Of HTTP/2, where nobody asks for more."""

DISTANCES = NEAR, CITY, OCEAN, WORLD = "0ms-1000mbit", "12ms-100mbit", "150ms-100mbit", "300ms-100mbit"
"""One room, Eindhoven to Frankfurt, half way, and Europe to Sydney."""
FEW, LIST, MANY = "1000", "10000", "100000"


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


def _new_channel(route: Route, address: str, path: str, on_connect: Callable[[], None]) -> Client:
    """A channel for every call, inside its clock, whatever the policy."""
    from locustfiles.clients.grpcio import CLIENTS  # patched by gevent where calls are made, not where this is read

    form = route.format
    metadata = {**form.headers, **route.headers}
    return ColdClient(
        lambda: CLIENTS[form.messages](address, path, metadata, on_connect=on_connect, options=form.options)
    )


SMALL = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", WINDOW))
"""The window stays small: grpcio does not measure the connection. It still asks for all of a message that has begun, so
a list takes two round trips, and only a stream of messages goes by the window."""


def _rest(name: str, encoding: str, check: Check, read: Callable[[Answer], Vectors]) -> Route:
    path = f"/transport/vectors/{encoding}?count={{size}}"
    form = Format("HTTP", _get, check, read=read)
    return Route(name, path, "echo-http:8000", form, of="echo-http", method="GET", asks="vectors", modelless=True)


def _grpc(name: str, *, per_message: int = 0, new: bool = False, options: Sequence[tuple[str, int]] = ()) -> Route:
    """A list, or a stream of messages of so many vectors."""
    more: dict[str, Any] = {"read": read_list}
    if per_message:
        more = {"read": partial(read_stream, per_message), "messages": ANSWERS}
    encode = partial(_stream, per_message) if per_message else _list
    form = Format(
        "gRPC", encode, check_protobuf, grpcio=True, options=options, client=_new_channel if new else None, **more
    )
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


# ---- the cells

_SERVER_US = {JSON: 3, GZIP: 18, STREAM: 110}
"""What a vector costs a server or a client, where it is much."""
_NEW = 8
"""Round trips of a list on a new connection: handshake, settings, and six in slow start."""
_ROUND_TRIPS = {GRPC_NEW: _NEW, GRPC_64K: 2, CHUNKS_64K: 6}
_CALLS = 3.3
"""So many fill a visit. The first begins before its steady window: three are left, twelve in all blocks."""


def least(cell: Cell) -> float:
    """By about how long a call takes."""
    way, count = distance.parse(cell.distance), int(cell.size)
    bits = 8 * count * (160 if cell.route == JSON else VECTOR_BYTES)
    waits = _ROUND_TRIPS.get(cell.route, _NEW if cell.policy == COLD else 1) * way.round_trip_ms / 1e3
    call_s = waits + bits / way.mbit_per_s / 1e6 + count * _SERVER_US.get(cell.route, 0) / 1e6
    return _CALLS * call_s


def cells(quick: bool) -> Sequence[Cell]:
    """What was published, and where windows, connections and sizes make the difference."""

    def some(rows: Sequence[str], size: str, *distances: str, policy: str = POOLED) -> list[Cell]:
        base = Cell("", "", size=size, policy=policy)
        return cross(base, distance=distances, route=rows)

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


# ---- what was published

_COLUMNS = {
    JSON: "rest_json", PROTOBUF: "rest_protobuf", GRPC: "grpc_list", GRPC_NEW: "grpc_list", STREAM: "grpc_stream",
}  # fmt: skip
_DISTANCES = {
    ("Eindhoven", "Eindhoven"): NEAR,
    ("Eindhoven", "Frankfurt"): CITY,
    ("Eindhoven", "Sydney"): WORLD,
    ("Frankfurt", "Sydney"): WORLD,
    ("Sydney", "Frankfurt"): WORLD,
    ("Frankfurt", "Frankfurt"): NEAR,
    ("Sydney", "Sydney"): NEAR,
}


def published(cell: Mapping[str, Any]) -> Mapping[str, float]:
    """ms per 10 calls, by the way it was measured on; nothing for what was not published."""
    column = _COLUMNS.get(cell["route"])
    if column is None or cell["size"] != LIST:
        return {}
    return {
        f"{row['client']} to {row['server']}": float(row[column])
        for row in rows_of("distance_ms_per_10_calls.csv")
        if _DISTANCES[row["client"], row["server"]] == cell["distance"]
    }


def published_kb(cell: Mapping[str, Any]) -> float | None:
    """The size of an answer's body in KiB, which the page calls kB."""
    column = {JSON: "json", GZIP: "json_gzip", PROTOBUF: "protobuf"}.get(cell["route"])
    sizes = {row["vectors"]: row for row in rows_of("distance_response_kb.csv")}
    return float(sizes[cell["size"]][column]) if column and cell["size"] in sizes else None


def _at(*distances: str, size: str = LIST) -> Callable[[Mapping[str, Any]], bool]:
    return lambda cell: cell["distance"] in distances and cell["size"] == size and cell["policy"] == POOLED


CLAIMS = (
    Claim(
        "D1",
        "Across the world a gRPC list takes 4.7 times as long as REST with protobuf, by their method: a channel a call",
        "11,658 against 55,457 ms for 10 calls from Eindhoven to Sydney; 4,930 against 22,730 from Frankfurt",
        [(GRPC_NEW, PROTOBUF)],
        HIGHER,
        where=_at(WORLD),
        size=4.7,
    ),
    Claim(
        "D2",
        "And so it is with one connection that is kept",
        "the same numbers: they stand for gRPC on the page",
        [(GRPC, PROTOBUF)],
        HIGHER,
        where=_at(WORLD),
        size=4.7,
    ),
    Claim(
        "D3",
        "From Eindhoven to Frankfurt, 12 ms, a gRPC list takes 2.5 times as long, by their method",
        "665 against 1,689 ms for 10 calls from Eindhoven to Frankfurt",
        [(GRPC_NEW, PROTOBUF)],
        HIGHER,
        where=_at(CITY),
        size=2.5,
    ),
    Claim(
        "D4",
        "On one machine a gRPC list takes 1.5 times as long, by their method",
        "77 against 118 ms for 10 calls",
        [(GRPC_NEW, PROTOBUF)],
        HIGHER,
        where=_at(NEAR),
        size=1.5,
    ),
    Claim(
        "D5",
        "On one machine a gRPC stream of single vectors takes 15 times as long as a list",
        "118 against 1,764 ms for 10 calls",
        [(STREAM, GRPC)],
        HIGHER,
        where=_at(NEAR),
        size=15,
    ),
    Claim(
        "D6",
        "Across the world a stream of single vectors takes as long as a list",
        "55,457 against 57,537 ms for 10 calls",
        [(STREAM, GRPC)],
        EQUAL,
        where=_at(WORLD),
    ),
    Claim(
        "D7",
        "REST is faster with protobuf than with JSON, near and far",
        "77 against 326 ms for 10 calls on one machine, 665 against 883 to Frankfurt, 11,658 against 16,161 to Sydney",
        [(PROTOBUF, JSON)],
        LOWER,
        where=_at(NEAR, CITY, WORLD),
    ),
    Claim(
        "D8",
        "Compressed JSON is as small as protobuf",
        "59, 576 and 5,600 kB against 59, 586 and 5,720",
        [(GZIP, PROTOBUF)],
        EQUAL,
        measure=RECEIVED,
    ),
    Claim(
        "D9",
        "JSON is 2.6 times as large as protobuf",
        "156, 1,520 and 15,220 kB against 59, 586 and 5,720",
        [(JSON, PROTOBUF)],
        HIGHER,
        measure=RECEIVED,
        size=2.6,
    ),
)


def answer(result: Mapping[str, Any]) -> str:
    """Across the world, by the ratios of a result."""
    factors = {cell["id"]: cell for cell in result["cells"]}
    times = {
        (ratio["a_name"], ratio["b_name"]): f"{ratio['value']:.2f} times"
        for ratio in result["analysis"]["ratios"]
        if ratio["measure"] == P50 and ratio["value"] and _at(WORLD)(factors[ratio["a"]])
    }
    kept, new, form = (times.get(pair) for pair in ((GRPC, PROTOBUF), (GRPC_NEW, PROTOBUF), (PROTOBUF, JSON)))
    if not kept:
        return ""
    way = distance.parse(WORLD)
    return (
        f"Across the world ({way.round_trip_ms} ms, {way.mbit_per_s} Mbit/s) a gRPC list takes {kept} as long as REST"
        " with protobuf on a kept connection"
        + (f" and {new} with a channel per call" if new else "")
        + (f"; REST with protobuf takes {form} as long as with JSON." if form else ".")
    )


DISTANCE = Study(
    name="distance",
    question="JSON or protobuf, REST or gRPC, for long lists and over long ways?",
    source="Luc Engelen, Sending Data to the Other Side of the World: JSON vs Protocol Buffers and REST vs gRPC,"
    " Kabisa, 19 February 2019; GitHub repository ljpengelen/RPC, commit b0bf69856b37d8df6468e9915b821ff9b9c3d390",
    routes=ROWS,
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
    measures=(Measure("ms per 10 calls", PER_SECOND, 10_000, inverse=True), MEDIAN),
    columns=("distance",),
    unit="vectors",
    claims=CLAIMS,
    published=published,
    published_kb=published_kb,
    flaws=(
        (
            "Every gRPC call opened a channel, REST calls shared a connection: a new one has a handshake, settings and"
            " TCP's slow start before it",
            f"connections: {GRPC_NEW} against {GRPC}",
        ),
        (
            "How much may be under way at once was left to each library",
            f"window: {GRPC_64K} and {CHUNKS_64K} against {GRPC} and {CHUNKS}",
        ),
        ("Each vector of a stream was a message of its own", f"messages: {STREAM} against {CHUNKS}"),
        ("JSON was timed without compression and sized with it", f"compression: {GZIP} against {JSON}"),
    ),
    advice=(
        "Keep connections: a new one waits several round trips before its first large answer is whole.",
        "Put many items into each message of a stream.",
        "Do not set small HTTP/2 windows where round trips are long: a window is all that a round trip can carry.",
        "Compress JSON where the bandwidth costs more than the server's time.",
    ),
    answer=answer,
    gate=math.inf,
    seconds=0.7,
    least=least,
    warm_s=0.3,
    blocks=4,
)
