"""REST against gRPC without a model. The rows, and how each asks, are in locustfiles/study_routes/base.py."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from bench.figures import figure
from bench.measure.measured import Cell
from bench.studies.study import EQUAL, HIGHER, LOWER, MEDIAN, PER_SECOND, Claim, Study, cross, per_calls, rows_of
from bench.studies.torchserve import SOURCE
from locustfiles.payloads import photo_sizes
from locustfiles.study_routes.base import BASE64, BINARY, HUNDRED_ROW, KINDS, ROWS, STREAM, STRUCTURED

CALLS = 20
SMALL, MEDIUM, LARGE = SIZES = photo_sizes()[1:]
# The original's, with our HTTP client and with its own.
_ORIGINAL = [f"{way}-{kind}" for way in ("echo-http", "echo-httpx", "echo-grpc") for kind in (BASE64, BINARY)]
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


def published(cell: Mapping[str, Any]) -> dict[str, float]:
    """A structured request has no size: its three numbers are of the runs with images of three sizes."""
    way, _, kind = cell["name"].rpartition("-")
    protocol = {"echo-httpx": "REST", "echo-http": "REST", "echo-grpc": "gRPC"}.get(way)
    if not cell["gather"] or not protocol:
        return {}
    rows = [row for row in rows_of("base_s_per_20_calls.csv") if row["protocol"] == protocol]
    if kind == STRUCTURED:
        return {f"half a core beside {row['image']}": float(row["basic"]) for row in rows}
    return {"half a core": float(next(row[kind] for row in rows if row["image"] == cell["photo"]))}


def _gather(*sizes: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda cell: bool(cell["gather"]) and (not sizes or cell["photo"] in sizes)


def _finding(
    number: int, says: str, published: str, kind: str, size: float | None, *sizes: str, expected: str = HIGHER
) -> list[Claim]:
    """A finding on gRPC and REST: with the original's REST client, and with one of the weight of gRPC's."""
    ways = (("a", "echo-httpx", "its client, httpx"), ("b", "echo-http", "a client as light as gRPC's"))
    return [
        Claim(
            f"B{number}{letter}",
            f"{says} With {client}.",
            published,
            [(f"echo-grpc-{kind}", f"{way}-{kind}")],
            expected,
            PER_SECOND,
            _gather(*sizes),
            size=size,
        )
        for letter, way, client in ways
    ]


def answer(result: Mapping[str, Any]) -> str:
    """How much faster gRPC was, asked by a client of its weight and by the original's, where both have a verdict."""
    found = {
        (ratio["b_name"], factors["size"] or factors["photo"]): ratio
        for ratio in result["analysis"]["ratios"]
        for factors in (next(cell for cell in result["cells"] if cell["id"] == ratio["a"]),)
        if ratio["measure"] == PER_SECOND and factors["gather"] and ratio["a_name"].startswith("echo-grpc-")
        if ratio["a_name"].removeprefix("echo-grpc-") in KINDS and ratio["verdict"] != "no verdict"
    }
    asked = {"structured requests": (STRUCTURED, STRUCTURED)}
    asked |= {f"{size} images as bytes": (BINARY, size) for size in SIZES}
    said = []
    for what, (kind, column) in asked.items():
        light, original = (found.get((f"{way}-{kind}", column)) for way in ("echo-http", "echo-httpx"))
        if light and original:
            said.append(f"{figure(light['value'])}x for {what} ({figure(original['value'])}x where httpx asks)")
    return f"gRPC against REST, calls per second in gathers of {CALLS}: {', '.join(said)}." if said else ""


BASE = Study(
    name="base",
    question="Without a model, how much faster is gRPC than REST, for structured data and for images?",
    source=SOURCE,
    routes=ROWS,
    cells=cells,
    pairs={
        **{(f"echo-grpc-{kind}", f"echo-http-{kind}"): "protocol" for kind in KINDS},
        **{(f"echo-grpc-{kind}", f"echo-http-fast-{kind}"): "protocol" for kind in KINDS},
        **{(f"echo-grpc-{kind}", f"echo-httpx-{kind}"): "protocol and client" for kind in KINDS},
        **{(f"echo-httpx-{kind}", f"echo-http-{kind}"): "client" for kind in KINDS},
        **{(f"echo-http-fast-{kind}", f"echo-http-{kind}"): "server" for kind in KINDS},
        **{(f"echo-http2-{kind}", f"echo-httpx-{kind}"): "HTTP version" for kind in (STRUCTURED, BINARY)},
        **{(f"echo-grpc-stream-{kind}", f"echo-grpc-{kind}"): "stream" for kind in STREAM},
        **{(f"{way}-{BASE64}", f"{way}-{BINARY}"): "encoding" for way in ("echo-http", "echo-httpx", "echo-grpc")},
        (HUNDRED_ROW, "echo-grpc-structured"): "answer",
        (HUNDRED_ROW, "echo-http-structured"): "protocol and answer",
    },
    measures=(replace(per_calls(CALLS), published=published), MEDIAN),
    columns=("size", "photo"),
    claims=(
        *_finding(
            1,
            "gRPC is around 6 times as fast as REST for structured data.",
            "REST / gRPC: 0.0723 / 0.0093, 0.0611 / 0.0090, 0.0583 / 0.0097 s per 20 calls: 6.0 to 7.8 times",
            STRUCTURED,
            6.0,
        ),
        *_finding(
            2,
            "gRPC is 2.5 to 5 times as fast as REST for images in base64.",
            "REST / gRPC: 0.0943 / 0.0179, 0.2350 / 0.0926, 0.8056 / 0.2793 s per 20 calls",
            BASE64,
            2.5,
        ),
        *_finding(
            3,
            "gRPC is 4.7 times as fast as REST for small images as bytes.",
            "REST / gRPC: 0.0572 / 0.0120 s per 20 calls",
            BINARY,
            4.7,
            SMALL,
        ),
        *_finding(
            4,
            "gRPC is 1.5 times as fast as REST for medium images as bytes.",
            "REST / gRPC: 0.0872 / 0.0570 s per 20 calls",
            BINARY,
            1.5,
            MEDIUM,
        ),
        *_finding(
            5,
            "REST is as fast as gRPC for large images as bytes.",
            "REST / gRPC: 0.1909 / 0.1974 s per 20 calls",
            BINARY,
            None,
            LARGE,
            expected=EQUAL,
        ),
        Claim(
            "B6",
            "Base64 should always be avoided.",
            "base64 / binary: 1.6 to 4.2 times as long over REST, 1.4 to 1.6 times over gRPC",
            [(f"{way}-{BASE64}", f"{way}-{BINARY}") for way in ("echo-http", "echo-grpc")],
            LOWER,
            PER_SECOND,
            _gather(),
            size=1.4,
        ),
    ),
    answer=answer,
    flaws=(
        (
            "REST was asked by httpx, pure Python, gRPC by grpcio, in C: the client's cost was called the protocol's.",
            "rows echo-httpx-*, the same server as echo-http-* asked by httpx",
        ),
        (
            "The answers differed: a map of 10 entries over REST, of 100 over gRPC.",
            "all rows answer 10, and their answers are compared; row echo-grpc-structured-100 answers 100",
        ),
        (
            "Each server had half a core: 20 calls at once ran into that limit, which is CPU work and not latency.",
            "1 caller beside the gather, no such limit, and the limits in the result",
        ),
        (
            "20 connections over REST, one over gRPC; opened inside the first of ten gathers.",
            "a connection per caller in every row, counted at the edge; --policy shared and cold are the other ways",
        ),
        (
            "The images were noise, 0.23, 0.87 and 2.3 MB as JPEG, and no server decoded the base64.",
            "natural photos in three sizes, bytes on the wire, and a CRC of what was decoded in every answer",
        ),
    ),
    advice=(
        "Change the client and the JSON library before the protocol: both are rows of their own here.",
        "Send an image as bytes. Base64 is a third more of them, and work on both sides.",
        "A stream saves what a call costs besides its message: it pays for many small messages to one server.",
    ),
    # Where nothing is computed the client is a large part of every number: the rows of httpx show how large.
    gate=math.inf,
    seconds=0.9,
    blocks=4,
)
