"""TorchServe's REST against its gRPC, with photos as bytes and as base64 text; and a typed contract in front of it.

Its gRPC is generic: a map of bytes in, bytes out. The original left base64 over gRPC out as not allowed; any bytes are,
so that row sends the JSON that the REST row sends, as one of those bytes. The typed rows ask the gateway, which asks
TorchServe: typed-grpc carries JPEG bytes, because its proto says bytes; typed-http is the same contract as JSON, where
bytes are base64 text.
"""

from dataclasses import replace

from bench.measure.measured import Cell
from bench.result import Result
from bench.studies.study import MEDIAN, PER_SECOND, Claim, Ratios, Study, cross, over_all, per_calls, rows_of
from locustfiles.payloads import photo_sizes
from locustfiles.study_routes.torchserve import ROWS

SOURCE = (
    "M. Mendez, Image Transmission for Computer Vision: A Comparison of Torchserve's REST and gRPC, 24 February 2023"
    " (miguel-mendez-ai.com; code: github.com/mmeendez8/grpc_vs_rest at 79fd2b0b1563)"
)
CALLS = 20
SIZES = photo_sizes()[1:]

_PUBLISHED = {row["image"]: row for row in rows_of("torchserve_s_per_20_calls.csv")}
_GATHER = {"gather": True}


def cells(quick: bool) -> list[Cell]:
    """Every row at every size, alone and in gathers of 20; in the quick form the smallest size only."""
    every = cross(Cell("", ""), photo=SIZES[:1] if quick else SIZES, route=list(ROWS))
    return [*every, *(one for cell in every for one in cross(cell, users=[CALLS], gather=[True]))]


def published(cell: Cell) -> dict[str, float]:
    seconds = _PUBLISHED.get(cell.photo, {}).get(cell.name)
    return {"densenet161 on one GPU": float(seconds)} if cell.gather and seconds else {}


def answer(result: Result) -> list[str]:
    """What gRPC, base64 and the typed contract do, each as one ratio over all cells."""
    names = {
        "protocol": ("gRPC", "REST"),
        "encoding": ("base64", "bytes"),
        "contract": ("the typed contract", "TorchServe's own"),
    }
    first, *others = over_all(result, names) or [""]
    costs = ", and ".join(others)
    return [f"Over all sizes, {first}.", *([f"{costs[0].upper()}{costs[1:]}."] if costs else [])] if first else []


TORCHSERVE = Study(
    name="torchserve",
    question="Is TorchServe faster over gRPC than over REST, and what do base64 and a typed answer cost?",
    source=SOURCE,
    cells=cells,
    pairs={
        ("torchserve-grpc", "torchserve-http"): "protocol",
        ("torchserve-grpc-base64", "torchserve-http-base64"): "protocol",
        ("torchserve-http-base64", "torchserve-http"): "encoding",
        ("torchserve-grpc-base64", "torchserve-grpc"): "encoding",
        ("typed-grpc", "torchserve-grpc"): "contract",
        ("typed-http", "torchserve-http-base64"): "contract",
        ("typed-grpc", "typed-http"): "protocol and encoding",
    },
    measures=(replace(per_calls(CALLS), published=published), MEDIAN),
    claims={
        "T1": Claim(
            "Over TorchServe there is no significant difference between gRPC and REST.",
            "binary, gRPC / REST: 0.645 / 0.628, 0.927 / 0.946, 1.422 / 1.384 s per 20 calls",
            Ratios([("torchserve-grpc", "torchserve-http")], "equal", PER_SECOND, _GATHER),
        ),
        "T2": Claim(
            "Base64 should be avoided.",
            "REST, base64 / binary: 0.884 / 0.628, 1.262 / 0.946, 2.188 / 1.384 s per 20 calls, 1.3 to 1.6 times",
            Ratios([("torchserve-http-base64", "torchserve-http")], "lower", PER_SECOND, _GATHER, size=1.33),
        ),
        "T3": Claim(
            "A typed contract instead of TorchServe's generic bytes could improve performance.",
            "not measured",
            Ratios([("typed-grpc", "torchserve-grpc")], "lower", where={"gather": False}),
        ),
    },
    answer=answer,
    flaws=(
        "Base64 over gRPC was left out as not allowed by TorchServe's proto. The proto takes any bytes; it is the stock"
        " handler that decodes base64 only from a str, which only REST gives it."
        " Shown by: row torchserve-grpc-base64.",
        "The images were noise of 0.23, 0.87 and 2.3 MB as JPEG, about four times as large as photos of that size."
        " Transport and decoding took a larger share of the time than with photos."
        " Shown by: natural photos in three sizes, and the bytes on the wire of every row.",
        "Only 20 calls at once were timed. TorchServe works on one batch at a time, so a call mostly waited for the"
        " others. Shown by: 1 caller beside the 20 callers.",
        "The REST client was httpx, in pure Python; the gRPC client was grpcio, in C. REST always ran first, with a new"
        " client. Shown by: clients of like weight, warmed up, in random order; the study base has rows with httpx.",
    ),
    advice=(
        "Send a photo to TorchServe as its bytes, over the protocol that your client already speaks.",
        "Where a body must be text, base64 works over both protocols, if the handler decodes it.",
        "A typed contract saves the client from guessing and parsing. It adds a hop: T3 has its price here.",
    ),
    pooled_over=("photo", "gather"),
    seconds=1.0,
    turns=True,
    warm_s=0.5,
    blocks=10,
)
