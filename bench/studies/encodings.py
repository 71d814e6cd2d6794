"""`encodings`: one array in every form of Seldon's v1 protocol, and one photo's tensor in every form of KServe v2.

An encoder is what a client does before it can send anything: its time is the column "client encode". The rows are in
locustfiles/study_routes/encodings.py.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations, product

from bench import words
from bench.measure.measured import Cell
from bench.result import Interval, Result
from bench.studies.study import MEDIAN, RATE, Claim, Ratios, Study, cross, ratios_of, rows_of
from locustfiles.study_routes.encodings import FORMS, GATEWAYS, KSERVE, MANY, MODES, RAW, SELDON

ONE = "1"
QUICK = (*(name for name in SELDON if RAW not in name), "seldon-http-ndarray-raw", "seldon-grpc-ndarray-raw")


def cells(quick: bool) -> list[Cell]:
    seldon = cross(Cell("", ""), size=(MANY,) if quick else (MANY, ONE), route=QUICK if quick else tuple(SELDON))
    return seldon + cross(Cell("", ""), route=tuple(KSERVE))


_PUBLISHED = {(row["row"], row["values"]): float(row["run_ms"]) for row in rows_of("encodings_mean_ms.csv")}


def published(cell: Cell) -> Mapping[str, float]:
    """The published mean of a row at a number of values: one core, through a port-forward."""
    found = _PUBLISHED.get((cell.name, cell.size))
    return {} if found is None else {"one core in Kubernetes": found}


_PROTOCOLS = [(f"seldon-grpc-{form}{mode}", f"seldon-http-{form}{mode}") for mode in MODES for form in FORMS]
_MODES = [(f"{gateway}-{form}{RAW}", f"{gateway}-{form}") for gateway, form in product(GATEWAYS, FORMS)]
# Every form against the simpler ones.
_BY_FORM = [
    (f"{gateway}-{form}{mode}", f"{gateway}-{simpler}{mode}")
    for gateway, mode in product(GATEWAYS, MODES)
    for simpler, form in combinations(FORMS, 2)
]
_TFTENSOR = [pair for pair in _BY_FORM if "-tftensor" in pair[0]]
_MANY, _ONE = {"size": MANY}, {"size": ONE}

CLAIMS = {
    "E1": Claim(
        "gRPC is faster than REST for 100,000 values as tensor or tftensor, when building the request is not counted",
        "tftensor 5.33 ms against 15.76 ms, tensor 7.58 ms against 19.90 ms",
        Ratios([pair for pair in _PROTOCOLS if "-ndarray" not in pair[0]], "lower", where=_MANY),
    ),
    "E2": Claim(
        "gRPC is faster than REST for 1 value, decoded",
        "ndarray 1.46 ms against 1.80 ms, tftensor 1.57 ms against 2.20 ms",
        Ratios([pair for pair in _PROTOCOLS if RAW not in pair[0]], "lower", where=_ONE),
    ),
    "E3": Claim(
        "tftensor is best for 100,000 values, when building the request is not counted",
        "REST 15.76 ms against 19.90 ms of tensor, gRPC 5.33 ms against 7.58 ms",
        Ratios(_TFTENSOR, "lower", where=_MANY),
    ),
    "E4": Claim(
        "For 100,000 values ndarray over gRPC is 32 times slower than tensor",
        "244.06 ms against 7.58 ms",
        Ratios([("seldon-grpc-tensor", "seldon-grpc-ndarray")], "lower", where=_MANY, size=244.06 / 7.58),
    ),
    "E5": Claim(
        "ndarray over gRPC is slower than ndarray over REST for 100,000 values, decoded or raw",
        "decoded 244.06 ms against 19.36 ms, raw 46.03 ms against 13.84 ms",
        Ratios([pair for pair in _PROTOCOLS if "-ndarray" in pair[0]], "higher", where=_MANY),
    ),
    "E6": Claim(
        "For 1 value the simpler tensor and ndarray are faster than tftensor",
        "REST 1.80 ms against 2.20 ms of tftensor, gRPC 1.49 ms against 1.57 ms",
        Ratios([pair for pair in _TFTENSOR if RAW not in pair[0]], "higher", where=_ONE),
    ),
    "E7": Claim(
        "predict_raw is faster than predict for 100,000 values",
        "REST ndarray 13.84 ms against 19.36 ms, gRPC ndarray 46.03 ms against 244.06 ms, but gRPC tensor 7.91 ms"
        " against 7.58 ms",
        Ratios(_MODES, "lower", where=_MANY),
    ),
}


def answer(result: Result) -> list[str]:
    """Which form to send, by what it costs in all: client encode and the median call."""
    factors = {cell.id: (cell.name, cell.size) for cell in result.cells}
    sums = {
        factors[cell.id]: (cell.encode_ms or 0.0) + cell.p50_ms.value
        for cell in result.analysis.cells
        if cell.p50_ms and not cell.marks
    }
    ratios = {(*pair, cell.size): ratio.encoded for pair, cell, ratio in ratios_of(result)}
    said = []
    for what, names, size in (
        ("a photo's tensor is", KSERVE, ""),
        (f"{int(MANY):,} numbers in Seldon's protocol are", [name for name in SELDON if RAW not in name], MANY),
    ):
        ranked = sorted((sums[name, size], name) for name in names if (name, size) in sums)
        if len(ranked) > 1:
            (least, best), (most, worst) = ranked[0], ranked[-1]
            left_out = [name for name in names if (name, size) in factors.values() and (name, size) not in sums]
            more = f" (not ranked, because no verdict may rest on it: {', '.join(left_out)})" if left_out else ""
            turned = ratios.get((best, worst, size))
            ratio = ratios.get((worst, best, size)) or (turned and turned.turned()) or Interval(most / least)
            slower = f"{words.interval(ratio)} as {_form(worst)}"
            said.append(f"{what} fastest as {_form(best)} ({best}), and {slower}{more}.")
    return [f"With the encoding counted, {said[0]}", *said[1:]] if said else []


def _form(name: str) -> str:
    """`tftensor over gRPC`, of a row that is not raw."""
    gateway, way, *form = name.split("-")
    plain = "bytes" if gateway == "onnx" else ""
    return f"{' '.join(form).replace('json', 'JSON') or plain} over {'gRPC' if way == 'grpc' else 'HTTP'}"


ENCODINGS = Study(
    name="encodings",
    question="In which form should a client send numbers to a model server?",
    source="means in Python Wrapper Benchmarking, GitHub repository SeldonIO/seldon-core, "
    "testing/benchmarking/python/python_serialization.ipynb",
    cells=cells,
    pairs={
        **dict.fromkeys(_PROTOCOLS, "protocol"),
        **dict.fromkeys(_MODES, "mode"),
        **dict.fromkeys(_BY_FORM, "form"),
        ("onnx-http-json", "onnx-http"): "form",
        ("onnx-grpc-typed", "onnx-grpc"): "form",
        ("onnx-grpc", "onnx-http"): "protocol",
        ("onnx-grpc", "onnx-http-json"): "form and protocol",
    },
    measures=(replace(MEDIAN, published=published), RATE),
    columns=("size",),
    unit="values",
    claims=CLAIMS,
    flaws=(
        "Requests were built outside the clock. Raw gRPC with tftensor made 42 calls a second at a mean of 5 ms."
        " Shown by: the column encode, the time a client needs before each call.",
        "REST was measured with vegeta and gRPC with ghz, two clients of different cost."
        " Shown by: one load generator for both, with one connection each; its CPU is in each row.",
        "All numbers were integers, which are short in JSON."
        " Shown by: the four forms of KServe v2, which carry the fractions of a real photo's tensor.",
    ),
    advice=(
        "Send arrays as bytes: the binary extension over HTTP, raw_input_contents over gRPC, tftensor in Seldon's v1.",
        "A form that lists numbers one by one costs three times: to build, to carry and to parse.",
        "Count the time to build the request: no server sees it, and every client spends it.",
    ),
    answer=answer,
    no_gate="Reading an answer is part of what a form costs, and with one user no call waits for another's.",
    seconds=1.0,
    blocks=10,
    # A photo's tensor in JSON is long to parse: a p50 needs 10 calls in the quick form too.
    least=lambda cell: 0.9 if cell.route == "onnx-http-json" else 0.0,
    warm_s=0.5,
)
