"""`fiveway`, the 5-way comparison: JPEGs to PyTorch, tensors to two models on Triton, over HTTP and gRPC.

Its published tables are in published/ (README.md there says where they are from). Five hypotheses were published with
them; H5 is about two devices, so `scripts/compare` judges it.
"""

from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Any

from bench.figures import figure, share
from bench.measure.measured import Cell
from bench.measure.split import COMPUTE, DECODE, ENCODE, QUEUE
from bench.result import Analysis, Found, Judged
from bench.studies.study import (
    CANNOT_TELL,
    HIGHER,
    LOWER,
    MEDIAN,
    NOT_REPRODUCED,
    P50,
    PER_SECOND,
    REPRODUCED,
    TIME,
    Claim,
    Measure,
    Study,
    rows_of,
)  # fmt: skip
from locustfiles.study_routes.fiveway import BATCHES, CONCURRENCY, ROWS, matrix

SOURCE = "github.com/dahlianadkarni/ai_inference_img_similarity at cd9aa5da7ea1"
SERVER_COMPUTE = "server_compute_ms"
"""Triton's own, per request."""
# Measure -> its file, and the factor that the letter of a column stands for.
_TABLES = {
    P50: ("fiveway_p50_ms.csv", "batch"),
    PER_SECOND: ("fiveway_concurrent_img_s.csv", "users"),
    SERVER_COMPUTE: ("fiveway_server_compute_ms.csv", "batch"),
}
QUICK_BATCHES = (1, 8, 32)
REFERENCE = "jpeg-http"
_TRITON = [name for name in ROWS if name != REFERENCE]
_PROTOCOLS = [("onnx-grpc", "onnx-http"), ("trt-grpc", "trt-http")]
_FORMATS = [(name, REFERENCE) for name in _TRITON]
SHOWN = 0.05
"""Parts of the time below this share of the call are not named."""
SLOWER_DEVICE = 1.1
"""By how much the computing times of two devices must differ before one is called slower."""
H5_CELLS = 3


def published(route: str, batch: int, users: int, measure: str) -> dict[str, float]:
    """Device -> the published number; {} where the study has none."""
    file, factor = _TABLES[measure]
    column, other = (f"b{batch}", users) if factor == "batch" else (f"c{users}", batch)
    rows = [row for row in rows_of(file) if row["route"] == route and column in row and other == 1]
    return {row["gpu"]: float(row[column]) for row in rows}


def published_ratio(a: str, b: str, batch: int = 1, users: int = 1, measure: str = P50) -> str:
    """The published ratio a / b of two routes on each device, in words."""
    one, other = (published(route, batch, users, measure) for route in (a, b))
    return f"{a} / {b} {' and '.join(f'{figure(one[device] / other[device])}x on {device}' for device in one)}"


def _of(measure: Measure, table: str) -> Measure:
    def beside(cell: Mapping[str, Any]) -> Mapping[str, float]:
        return published(cell["route"], cell["batch"], cell["users"], table)

    return replace(measure, published=beside)


def cells(quick: bool) -> list[Cell]:
    """The published matrix of every route; in the quick form with fewer batches."""
    chosen = matrix(QUICK_BATCHES if quick else BATCHES, CONCURRENCY)
    return [Cell(name, name, batch, users) for name in ROWS for batch, users in chosen]


def _ratios(batch: int, users: int, measure: str = P50) -> str:
    return "; ".join(published_ratio(*pair, batch, users, measure) for pair in _PROTOCOLS)


def _lost() -> str:
    """Where the published tables themselves have another route in front of jpeg-http."""
    lost: dict[str, list[str]] = {}
    asked = [(batch, 1, P50) for batch in BATCHES] + [(1, users, PER_SECOND) for users in CONCURRENCY]
    for batch, users, measure in asked:
        for device, ours in published(REFERENCE, batch, users, measure).items():
            others = [published(name, batch, users, measure)[device] for name in _TRITON]
            if min(others) < ours if measure == P50 else max(others) > ours:
                lost.setdefault(device, []).append(f"batch {batch} with {users} user{'' if users == 1 else 's'}")
    return "; ".join(f"another route is in front on {device} at {' and '.join(at)}" for device, at in lost.items())


CLAIMS = (
    Claim(
        "H1",
        "gRPC reduces the overhead of a call at batch 1",
        f"false: gRPC was slower ({_ratios(1, 1)})",
        _PROTOCOLS,
        HIGHER,
        where=lambda cell: cell["batch"] == cell["users"] == 1,
        same_shows=True,
    ),
    Claim(
        "H2",
        "HTTP and gRPC are equal for large batches, bound by bandwidth",
        f"partially true: gRPC was faster ({_ratios(BATCHES[-1], 1)})",
        _PROTOCOLS,
        LOWER,
        where=lambda cell: bool(cell["users"] == 1),
        largest="batch",
        material=True,
    ),
    Claim(
        "H3",
        "gRPC wins under high concurrency",
        f"false: HTTP won, gRPC collapsed at 16 callers (images per second: {_ratios(1, CONCURRENCY[-1], PER_SECOND)})",
        _PROTOCOLS,
        LOWER,
        PER_SECOND,
        where=lambda cell: bool(cell["batch"] == 1),
        largest="users",
        material=True,
    ),
    Claim(
        "H4",
        "PyTorch with JPEG wins overall, the input format dominates",
        f"confirmed (but in the tables {_lost()})",
        _FORMATS,
        HIGHER,
        TIME,
        same_shows=None,
        everywhere=True,
    ),
)


def transport_share(cell: Found) -> float:
    """The share of the latency that is neither compute, nor queue, nor decoding: what a protocol can at most change."""
    split = cell.split or {}
    latency = sum(ms for part, ms in split.items() if part != ENCODE)
    return 1 - sum(split[part] for part in (COMPUTE, QUEUE, DECODE)) / latency if latency else 0.0


def where_the_time_goes(a: Found, b: Found, kind: str) -> str:
    """Of the calls of two cells; nothing without a time split."""
    if not a.split or not b.split:
        return ""
    most = share(max(transport_share(a), transport_share(b)))
    limit = f": a protocol can change {most} at most" if kind == "protocol" else ""
    first, second = (f"{cell.id.partition('/')[0]} {_parts(cell)}" for cell in (a, b))
    return f"Of a call, {first.replace(' ', ' spends ', 1)}, {second}{limit}"


def _parts(cell: Found) -> str:
    """The parts of the latency that matter, the largest first."""
    parts = {part: ms for part, ms in (cell.split or {}).items() if part != ENCODE}
    latency = sum(parts.values())
    shown = sorted((part for part in parts if parts[part] > SHOWN * latency), key=lambda part: -parts[part])
    return ", ".join(f"{share(parts[part] / latency)} in {part}" for part in shown)


def across(a: Analysis, b: Analysis, names: tuple[str, str] = ("A", "B")) -> Judged:
    """H5 from the analyses of two devices: how much of a call is neither compute nor queue, in Triton cells of both.

    Shares have no interval, so only unanimity counts: H5_CELLS at least, and all on one side.
    """

    def judged(verdict: Any, text: str, cause: str = "") -> Judged:
        says = "on a slower GPU the transport's share of the call is lower"
        return Judged("H5", says, "confirmed", verdict, f"{text} {_published_shares()}", cause)

    first, second = ({cell.id: cell for cell in one.cells if _on_triton(cell)} for one in (a, b))
    common = [key for key in first if key in second]
    if len(common) < H5_CELLS:
        shared = f"{names[0]} and {names[1]} share {len(common)} Triton cells with a time split, {H5_CELLS} are needed"
        return judged(CANNOT_TELL, f"{shared}: run the same cells on both.")
    slowdown = median(_computing(second[key]) / _computing(first[key]) for key in common)
    speed = f"Compute takes {slowdown:.2f}x as long on {names[1]} as on {names[0]} (median of {len(common)} cells)."
    if 1 / SLOWER_DEVICE < slowdown < SLOWER_DEVICE:
        return judged(CANNOT_TELL, f"{speed} Neither is the slower device.")
    (slow, slow_name), (fast, fast_name) = ((first, names[0]), (second, names[1]))[:: -1 if slowdown > 1 else 1]
    below = sum(transport_share(slow[key]) < transport_share(fast[key]) for key in common)
    verdict = {len(common): REPRODUCED, 0: NOT_REPRODUCED}.get(below, CANNOT_TELL)
    on_slow, on_fast = (share(median(transport_share(one[key]) for key in common)) for one in (slow, fast))
    text = (
        f"Neither compute nor queue is {on_slow} of a call on {slow_name} and {on_fast} on {fast_name} (medians): the"
        f" share is lower on {slow_name}, the slower one, in {below} of {len(common)} cells."
    )
    sides = ((slow[common[0]], slow_name), (fast[common[0]], fast_name))
    cause = "; ".join(f"{name}, {cell.id}: {_parts(cell)}" for cell, name in sides)
    return judged(verdict, f"{speed} {text}", f"{cause}.")


def _on_triton(cell: Found) -> bool:
    return bool(cell.split) and cell.id.partition("/")[0] in _TRITON


def _computing(cell: Found) -> float:
    return (cell.split or {})[COMPUTE]


def _published_shares() -> str:
    """How much of a published call at batch 1 was not Triton's compute; trt-http's has engine builds in it."""
    found = []
    for route in ("onnx-grpc", "trt-grpc"):
        compute, p50 = (published(route, 1, 1, measure) for measure in (SERVER_COMPUTE, P50))
        shares = [f"{100 * (1 - compute[device] / p50[device]):.1f} % on {device}" for device in p50]
        found.append(f"{route} {' and '.join(shares)}")
    return f"Not compute in the published tables at batch 1: {'; '.join(found)}."


def answer(result: Any) -> str:
    """Which protocol took less time in how many comparisons of one model on one server."""
    ratios = [ratio for ratio in result["analysis"]["ratios"] if ratio["kind"] == "protocol"]
    said = [ratio["verdict"] for ratio in ratios if ratio["measure"] == P50 and ratio["users"] == 1]
    if not said:
        return ""
    shown = {"gRPC": said.count("lower"), "HTTP": said.count("higher")}
    words = ", ".join(f"{protocol} is faster in {count}" for protocol, count in shown.items())
    return f"One caller, same server and model: of {len(said)} comparisons {words}."


FIVEWAY = Study(
    name="fiveway",
    question="JPEGs to PyTorch or tensors to Triton, over HTTP or gRPC: which way is fastest?",
    source=SOURCE,
    routes=ROWS,
    cells=cells,
    pairs={
        **dict.fromkeys(_PROTOCOLS, "protocol"),
        **dict.fromkeys(_FORMATS, "format"),
        ("trt-http", "onnx-http"): "engine",
        ("trt-grpc", "onnx-grpc"): "engine",
    },
    measures=(
        _of(MEDIAN, P50),
        _of(Measure("images per second", PER_SECOND), PER_SECOND),
        _of(Measure("server compute, ms", COMPUTE), SERVER_COMPUTE),
    ),
    columns=("batch", "users"),
    claims=CLAIMS,
    setting=("policy", "target", "photo", "rate"),
    of_photos=True,
    explain=where_the_time_goes,
    across=across,
    answer=answer,
    flaws=(
        (
            "Every call had a new client: HTTP opened a connection each time, gRPC calls of one process shared one",
            "connections, counted at client and edge; --method published measures the same way",
        ),
        ("Routes ran in a fixed order, each cell once", "blocks in an order drawn by chance, and intervals over them"),
        ("PyTorch got JPEGs and Triton tensors: format, server and engine changed together", "the study format"),
    ),
    advice=(
        "Choose the format by the bytes you can pay for, and the protocol by the tools you have.",
        "Keep a connection per caller: what a new one costs is in no protocol.",
    ),
    seconds=5.0,
)
