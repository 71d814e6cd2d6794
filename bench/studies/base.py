"""REST against gRPC without a model. The rows, and how each asks, are in locustfiles/study_routes/base.py."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bench import words
from bench.measure.measured import Cell
from bench.result import Ratio, Result
from bench.studies.study import MEDIAN, PER_SECOND, Claim, Ratios, Study, cross, per_calls, ratios_of, rows_of
from bench.studies.torchserve import SOURCE
from locustfiles.payloads import photo_sizes
from locustfiles.study_routes.base import BASE64, BINARY, HUNDRED_ROW, KINDS, ROWS, STREAM, STRUCTURED

CALLS = 20
SMALL, MEDIUM, LARGE = SIZES = photo_sizes()[1:]
# The original's servers, by the clients of this project and by its own.
LIGHT, THEIRS = ("echo-grpc-light", "echo-http"), ("echo-grpc", "echo-httpx")
_WAYS = (*LIGHT, *THEIRS)
_ORIGINAL = [f"{way}-{kind}" for way in _WAYS for kind in (BASE64, BINARY)]
_ENCODING = [(f"{way}-{BASE64}", f"{way}-{BINARY}") for way in _WAYS]
_GATHER = {"gather": True}
_PUBLISHED = rows_of("base_s_per_20_calls.csv")
_IMAGES = [name for name in ROWS if STRUCTURED not in name]


def cells(quick: bool) -> list[Cell]:
    """Gathers of 20: every structured row; images in every size as published, by the other rows in the largest. One
    caller: structured requests, and images in the middle size. The quick form: a gather of every row, small images.
    """
    one, gather = Cell("", ""), Cell("", "", users=CALLS, gather=True)
    structured = [name for name in ROWS if STRUCTURED in name]
    if quick:
        return cross(gather, photo=[SMALL], route=_IMAGES) + cross(gather, size=[STRUCTURED], route=structured)
    others = [name for name in _IMAGES if name not in _ORIGINAL]
    alone = [name for name in _IMAGES if "httpx" not in name and "http2" not in name]
    return (
        cross(gather, size=[STRUCTURED], route=structured)
        + cross(gather, photo=SIZES, route=_ORIGINAL)
        + cross(gather, photo=[LARGE], route=others)
        + cross(one, size=[STRUCTURED], route=[name for name in structured if name != HUNDRED_ROW])
        + cross(one, photo=[MEDIUM], route=alone)
    )


def published(cell: Cell) -> dict[str, float]:
    """A structured request has no size: its three numbers are of the runs with images of three sizes."""
    way, _, kind = cell.name.rpartition("-")
    theirs = way.replace("httpx", "http").removesuffix("-light")
    found = {row["image"]: float(row[kind]) for row in _PUBLISHED if cell.gather and row["way"] == theirs}
    if kind == STRUCTURED:
        return {f"half a core beside {image}": seconds for image, seconds in found.items()}
    return {"half a core": found[cell.photo]} if cell.photo in found else {}


def _finding(id_: str, says: str, kind: str, size: float | None, *photos: str) -> dict[str, Claim]:
    """gRPC against REST, by the original's clients and by this project's; equal without a size."""
    numbers: dict[str, list[str]] = {}
    for row in _PUBLISHED:
        if not photos or row["image"] in photos:
            numbers.setdefault(row["image"], []).append(row[kind])
    theirs = f"REST / gRPC: {', '.join(map(' / '.join, numbers.values()))} s per {CALLS} calls"
    theirs += ", 6.0 to 7.8 times" if kind == STRUCTURED else ""
    where: Mapping[str, Any] = _GATHER | ({"photo": photos} if photos else {})
    ways = (("a", THEIRS, "by grpcio and httpx, as published"), ("b", LIGHT, "by two light clients"))
    return {
        f"{id_}{letter}": Claim(
            f"{says}, {clients}",
            theirs,
            Ratios([(f"{grpc}-{kind}", f"{rest}-{kind}")], "higher" if size else "equal", PER_SECOND, where, size),
        )
        for letter, (grpc, rest), clients in ways
    }


def answer(result: Result) -> list[str]:
    """gRPC against REST with all calls at once: by this project's clients, and by the original's."""

    def gathered(kind: str, ways: tuple[str, str]) -> list[Ratio]:
        rows = tuple(f"{way}-{kind}" for way in ways)
        return [ratio for pair, cell, ratio in ratios_of(result, PER_SECOND) if cell.gather and pair == rows]

    structured = [gathered(STRUCTURED, ways) for ways in (THEIRS, LIGHT)]
    if not all(structured):
        return []
    original, light = (words.between("gRPC", "REST", ratios[0]) for ratios in structured)
    images = words.several("gRPC", "REST", gathered(BINARY, LIGHT), "sizes", amounts=False)
    return [
        f"For structured data, with all calls at once and two light clients, {light}.",
        f"For images as bytes, by the same clients, {images}.",
        f"For structured data by the original's clients, grpcio and httpx, {original}.",
    ]


BASE = Study(
    name="base",
    question="Without a model, how much faster is gRPC than REST, for structured data and for images?",
    source=SOURCE,
    cells=cells,
    pairs={
        **{(f"echo-grpc-light-{kind}", f"echo-http-{kind}"): "protocol" for kind in KINDS},
        **{(f"echo-grpc-light-{kind}", f"echo-http-fast-{kind}"): "protocol and server" for kind in KINDS},
        **{(f"echo-grpc-{kind}", f"echo-httpx-{kind}"): "protocol and client" for kind in KINDS},
        **{(f"echo-grpc-{kind}", f"echo-grpc-light-{kind}"): "client" for kind in KINDS},
        **{(f"echo-httpx-{kind}", f"echo-http-{kind}"): "client" for kind in KINDS},
        **{(f"echo-http-fast-{kind}", f"echo-http-{kind}"): "server" for kind in KINDS},
        **{(f"echo-http2-{kind}", f"echo-httpx-{kind}"): "HTTP version" for kind in (STRUCTURED, BINARY)},
        **{(f"echo-grpc-stream-{kind}", f"echo-grpc-{kind}"): "stream" for kind in STREAM},
        **dict.fromkeys(_ENCODING, "encoding"),
        (HUNDRED_ROW, "echo-grpc-structured"): "answer",
        (HUNDRED_ROW, "echo-http-structured"): "protocol and answer",
    },
    measures=(replace(per_calls(CALLS), published=published), MEDIAN),
    columns=("size", "photo"),
    claims={
        **_finding("B1", "gRPC is around 6 times as fast as REST for structured data", STRUCTURED, 6.0),
        **_finding("B2", "gRPC is 2.5 to 5 times as fast as REST for images in base64", BASE64, 2.5),
        **_finding("B3", "gRPC is 4.7 times as fast as REST for small images as bytes", BINARY, 4.7, SMALL),
        **_finding("B4", "gRPC is 1.5 times as fast as REST for medium images as bytes", BINARY, 1.5, MEDIUM),
        **_finding("B5", "REST is as fast as gRPC for large images as bytes", BINARY, None, LARGE),
        "B6": Claim(
            "Base64 should always be avoided.",
            "base64 / binary: 1.6 to 4.2 times as long over REST, 1.4 to 1.6 times over gRPC",
            Ratios([(f"{way}-{BASE64}", f"{way}-{BINARY}") for way in LIGHT], "lower", PER_SECOND, _GATHER, size=1.4),
        ),
    },
    answer=answer,
    flaws=(
        "The REST client was httpx, in pure Python; the gRPC client was grpcio, in C. The cost of the client was taken"
        " for the cost of the protocol."
        " Shown by: rows echo-httpx-* and echo-grpc-*, by its clients, beside echo-http-* and echo-grpc-light-*, by"
        " light ones; the CPU time of each stands in the tables.",
        "The answers differed: a map of 10 entries over REST, of 100 over gRPC."
        " Shown by: all rows answer 10 entries, and their answers are compared; row echo-grpc-structured-100 answers"
        " 100.",
        "Each server had half a core. 20 calls at once ran into that limit, which measures CPU work and not latency."
        " Shown by: 1 caller beside the 20 callers, no such limit, and the limits in the result.",
        "REST had 20 connections and gRPC one, all opened inside the first of ten rounds."
        " Shown by: one connection per caller in every row, counted at the edge; --policy shared and --policy cold"
        " measure the other ways.",
        "The images were noise of 0.23, 0.87 and 2.3 MB as JPEG, and no server decoded the base64."
        " Shown by: natural photos in three sizes, bytes on the wire, and in every answer a CRC of the decoded bytes.",
    ),
    advice=(
        "Try another client and another JSON library before another protocol. The rows echo-httpx-* and"
        " echo-http-fast-* show what each changes.",
        "Send an image as bytes. Base64 adds a third to the bytes, and work on both sides.",
        "Use a stream for many small messages to one server: it saves the fixed cost of a call.",
    ),
    no_gate="Nothing is computed here, so the client is a large part of every number.",
    seconds=0.6,
    warm_s=0.3,
    blocks=12,
)
