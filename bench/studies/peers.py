"""`peers`: the JPEG server beside other projects' servers: one model, one preprocessing, equal threads, equal photos.

Each is asked directly: none of them has the edge in front. What is left between two rows is the server: how it reads a
request, makes batches, hands them to the model, and answers. Each is configured as its own documentation recommends for
throughput (servers/peers). Other projects' servers are paused while they are not measured (bench/measure/pauses.py).
"""

from bench import words
from bench.measure.measured import Cell
from bench.result import Result
from bench.studies.study import MEDIAN, PER_SECOND, Claim, Measure, Ratios, Study, cross, ratios_of
from locustfiles.settings import DIRECT
from locustfiles.study_routes.peers import OURS, PEERS, ROWS, TORCHSERVE

MANY = 16
"""Callers of the answer."""
NAMES = {**PEERS, TORCHSERVE: "TorchServe"}


def cells(quick: bool) -> list[Cell]:
    """One image a call, by 1, 8 and MANY callers; in the quick form by MANY."""
    return cross(Cell("", "", target=DIRECT), users=(MANY,) if quick else (1, 8, MANY), route=list(ROWS))


CLAIMS = {
    "P1": Claim(
        "LitServe is at least twice as fast as plain FastAPI",
        "2 times faster or more, by several workers (README of Lightning-AI/litserve); our FastAPI makes batches",
        Ratios([(OURS, "litserve")], "lower", PER_SECOND, {"users": (8, MANY)}, size=2.0),
    ),
}


def answer(result: Result) -> list[str]:
    """With MANY callers, against the fastest of the others first."""
    found = [(pair[1], ratio) for pair, cell, ratio in ratios_of(result, PER_SECOND) if cell.users == MANY]
    timed = sorted([(-ratio.time.value, name, ratio) for name, ratio in found if ratio.time])
    said = [words.between("the JPEG server", NAMES[name], ratio) for _, name, ratio in timed]
    return [f"With sixteen callers {one}{'' if at else ', the fastest of the others'}." for at, one in enumerate(said)]


PEERS_STUDY = Study(
    name="peers",
    question="Is the JPEG server at least as fast as other projects' servers with the same model and cores?",
    source="",
    cells=cells,
    pairs={(OURS, peer): f"server: {name}" for peer, name in NAMES.items()},
    measures=(Measure("images per second", PER_SECOND), MEDIAN),
    columns=("users",),
    seconds=3.0,
    warm_s=0.5,
    blocks=8,
    turns=True,
    claims=CLAIMS,
    advice=(
        "Where they are the same, the model takes the time: choose by what else a server does for you.",
        "A model that takes next to no time shows what a server itself costs.",
    ),
    answer=answer,
)
