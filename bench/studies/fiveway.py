"""`fiveway`, the 5-way comparison: JPEGs to PyTorch, tensors to two models on Triton, over HTTP and gRPC.

Its published tables are in published/ (README.md there says where they are from). Five hypotheses were published with
them, and verdicts on them: these are the claims. H5 is about two devices, so `scripts/compare` judges it.
"""

from dataclasses import replace
from statistics import median

from bench import words
from bench.figures import share
from bench.measure.measured import Cell
from bench.measure.split import COMPUTE, DECODE, ENCODE, QUEUE
from bench.result import Analysis, Found, Judged, Result, Verdict
from bench.studies.study import MEDIAN, P50, PER_SECOND, TIME, Claim, Measure, Ratios, Study, over_all, rows_of
from locustfiles.study_routes.fiveway import BATCHES, CONCURRENCY, FIVE, GRPCIO, ROWS, matrix

SOURCE = "github.com/dahlianadkarni/ai_inference_img_similarity at cd9aa5da7ea1"
SERVER_COMPUTE = "server_compute_ms"
"""Triton's own, per request."""
# Measure -> its file, and the factor that the letter of a column stands for.
_TABLES = {
    P50: ("fiveway_p50_ms.csv", "batch"),
    PER_SECOND: ("fiveway_concurrent_img_s.csv", "users"),
    SERVER_COMPUTE: ("fiveway_server_compute_ms.csv", "batch"),
}
QUICK_BATCHES, QUICK_CONCURRENCY = (1, 32), (1, 16)
REFERENCE = "jpeg-http"
_TRITON = [name for name in FIVE if name != REFERENCE]
_PROTOCOLS = [("onnx-grpc", "onnx-http"), ("trt-grpc", "trt-http")]
_FORMATS = [(name, REFERENCE) for name in _TRITON]
SHOWN = 0.05
"""Parts of the time below this share of the call are not named."""
SLOWER_DEVICE = 1.1
"""By how much the computing times of two devices must differ before one is called slower."""
H5_CELLS = 3
PUBLISHED_SHARES = (
    "Published at batch 1, the share that is not compute: onnx-grpc 98.1 % on A100-SXM4-80GB and 98.6 % on RTX-4090,"
    " trt-grpc 98.2 % and 99.1 %."
)
"""trt-http's compute has engine builds in it."""


def published(cell: Cell, measure: str) -> dict[str, float]:
    """Device -> the published number; {} where the study has none."""
    file, factor = _TABLES[measure]
    column, other = (f"b{cell.batch}", cell.users) if factor == "batch" else (f"c{cell.users}", cell.batch)
    rows = [row for row in rows_of(file) if row["route"] == cell.route and column in row and other == 1]
    return {row["gpu"]: float(row[column]) for row in rows}


def cells(quick: bool) -> list[Cell]:
    """The published matrix of every route; in the quick form its corners."""
    chosen = matrix(QUICK_BATCHES, QUICK_CONCURRENCY) if quick else matrix(BATCHES, CONCURRENCY)
    return [Cell(name, name, batch, users) for name in ROWS for batch, users in chosen]


CLAIMS = {
    "H1": Claim(
        "gRPC does not reduce the overhead of a call at batch 1",
        "the hypothesis that it does is false. gRPC was slower than HTTP: onnx-grpc by 4 % on A100-SXM4-80GB and 17 %"
        " on RTX-4090, trt-grpc by 17 % and 16 %",
        Ratios(_PROTOCOLS, "higher", where={"batch": 1, "users": 1}, same_shows=True),
    ),
    "H2": Claim(
        "gRPC is faster than HTTP for large batches",
        "the hypothesis that both are equal there is partially true. At batch 32 gRPC was faster: onnx-grpc 1.7 times"
        " on A100-SXM4-80GB and 2 % on RTX-4090, trt-grpc 19 % and 8 %",
        Ratios(_PROTOCOLS, "lower", where={"users": 1}, largest="batch", material=True),
    ),
    "H3": Claim(
        "gRPC is slower than HTTP under high concurrency",
        "the hypothesis that it wins is false. With 16 callers gRPC was slower: onnx-grpc 5.8 times on A100-SXM4-80GB"
        " and 8.1 times on RTX-4090, trt-grpc 45 % and 3.6 times",
        Ratios(_PROTOCOLS, "lower", PER_SECOND, where={"batch": 1}, largest="users", material=True),
    ),
    "H4": Claim(
        "PyTorch with JPEGs is fastest overall: the input format dominates",
        "confirmed, although in its tables another route is faster on A100-SXM4-80GB at batch 1 with 8 and 16 callers",
        Ratios(_FORMATS, "higher", TIME, same_shows=None, everywhere=True),
    ),
}


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
    limit = f" A protocol can change {most} at most." if kind == "protocol" else ""
    first, second = ((cell.id.partition("/")[0], _parts(cell)) for cell in (a, b))
    return f"Of a call, {first[0]} spends {first[1]}; {second[0]} spends {second[1]}.{limit}"


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

    def judged(verdict: Verdict, text: str, cause: str = "") -> Judged:
        says = "on a slower GPU the transport's share of the call is lower"
        return Judged("H5", says, "confirmed", verdict, f"{text} {PUBLISHED_SHARES}", cause)

    first, second = (
        {cell.id: cell for cell in one.cells if cell.split and cell.id.partition("/")[0] in _TRITON} for one in (a, b)
    )
    common = [key for key in first if key in second]
    if len(common) < H5_CELLS:
        shared = f"{names[0]} and {names[1]} share {len(common)} Triton cells with a time split, {H5_CELLS} are needed"
        return judged("inconclusive", f"{shared}. Run the same cells on both.")
    slowdown = median((second[key].split or {})[COMPUTE] / (first[key].split or {})[COMPUTE] for key in common)
    speed = f"Compute is {words.compared(slowdown)} on {names[1]} than on {names[0]} (median of {len(common)} cells)."
    if 1 / SLOWER_DEVICE < slowdown < SLOWER_DEVICE:
        return judged("inconclusive", f"{speed} Neither is the slower device.")
    (slow, slow_name), (fast, fast_name) = ((first, names[0]), (second, names[1]))[:: -1 if slowdown > 1 else 1]
    below = sum(transport_share(slow[key]) < transport_share(fast[key]) for key in common)
    verdicts: dict[int, Verdict] = {len(common): "reproduced", 0: "not reproduced"}
    on_slow, on_fast = (share(median(transport_share(one[key]) for key in common)) for one in (slow, fast))
    text = (
        f"What is neither compute nor queue is {on_slow} of a call on {slow_name} and {on_fast} on {fast_name}"
        f" (medians). The share is lower on {slow_name}, the slower device, in {below} of {len(common)} cells."
    )
    sides = ((slow[common[0]], slow_name), (fast[common[0]], fast_name))
    cause = "; ".join(f"{name}, {cell.id}: {_parts(cell)}" for cell, name in sides)
    return judged(verdicts.get(below, "inconclusive"), f"{speed} {text}", f"{cause}.")


def answer(result: Result) -> list[str]:
    """The format, then the protocol, alone and with the encoding of the requests: each as one ratio over all cells."""
    names = {"format": ("a tensor to Triton", "a JPEG to PyTorch"), "protocol": ("gRPC", "HTTP")}
    said = [f"{clause}." for clause in over_all(result, names, least=2)]
    for one in result.analysis.pooled:
        if said and one.kind == "protocol" and one.ratios > 1 and one.encoded:
            encoded = words.interval(one.encoded)
            said[-1] = f"{said[-1][:-1]}; with the encoding of the requests, gRPC is {encoded}."
    return [f"Over all cells, {said[0]}", *said[1:]] if said else []


FIVEWAY = Study(
    name="fiveway",
    question="JPEGs to PyTorch or tensors to Triton, over HTTP or gRPC: which way is fastest?",
    source=SOURCE,
    cells=cells,
    pairs={
        **dict.fromkeys(_PROTOCOLS, "protocol"),
        **dict.fromkeys(_FORMATS, "format"),
        ("trt-http", "onnx-http"): "engine",
        ("trt-grpc", "onnx-grpc"): "engine",
        (GRPCIO.name, "onnx-grpc"): "client",
        (GRPCIO.name, "onnx-http"): "protocol and client",
    },
    measures=(
        replace(MEDIAN, published=lambda cell: published(cell, P50)),
        Measure("images per second", PER_SECOND, published=lambda cell: published(cell, PER_SECOND)),
        Measure("server compute, ms", COMPUTE, published=lambda cell: published(cell, SERVER_COMPUTE)),
    ),
    columns=("batch", "users"),
    claims=CLAIMS,
    setting=("policy", "target", "photo", "rate"),
    of_photos=True,
    explain=where_the_time_goes,
    across=across,
    answer=answer,
    flaws=(
        "Every call had a new client. HTTP opened a connection each time; gRPC calls of one process shared one."
        " Shown by: connections, counted at client and edge; --method published measures the same way.",
        "Routes ran in a fixed order, each cell once. Shown by: blocks in random order, and intervals over them.",
        "PyTorch got JPEGs and Triton got tensors, so format, server and engine changed together."
        " Shown by: the study format.",
    ),
    advice=(
        "Compare engines with equal threads: COMPUTE_THREADS sets them for all of this stack.",
        "Choose the format by the bandwidth you have, and the protocol by the tools you have.",
        "Keep one connection per caller. What it costs to open one for every call is not the protocol's cost.",
    ),
    seconds=5.0,
)
