"""`shm`: the tensors of onnx-grpc in memory shared with Triton, beside gRPC, HTTP, and three limits of the machine.

The client is on Triton's machine, and only there. What is compared is the way of the bytes: the same server, model and
engine compute. Through the edge a call in shared memory carries names alone; the tensor goes past it.

The limits: one copy of the same bytes in one process, the same bytes over a socket to another process, and the same
computation by ONNX Runtime in a process that has the tensor already. Whatever copies, uses a socket or computes takes
at least as long.
"""

from bench import words
from bench.measure.measured import Cell
from bench.measure.split import NETWORK
from bench.result import Result
from bench.studies.study import MEDIAN, Measure, Study, cross, ratios_of
from locustfiles.settings import DIRECT, EDGE
from locustfiles.study_routes.shm import ALONE, GRPC, HTTP, LIMITS, LOOPBACK, MEMCPY, SHM

BATCH = 8
"""Of the answer."""
OF = SHM, GRPC
SERVED = (SHM, GRPC, HTTP)


def cells(quick: bool) -> list[Cell]:
    """One caller, through the edge and past it; the limits have no edge."""
    batches = (BATCH,) if quick else (1, BATCH, 32)
    direct = Cell("", "", target=DIRECT)
    return cross(Cell("", ""), target=(EDGE, DIRECT), batch=batches, route=SERVED) + cross(
        direct, batch=batches, route=LIMITS
    )


def answer(result: Result) -> list[str]:
    """At BATCH: against gRPC through the edge; then what is left of the time outside Triton, by the estimates."""
    found = {cell.target: ratio for pair, cell, ratio in ratios_of(result) if pair == OF and cell.batch == BATCH}
    if EDGE not in found:
        return []
    where = {EDGE: "through the edge", DIRECT: "past it"}
    left = [f"{part:.2f} {where[target]}" for target, part in outside(result).items()]
    said = f"With eight photos a call and through the edge {words.between('shared memory', 'gRPC', found[EDGE])}."
    return [said, *([f"Of gRPC's time outside Triton it takes {' and '.join(left)}."] if left else [])]


def outside(result: Result) -> dict[str, float]:
    """Target -> what is left at BATCH of gRPC's time outside Triton, by the estimates."""
    ids = {(cell.name, cell.target): cell.id for cell in result.cells if cell.batch == BATCH}
    split = {cell.id: cell.split for cell in result.analysis.cells}
    both = {target: [split.get(ids.get((name, target), "")) for name in OF] for target in (EDGE, DIRECT)}
    return {target: mine[NETWORK] / other[NETWORK] for target, (mine, other) in both.items() if mine and other}


SHM_STUDY = Study(
    name="shm",
    question="What does shared memory with the server save?",
    source="",
    cells=cells,
    pairs={
        OF: "transport",
        (SHM, HTTP): "transport",
        (GRPC, HTTP): "protocol",
        (LOOPBACK, MEMCPY): "socket",
        (GRPC, ALONE): "server",
        (SHM, ALONE): "server",
    },
    measures=(MEDIAN, Measure("network and edge, ms", NETWORK)),
    columns=("target", "batch"),
    advice=(
        "Use it where the client is on the server's machine and sends tensors: over a network there is no such memory.",
        "Who may register memory may also read and write another's whose name can be guessed: the edge has no method"
        " that registers, and a name here is 128 random bits.",
    ),
    answer=answer,
    seconds=3.0,
    turns=True,
    warm_s=0.5,
    blocks=6,
    no_gate="The client's copies are what is looked for, and a limit is nothing but a client.",
)
