"""`clients`: onnx-http and onnx-grpc, each asked by every client library: what is the protocol's, what the library's?

The stack, the model and the bytes of a request are the same in every row of a protocol. What differs between two rows
of it, besides the library's own code:

- tritonclient makes the request of arrays and reads the answer inside the clock. All others send ready bytes.
- The clients of Locust's users run under gevent, the ones with asyncio under uvloop, the one in Go in its runtime.
- Answers are checked after each call, outside the clock and inside the CPU time, except by asyncio's clients and Go's.
"""

from bench.measure.measured import CLIENT, Cell
from bench.result import Result
from bench.studies.study import MEDIAN, PER_SECOND, Claim, Measure, Ratios, Study, cross, over_all
from locustfiles.study_routes.clients import GRPC, HTTP, ROWS

LIGHT = ("onnx-grpc", "onnx-http")


# gRPC's row and HTTP's, by the clients that a program in this language, or of this project, would choose between.
STOCK = [
    ("onnx-grpc-grpcio", "onnx-http-requests"),
    ("onnx-grpc-grpcio", "onnx-http-httpx"),
    ("onnx-grpc-grpc-aio", "onnx-http-aiohttp"),
    *((f"onnx-grpc-{client}", f"onnx-http-{client}") for client in ("tritonclient", "tritonclient-aio", "go")),
]


def cells(quick: bool) -> list[Cell]:
    """Batch 1 with 1, 8 and 16 callers, and batch 8 with one; in the quick form batch 1 with one."""
    one = Cell("", "")
    if quick:
        return cross(one, route=list(ROWS))
    return cross(one, users=(1, 8, 16), route=list(ROWS)) + cross(one, batch=(8,), route=list(ROWS))


CLAIMS = {
    "C1": Claim(
        "tritonclient takes twice as long as a compiled client",
        "35 to 40 ms by tritonclient, 15 to 20 ms by perf_analyzer (triton-inference-server/server issue 6464)",
        Ratios([(f"onnx-{way}-tritonclient", f"onnx-{way}-go") for way in ("http", "grpc")], "higher", size=2.0),
    ),
    "C2": Claim(
        "gRPC has 2 to 3 times lower latency than HTTP",
        "2 to 3 times lower latency, of tokens in a stream (NVIDIA/TensorRT-LLM pull request 11037)",
        Ratios([LIGHT, *STOCK], "lower", where={"users": 1}, size=2.0),
    ),
    "C3": Claim(
        "The client's language changes the transfer, not the time of a call",
        "transfer 15.0, 4.4 and 211 ms by the client's language, equal times end to end (vllm-project/router pull"
        " request 283)",
        Ratios([("onnx-grpc-grpcio", "onnx-grpc-go")], "equal"),
    ),
    "C4": Claim(
        "Over gRPC a call takes many times as long as it must",
        "60 ms by tritonclient over gRPC, of which 8 ms are the model's (triton-inference-server/server issue 8558)",
        Ratios([("onnx-grpc-tritonclient", "onnx-grpc")], "higher", where={"users": 1}, size=7.5),
    ),
    "C5": Claim(
        "gRPC has 30 times lower latency than REST",
        "30 times lower latency (ranjanarajendran's ml-serving-comparison)",
        Ratios([LIGHT, *STOCK], "lower", where={"users": 1}, size=30.0),
    ),
}


def answer(result: Result) -> list[str]:
    """The protocol by the same library on both sides, what libraries cost, then the protocol by the light clients."""
    asked = over_all(result, dict.fromkeys(("protocol and client", "protocol"), ("gRPC", "HTTP")))
    if len(asked) < 2:
        return []
    same, light = asked
    said = [f"Asked by libraries of the same kind, {same}."]
    costs = {
        cell.id.partition("/")[0]: cell.cpu_ms[CLIENT].value
        for cell in result.analysis.cells
        if CLIENT in cell.cpu_ms and "/b1/c1/" in cell.id
    }
    if costs:
        least, most = min(costs, key=costs.__getitem__), max(costs, key=costs.__getitem__)
        said.append(
            f"The client's own work differs more: {costs[least]:.2f} ms of CPU per image ({least}) to {costs[most]:.2f}"
            f" ({most})."
        )
    return [*said, f"Asked by this project's own two clients, {light}."]


_PROTOCOLS = {LIGHT: "protocol"} | dict.fromkeys(STOCK, "protocol and client")
_CLIENTS = [(f"onnx-http-{client}", "onnx-http") for client in HTTP]
_CLIENTS += [(f"onnx-grpc-{client}", "onnx-grpc") for client in GRPC]
_CLIENTS += [pair for claim in CLAIMS.values() for pair in claim.shown_by.pairs if pair not in _PROTOCOLS]


CLIENTS = Study(
    name="clients",
    question="gRPC against HTTP: how much is the protocol, and how much the client library?",
    source="",
    cells=cells,
    pairs=_PROTOCOLS | dict.fromkeys(_CLIENTS, "client"),
    measures=(MEDIAN, Measure("images per second", PER_SECOND)),
    columns=("batch", "users"),
    claims=CLAIMS,
    answer=answer,
    of_photos=True,
    flaws=(
        "Comparisons of gRPC and HTTP name the protocols and not the clients, which differ by more."
        " Shown by: every row of a protocol sends the same bytes to the same server.",
    ),
    advice=(
        "Change the client before the protocol: the tables show what each costs in time and in CPU.",
        "Keep one client for many calls. A new one for every call costs a connection each time.",
        "Send ready bytes where the same input is sent often: tritonclient makes the request anew in each call.",
    ),
    no_gate="The client is what is compared here: its own work is in every number, and its CPU time beside it.",
    seconds=0.8,
    warm_s=0.3,
    blocks=8,
)
