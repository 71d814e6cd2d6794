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
from typing import Any

from bench.figures import figure, share
from bench.measure.measured import Cell
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


def published(cell: Mapping[str, Any]) -> Mapping[str, float]:
    """The p50 of the 5-way comparison. Its clients were at some distance, which it does not say: it stands at none."""
    return {} if cell["distance"] else fiveway.published(cell["route"], cell["batch"], cell["users"], P50)


_LOSES = [(tensor, PYTORCH) for tensor in ("onnx-http", "onnx-grpc")]
_FORMATS = [FORMAT_ONLY, ("onnx-grpc", "onnx-jpeg-grpc")]
_PROTOCOLS = [("onnx-grpc", "onnx-http"), ("onnx-jpeg-grpc", "onnx-jpeg-http")]
_NEAR, _FAR = {"distance": NEAR}, {"distance": DISTANCES}
_INFERRED = "inferred from PyTorch with JPEGs against Triton with tensors: not measured on one server"

CLAIMS = {
    "F1": Claim(
        "PyTorch with JPEG wins against Triton with tensors (one user, near)",
        "onnx-http / jpeg-http 3.25x on A100-SXM4-80GB and 1.98x on RTX-4090; at batch 8 onnx-http / jpeg-http 4.04x on"
        " A100-SXM4-80GB and 4.13x on RTX-4090",
        Ratios(_LOSES, "higher", where=_NEAR | {"users": 1}),
    ),
    "F2": Claim(
        "PyTorch with JPEG wins against Triton with tensors (one user, 100 Mbit/s, up to 150 ms)",
        "onnx-http / jpeg-http 3.25x on A100-SXM4-80GB and 1.98x on RTX-4090, at a distance that was not stated",
        Ratios(_LOSES, "higher", where=_FAR),
    ),
    "F3": Claim(
        "The input format dominates: on one server a tensor takes longer than a JPEG (near)",
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
        "onnx-grpc / onnx-http 1.04x on A100-SXM4-80GB and 1.17x on RTX-4090",
        Ratios(_PROTOCOLS, "higher", where={"batch": 1, "users": 1}),
    ),
    "F6": Claim(
        "HTTP serves more than gRPC with 8 callers (whatever the format)",
        "images per second: onnx-grpc / onnx-http 0.58x on A100-SXM4-80GB and 0.23x on RTX-4090",
        Ratios(_PROTOCOLS, "lower", PER_SECOND, {"users": 8}),
    ),
}


def answer(result: Any) -> str:
    """How much of "PyTorch wins" was the format: for one image and one user, near and at the largest distance."""
    found: dict[str, dict[tuple[str, str], Mapping[str, Any]]] = {}
    for pair, cell, ratio in ratios_of(result):
        if cell["batch"] == cell["users"] == 1:
            found.setdefault(cell["distance"], {})[pair] = ratio
    whole = [distance for distance, ratios in found.items() if {WHOLE, FORMAT_ONLY, SERVER} <= ratios.keys()]
    if not whole:
        return ""
    chosen = sorted(whole, key=lambda distance: parse(distance).round_trip_ms if distance else -1)
    said = [f"{_where(distance)} {_of(found[distance])}" for distance in dict.fromkeys((chosen[0], chosen[-1]))]
    return f"Of PyTorch's lead over Triton with tensors, {'; '.join(said)}."


def _where(distance: str) -> str:
    if not distance:
        return "near"
    way = parse(distance)
    return f"at a round trip of {way.round_trip_ms} ms and {way.mbit_per_s} Mbit/s"


def _of(ratios: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    """The format's share of one lead, on the log scale, on which the factors of a product add up."""
    whole, form, server = (ratios[pair] for pair in (WHOLE, FORMAT_ONLY, SERVER))
    if any(ratio["verdict"] == "no verdict" or not ratio["value"] for ratio in (whole, form, server)):
        return "nothing can be said: a row has no verdict"
    product = f"{_number(whole)} in all = {_number(form)} by the format x {_number(server)} by server and engine"
    if whole["verdict"] != "higher":
        lost = "there is none" if whole["verdict"] == "lower" else "none is shown"
        return f"{lost} ({product})"
    part = math.log(form["value"]) / math.log(whole["value"])
    if part >= 1:
        return f"all was the format, and server and engine alone would lose it ({product})"
    return f"{'nothing' if part <= 0 else share(part)} was the format ({product})"


def _number(ratio: Mapping[str, Any]) -> str:
    return f"{figure(ratio['value'])}x ({figure(ratio['low'])} to {figure(ratio['high'])})"


FORMAT = Study(
    name="format",
    question="Of what PyTorch with JPEG wins, how much is the format, and how much the server?",
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
        "PyTorch got JPEGs and Triton got tensors: format, server and engine changed together."
        " Shown by: the rows onnx-jpeg-http and onnx-jpeg-grpc, the same server and model with JPEGs.",
        "The clients were at one distance, which is not stated."
        " Shown by: the factor distance: nothing between, and 0, 25 and 150 ms at 100 Mbit/s.",
    ),
    advice=(
        "Send JPEGs where bytes are dear: over a distance, through a port-forward, to many clients.",
        "Send tensors where the server's CPU is dear: it decodes every JPEG that it gets.",
        "Choose the format first and the server for its own reasons: Triton takes JPEGs too.",
        "A client of tensors decodes and resizes before it can send: its work then, and in no number here.",
    ),
    answer=answer,
    # Thirty cells: what is left of seven minutes.
    seconds=1.3,
)
