"""`scaling`: every route of the stack by 1 to 64 callers, a photo each: how many a second, and from how many callers on
no more. So a route's numbers of callers are compared, and are visited one after another.
"""

from bench import words
from bench.figures import digits
from bench.measure.measured import Cell
from bench.result import Result
from bench.studies.format import SERVER
from bench.studies.study import MEDIAN, PER_SECOND, Measure, Study, cross
from locustfiles.study_routes.scaling import ROWS

CALLERS, QUICK_CALLERS = (1, 2, 4, 8, 16, 32, 64), (1, 4, 16)
LEAST_S, MOST_S = 1 / 24, 1.5
"""A window lasts LEAST_S for each caller, so several calls of each, and at most MOST_S. By 64 callers a call takes
half a second."""


def cells(quick: bool) -> list[Cell]:
    return cross(Cell("", ""), users=QUICK_CALLERS if quick else CALLERS, route=list(ROWS))


def answer(result: Result) -> list[str]:
    """The routes with the most and the fewest photos a second, each at its knee, then where each stops growing."""
    knees = sorted(result.analysis.knees, key=lambda knee: -knee.per_second.value)
    if not knees:
        return []
    said = [
        f"{knee.name} gives the {word} photos: {digits(knee.per_second.value)} per second ({knee.per_second.limits})."
        for word, knee in (("most", knees[0]), ("fewest", knees[-1]))
    ]
    return said + [f"{knee.name} {words.grows(knee)}." for knee in knees]


SCALING = Study(
    name="scaling",
    question="How many photos a second does each route give, and by how many callers?",
    source="",
    cells=cells,
    pairs={
        ("onnx-grpc", "onnx-http"): "protocol",
        ("trt-grpc", "trt-http"): "protocol",
        ("onnx-jpeg-grpc", "onnx-jpeg-http"): "protocol",
        ("torchserve-grpc", "torchserve-http"): "protocol",
        ("typed-grpc", "torchserve-grpc"): "gateway",
        ("typed-http", "typed-grpc"): "transcoding",
        ("jpeg-http", "torchserve-http"): "server",
        SERVER: "server",
    },
    measures=(Measure("images per second", PER_SECOND), MEDIAN),
    columns=("users",),
    answer=answer,
    advice=(
        "Bound the callers of a route near its knee, at the client or by a queue: more of them wait longer, and no more"
        " photos come of it.",
        "Few callers, each with a batch, spare what a call costs: the table of fiveway has batches.",
    ),
    knees=True,
    together=("users",),
    seconds=0.8,
    least=lambda cell: min(cell.users * LEAST_S, MOST_S),
    warm_s=0.3,
    blocks=5,
)
