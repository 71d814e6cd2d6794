"""`endpoint`: one model of any server that speaks the Open Inference Protocol v2, over HTTP and over gRPC.

Both rows send the same tensors by this project's light clients. What differs between them is the protocol, and what the
server does with it.
"""

from collections.abc import Sequence

from bench import words
from bench.measure.measured import Cell
from bench.result import Result
from bench.studies.study import MEDIAN, PER_SECOND, Measure, Study, cross, over_all
from locustfiles.clients.policy import COLD
from locustfiles.settings import DIRECT
from locustfiles.study_routes.endpoint import GRPC, HTTP, ROWS

BATCHES, CALLERS = (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32, 64)
QUICK_BATCHES, QUICK_CALLERS = (1, 8), (1, 4, 16)


def matrix(routes: Sequence[str], batches: Sequence[int], users: Sequence[int]) -> list[Cell]:
    """Every batch with one caller, every number of callers at batch 1, and one with a new connection for each call."""
    one = Cell("", "", target=DIRECT)
    cells = cross(one, batch=batches, route=routes) + cross(one, users=users, route=routes)
    return list(dict.fromkeys([*cells, *cross(one, policy=(COLD,), route=routes)]))


def cells(quick: bool) -> list[Cell]:
    return matrix(list(ROWS), QUICK_BATCHES if quick else BATCHES, QUICK_CALLERS if quick else CALLERS)


def answer(result: Result) -> list[str]:
    """The protocols over all cells, and for each of them where more callers, or a larger batch, stop to help."""
    said = [words.sentence(one) for one in over_all(result, {"protocol": ("gRPC", "HTTP")})]
    said += ["Over HTTP tensors were JSON, for want of an extension."] if result.options.get("http_json") else []
    for knee in result.analysis.knees:
        over = "HTTP" if knee.name == HTTP else "gRPC"
        said.append(f"Over {over} throughput {words.grows(knee)}.")
    return said


ENDPOINT = Study(
    name="endpoint",
    question="gRPC or HTTP for this model on this server, at which batch and how many callers?",
    source="",
    cells=cells,
    pairs={(GRPC, HTTP): "protocol"},
    measures=(MEDIAN, Measure("per second", PER_SECOND)),
    columns=("batch", "users"),
    answer=answer,
    advice=(
        "More callers than the knee wait longer for the same throughput: bound them at the client, or the queue at the"
        " server.",
        "Keep a connection. What a new one for every call costs is a table of its own.",
    ),
    knees=True,
    seconds=0.8,
    warm_s=0.3,
    blocks=8,
)
