"""`format`: the 2x2 {JPEG, tensor} x {HTTP, gRPC} on one server and one model, near and far.

The 5-way comparison set PyTorch with JPEGs against Triton with tensors: format, server and engine changed together.
Triton with JPEGs stands between the two, so that one ratio becomes the product of two:

    onnx-http / jpeg-http  =  onnx-http / onnx-jpeg-http  x  onnx-jpeg-http / jpeg-http
    what was published        the format                     server and engine

(jpeg-http has its JPEGs as base64 in JSON, a third more bytes: what that costs is in the last factor.)

A client that sends tensors decodes and preprocesses the photos itself: here that is done before anything is measured,
while the rows with JPEGs have the server's decoding inside the clock.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from bench import words
from bench.measure.measured import Cell
from bench.result import NO_VERDICT, Ratio, Result
from bench.studies import fiveway
from bench.studies.study import MEDIAN, P50, PER_SECOND, Claim, Measure, Ratios, Study, cross, ratios_of
from locustfiles.study_routes.format import PYTORCH, ROWS
from locustfiles.toxiproxy import parse

WHOLE, FORMAT_ONLY, SERVER = ("onnx-http", PYTORCH), ("onnx-http", "onnx-jpeg-http"), ("onnx-jpeg-http", PYTORCH)
NEAR, FAR = "", "150ms-100mbit"
DISTANCES = ("0ms-100mbit", "25ms-100mbit", FAR)
_ONE = Cell("", "")


def cells(quick: bool) -> list[Cell]:
    if quick:
        return cross(_ONE, distance=(NEAR, "25ms-100mbit"), route=list(ROWS))
    many = [_ONE, replace(_ONE, users=8), replace(_ONE, batch=8)]
    near = [cell for base in many for cell in cross(base, route=list(ROWS))]
    return near + cross(_ONE, distance=DISTANCES, route=list(ROWS))


def published(cell: Cell) -> Mapping[str, float]:
    """The p50 of the 5-way comparison. Its clients were at some distance, which it does not say: it stands at none."""
    return {} if cell.distance else fiveway.published(cell, P50)


_LOSES = [(tensor, PYTORCH) for tensor in ("onnx-http", "onnx-grpc")]
_FORMATS = [FORMAT_ONLY, ("onnx-grpc", "onnx-jpeg-grpc")]
_PROTOCOLS = [("onnx-grpc", "onnx-http"), ("onnx-jpeg-grpc", "onnx-jpeg-http")]
_NEAR, _FAR = {"distance": NEAR}, {"distance": DISTANCES}
_INFERRED = "inferred from PyTorch with JPEGs against Triton with tensors, not measured on one server"

CLAIMS = {
    "F1": Claim(
        "PyTorch with JPEGs is faster than Triton with tensors (one caller, nearby)",
        "onnx-http was slower than jpeg-http: 3.3 times on A100-SXM4-80GB and 2 times on RTX-4090, and at batch 8 by"
        " 4 and 4.1 times",
        Ratios(_LOSES, "higher", where=_NEAR | {"users": 1}),
    ),
    "F2": Claim(
        "PyTorch with JPEGs is faster than Triton with tensors (one caller, 100 Mbit/s, up to 150 ms)",
        "onnx-http was slower than jpeg-http: 3.3 times on A100-SXM4-80GB and 2 times on RTX-4090; the distance was not"
        " stated",
        Ratios(_LOSES, "higher", where=_FAR),
    ),
    "F3": Claim(
        "The input format dominates: on one server a tensor takes longer than a JPEG (nearby)",
        _INFERRED,
        Ratios(_FORMATS, "higher", where=_NEAR),
    ),
    "F4": Claim(
        "The input format dominates: on one server a tensor takes longer than a JPEG (100 Mbit/s, up to 150 ms)",
        _INFERRED,
        Ratios(_FORMATS, "higher", where=_FAR),
    ),
    "F5": Claim(
        "gRPC is slower than HTTP for one image (whatever the format)",
        "onnx-grpc was slower than onnx-http: 4 % on A100-SXM4-80GB and 17 % on RTX-4090",
        Ratios(_PROTOCOLS, "higher", where={"batch": 1, "users": 1}),
    ),
    "F6": Claim(
        "HTTP serves more images per second than gRPC with 8 callers (whatever the format)",
        "onnx-grpc was slower than onnx-http: 1.7 times on A100-SXM4-80GB and 4.3 times on RTX-4090",
        Ratios(_PROTOCOLS, "lower", PER_SECOND, {"users": 8}),
    ),
}


def answer(result: Result) -> list[str]:
    """Triton with tensors against PyTorch with JPEGs, one image and one caller: near, and at the largest distance."""
    found: dict[str, dict[tuple[str, str], Ratio]] = {}
    for pair, cell, ratio in ratios_of(result):
        if cell.batch == cell.users == 1:
            found.setdefault(cell.distance, {})[pair] = ratio
    whole = [distance for distance, ratios in found.items() if {WHOLE, FORMAT_ONLY, SERVER} <= ratios.keys()]
    chosen = sorted(whole, key=lambda distance: parse(distance).round_trip_ms if distance else -1)
    sent = {cell.id: cell.sent_bytes_per_image for cell in result.analysis.cells}
    said = []
    for distance in dict.fromkeys(chosen[:1] + chosen[-1:]):
        ratios = found[distance]
        more = words.between("Triton with tensors", "PyTorch with JPEGs", ratios[WHOLE])
        said.append(f"{_where(distance)} {more}{_because(ratios, sent)}.")
    return said


def _where(distance: str) -> str:
    if not distance:
        return "Nearby,"
    way = parse(distance)
    return f"At {way.round_trip_ms} ms and {way.mbit_per_s} Mbit/s"


def _because(ratios: Mapping[tuple[str, str], Ratio], sent: Mapping[str, float | None]) -> str:
    """What makes most of a difference, by the format's share of it on the log scale, on which factors add up."""
    whole, form, server = (ratios[pair] for pair in (WHOLE, FORMAT_ONLY, SERVER))
    if whole.verdict not in ("lower", "higher") or NO_VERDICT in (form.verdict, server.verdict):
        return ""
    part = math.log(form.value or 1) / math.log(whole.value or 1)
    only = "" if 0 < part < 1 else "only "
    if part < 0.5:
        return f", {only or 'mostly '}because of the server and engine"
    tensor, jpeg = sent.get(whole.a), sent.get(whole.b)
    more = f": a tensor is {tensor / jpeg:.0f} times the bytes" if tensor and jpeg and (form.value or 0) > 1 else ""
    return f", {only or 'mostly '}because of the format{more}"


FORMAT = Study(
    name="format",
    question="Is PyTorch with JPEGs faster than Triton with tensors, and is it the format or the server?",
    source=f"the 5-way comparison ({fiveway.SOURCE}), which has three of the rows",
    cells=cells,
    pairs={
        WHOLE: "format and server",
        ("onnx-grpc", PYTORCH): "format, protocol and server",
        FORMAT_ONLY: "format",
        ("onnx-grpc", "onnx-jpeg-grpc"): "format",
        SERVER: "server",
        ("onnx-jpeg-grpc", "onnx-jpeg-http"): "protocol",
        ("onnx-grpc", "onnx-http"): "protocol",
    },
    measures=(replace(MEDIAN, published=published), Measure("images per second", PER_SECOND)),
    columns=("distance",),
    claims=CLAIMS,
    flaws=(
        "PyTorch got JPEGs and Triton got tensors, so format, server and engine changed together."
        " Shown by: the rows onnx-jpeg-http and onnx-jpeg-grpc, the same server and model with JPEGs.",
        "The clients were at one distance, which is not stated."
        " Shown by: distance, with no added latency and with 0, 25 and 150 ms at 100 Mbit/s.",
    ),
    advice=(
        "Compare engines with equal threads: COMPUTE_THREADS sets them for all of this stack.",
        "Send JPEGs where bandwidth is scarce: over a distance, through a port-forward, from many clients.",
        "Send tensors where the server's CPU is scarce: the server decodes every JPEG that it gets.",
        "Choose the format first, then the server for its own merits: Triton takes JPEGs too.",
        "A client that sends tensors decodes and resizes the photos itself. No number here includes that work.",
    ),
    answer=answer,
    # Thirty cells: what is left of seven minutes.
    seconds=1.3,
)
