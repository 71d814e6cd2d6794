"""`encodings`: one array in every form of Seldon's v1 protocol, and one photo's tensor in every form of KServe v2.

An encoder is what a client does before it can send anything: its time is the column "client encode". The rows are in
locustfiles/study_routes/encodings.py.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from bench.measure.measured import Cell
from bench.studies.study import HIGHER, LOWER, MEDIAN, RATE, Claim, Study, cross, rows_of
from locustfiles.study_routes.encodings import ENCODERS, FORMS, KSERVE, MANY, METHODS, RAW, ROWS, SELDON

ONE = "1"
QUICK = (*(name for name in SELDON if RAW not in name), "seldon-http-ndarray-raw", "seldon-grpc-ndarray-raw")


def cells(quick: bool) -> list[Cell]:
    seldon = cross(Cell("", ""), size=(MANY,) if quick else (MANY, ONE), route=QUICK if quick else tuple(SELDON))
    return seldon + cross(Cell("", ""), route=tuple(KSERVE))


_GATEWAYS = {"seldon-http": "REST", "seldon-grpc": "gRPC"}
_PUBLISHED = {
    (f"{gateway}-{row['encoding']}{mode}", row["values"]): float(row["run_ms"])
    for row in rows_of("encodings_mean_ms.csv")
    for gateway, mode in product(_GATEWAYS, METHODS)
    if (_GATEWAYS[gateway], METHODS[mode]) == (row["protocol"], row["method"])
}


def published(cell: Mapping[str, Any]) -> Mapping[str, float]:
    """The published mean of a row at a number of values: one core, through a port-forward."""
    found = _PUBLISHED.get((cell["name"], cell["size"]))
    return {} if found is None else {"one core in Kubernetes": found}


def _against(a: str, b: str, size: str) -> str:
    """`5.33 ms against 15.76 ms`"""
    return f"{_PUBLISHED[a, size]:.2f} ms against {_PUBLISHED[b, size]:.2f} ms"


def _pairs() -> dict[tuple[str, str], str]:
    pairs = {
        (f"seldon-grpc-{form}{mode}", f"seldon-http-{form}{mode}"): "protocol" for mode in METHODS for form in FORMS
    }
    pairs |= {(f"{gateway}-{form}{RAW}", f"{gateway}-{form}"): "mode" for gateway, form in ENCODERS}
    for gateway, mode in product(_GATEWAYS, METHODS):
        ndarray, tensor, tftensor = (f"{gateway}-{form}{mode}" for form in FORMS)
        pairs |= {(tensor, ndarray): "form", (tftensor, ndarray): "form", (tftensor, tensor): "form"}
    return pairs | {
        ("onnx-http-json", "onnx-http"): "form",
        ("onnx-grpc-typed", "onnx-grpc"): "form",
        ("onnx-grpc", "onnx-http"): "protocol",
        ("onnx-grpc", "onnx-http-json"): "form and protocol",
    }


def _sized(size: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda cell: bool(cell["size"] == size)


_many, _one = _sized(MANY), _sized(ONE)

CLAIMS = (
    Claim(
        "E1",
        "gRPC is faster than REST (100,000 values as tensor or tftensor, building the request not counted)",
        f"tftensor {_against('seldon-grpc-tftensor', 'seldon-http-tftensor', MANY)}, tensor "
        f"{_against('seldon-grpc-tensor', 'seldon-http-tensor', MANY)}",
        [(f"seldon-grpc-{form}{mode}", f"seldon-http-{form}{mode}") for mode in METHODS for form in FORMS[1:]],
        LOWER,
        where=_many,
    ),
    Claim(
        "E2",
        "gRPC is faster than REST (1 value, decoded)",
        f"ndarray {_against('seldon-grpc-ndarray', 'seldon-http-ndarray', ONE)}, tftensor "
        f"{_against('seldon-grpc-tftensor', 'seldon-http-tftensor', ONE)}",
        [(f"seldon-grpc-{form}", f"seldon-http-{form}") for form in FORMS],
        LOWER,
        where=_one,
    ),
    Claim(
        "E3",
        "tftensor is best for a large batch (100,000 values; building the request not counted)",
        f"REST {_against('seldon-http-tftensor', 'seldon-http-tensor', MANY)} of tensor, gRPC "
        f"{_against('seldon-grpc-tftensor', 'seldon-grpc-tensor', MANY)}",
        [
            (f"{gateway}-tftensor{mode}", f"{gateway}-{form}{mode}")
            for gateway, mode, form in product(_GATEWAYS, METHODS, FORMS[:2])
        ],
        LOWER,
        where=_many,
    ),
    Claim(
        "E4",
        "ndarray with gRPC is bad for a large batch: 32 times the tensor's time",
        _against("seldon-grpc-ndarray", "seldon-grpc-tensor", MANY),
        [("seldon-grpc-tensor", "seldon-grpc-ndarray")],
        LOWER,
        where=_many,
        size=_PUBLISHED["seldon-grpc-ndarray", MANY] / _PUBLISHED["seldon-grpc-tensor", MANY],
    ),
    Claim(
        "E5",
        "ndarray with gRPC is slower than ndarray with REST (100,000 values, decoded or raw)",
        f"decoded {_against('seldon-grpc-ndarray', 'seldon-http-ndarray', MANY)}, raw "
        f"{_against('seldon-grpc-ndarray-raw', 'seldon-http-ndarray-raw', MANY)}",
        [(f"seldon-grpc-ndarray{mode}", f"seldon-http-ndarray{mode}") for mode in METHODS],
        HIGHER,
        where=_many,
    ),
    Claim(
        "E6",
        "The simpler tensor and ndarray are better for a small batch (1 value)",
        f"REST {_against('seldon-http-tensor', 'seldon-http-tftensor', ONE)} of tftensor, gRPC "
        f"{_against('seldon-grpc-tensor', 'seldon-grpc-tftensor', ONE)}",
        [(f"{gateway}-tftensor", f"{gateway}-{form}") for gateway, form in product(_GATEWAYS, FORMS[:2])],
        HIGHER,
        where=_one,
    ),
    Claim(
        "E7",
        "predict_raw is faster than predict (100,000 values)",
        f"REST ndarray {_against('seldon-http-ndarray-raw', 'seldon-http-ndarray', MANY)}, gRPC ndarray "
        f"{_against('seldon-grpc-ndarray-raw', 'seldon-grpc-ndarray', MANY)}, but gRPC tensor "
        f"{_against('seldon-grpc-tensor-raw', 'seldon-grpc-tensor', MANY)}",
        [(f"{gateway}-{form}{RAW}", f"{gateway}-{form}") for gateway, form in ENCODERS],
        LOWER,
        where=_many,
    ),
)


def answer(result: Mapping[str, Any]) -> str:
    """Which form to send, by what it costs in all: client encode, the median call and client decode."""
    factors = {cell["id"]: (cell["name"], cell["size"]) for cell in result["cells"]}
    sums = {
        factors[cell["id"]]: cell["encode_ms"] + cell["p50_ms"]["value"] + (cell["decode_ms"] or 0.0)
        for cell in result["analysis"]["cells"]
        if cell["p50_ms"] and not cell["marks"]
    }
    said = []
    for what, names, size in (
        ("an image's tensor to Triton", KSERVE, ""),
        ("100,000 values in Seldon's v1 protocol, decoded,", [name for name in SELDON if RAW not in name], MANY),
    ):
        ranked = sorted((sums[name, size], name) for name in names if (name, size) in sums)
        if len(ranked) > 1:
            (least, best), *others = ranked
            rest = ", ".join(f"{name} {ms:.3g} ms" for ms, name in others)
            if left_out := [name for name in names if (name, size) in factors.values() and (name, size) not in sums]:
                rest += f"; not ranked, because no verdict may rest on it: {', '.join(left_out)}"
            said.append(f"{what} costs least as {best}: {least:.3g} ms to encode, call and decode ({rest})")
    return f"On this machine {'; '.join(said)}." if said else ""


ENCODINGS = Study(
    name="encodings",
    question="In which form should a client send numbers to a model server?",
    source="means in Python Wrapper Benchmarking, GitHub repository SeldonIO/seldon-core, "
    "testing/benchmarking/python/python_serialization.ipynb",
    routes=ROWS,
    cells=cells,
    pairs=_pairs(),
    measures=(replace(MEDIAN, published=published), RATE),
    columns=("size",),
    unit="values",
    claims=CLAIMS,
    flaws=(
        (
            "Requests were built outside the clock: raw gRPC with tftensor made 42 calls a second at a mean of 5 ms",
            "the column encode, which is what a client pays before each call",
        ),
        (
            "REST was measured with vegeta and gRPC with ghz, two clients of different cost",
            "one load generator for both, with one connection each; its CPU is in each row",
        ),
        (
            "All numbers were integers, which are short in JSON",
            "the four forms of KServe v2, which carry a real photo's tensor: fractions",
        ),
    ),
    advice=(
        "Send arrays as bytes: the binary extension over HTTP, raw_input_contents over gRPC, tftensor in Seldon's v1.",
        "A form that lists numbers one by one is paid three times: to build it, to carry it and to parse it.",
        "Count what it costs to build the request: no server sees it, and every client pays it.",
    ),
    answer=answer,
    # With one user no call waits for another's work in the load process: its own is what a client pays.
    gate=math.inf,
    seconds=1.9,
    # A photo's tensor in JSON is long to parse: a p50 needs 10 calls in the quick form too.
    least=lambda cell: 0.9 if cell.route == "onnx-http-json" else 0.0,
    warm_s=0.5,
)
