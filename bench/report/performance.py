"""docs/performance.md: what the stack costs against other ways to serve the same model, each number beside its goal.

scripts/bench performance RESULT... > docs/performance.md, where a RESULT is a run's folder, a budgets.json, or what
scripts/compare --json says. A goal without a result says so.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from bench import words
from bench.figures import callers
from bench.measure.split import DECODE
from bench.report import markdown as md
from bench.report import results
from bench.report.compare import CPU, IN_TURN, THROUGHPUT
from bench.report.results import ResultError, Row
from bench.report.tables import Table
from bench.result import EVERY, SERVERS, Interval, Ratio, Result
from bench.studies import peers, shm
from bench.studies.base import BASE as BASE_STUDY
from bench.studies.fiveway import FIVEWAY
from bench.studies.format import SERVER
from bench.studies.peers import NAMES, PEERS_STUDY
from bench.studies.scaling import SCALING
from bench.studies.shm import SHM_STUDY
from bench.studies.study import P50, PER_SECOND, Study, ratios_of
from bench.studies.torchserve import TORCHSERVE
from locustfiles.settings import DIRECT, EDGE
from locustfiles.study_routes.base import BINARY, STRUCTURED
from locustfiles.study_routes.peers import OURS
from locustfiles.study_routes.shm import ALONE, GRPC, HTTP, LIMITS

NOOP = "noop"
FULL_HD = "1080x1920"
MET, MISSED, NOT_SHOWN = "met", "missed", "not shown"


type Found = Sequence[tuple[Path, Result]]
"""Results, and where they are."""


type Kept = Mapping[str, Any]
"""A file of scripts/budgets, or of scripts/compare --json."""


@dataclass(frozen=True, slots=True)
class Number:
    """A measured number of a goal, and in which case."""

    case: str
    value: Interval
    why: str = ""
    """What differs besides."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A number and its limit."""

    says: str
    most: float = math.inf
    least: float = 0.0
    unit: str = ""
    study: Study | None = None
    of: Callable[[Result], Iterator[Number]] = lambda result: iter(())
    """Its numbers in a result of the study."""
    kept: Callable[[Kept], Iterator[Number]] = lambda kept: iter(())
    """Its numbers in such a file instead."""
    why: str = ""
    """Why it is missed, where it is."""

    @property
    def wanted(self) -> str:
        limit = f"at least {self.least:g}" if self.least else f"at most {self.most:g}"
        return f"{limit}{self.unit}"

    def met(self, value: Interval) -> str:
        """By the whole interval, or without one by the estimate."""
        low, high = value.low or value.value, value.high or value.value
        if self.least <= low and high <= self.most:
            return MET
        return MISSED if high < self.least or low > self.most else NOT_SHOWN


def _at(result: Result, name: str, **factors: Any) -> Row | None:
    """The row of a cell: one image, one caller, through the edge, unless these factors say otherwise."""
    wanted = {"batch": 1, "users": 1, "target": EDGE, "distance": "", "gather": False} | factors
    found = (row for row in results.rows(result) if row["name"] == name)
    return next((row for row in found if all(row[factor] == value for factor, value in wanted.items())), None)


def _ratio(result: Result, a: str, b: str, **factors: Any) -> tuple[Ratio, Row] | None:
    """a / b of the medians, taken within blocks, and b's row, in the cell that `_at` finds."""
    rows = _at(result, a, **factors), _at(result, b, **factors | ({"target": DIRECT} if a == b else {}))
    ids = [row and row["id"] for row in rows]
    found = next((one for one in result.analysis.ratios if [one.a, one.b] == ids and one.measure == P50), None)
    return (found, rows[1]) if found and rows[1] else None


def _added(ratio: Interval, to: Interval) -> Interval:
    """What a adds to b, in b's unit: the ratio is taken within blocks, so its limits are the narrower ones."""
    value, low, high = ((one - 1) * to.value if one else None for one in (ratio.value, ratio.low, ratio.high))
    return Interval(value or 0.0, low, high)


def _quotient(a: Interval | None, b: Interval | None) -> Interval | None:
    """Of two independent numbers, with the widest limits that both allow."""
    if not a or not b:
        return None
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return Interval(a.value / b.value)
    return Interval(a.value / b.value, a.low / b.high, a.high / b.low)


def _case(case: str, value: Interval | None) -> Iterator[Number]:
    if value:
        yield Number(case, value)


def _peers(noop: bool, result: Result) -> Iterator[Number]:
    """The JPEG server / the best of the others, images per second with many callers."""
    if (result.environment.model.name == NOOP) != noop:
        return
    ratios = [(pair[1], one) for pair, cell, one in ratios_of(result, PER_SECOND) if cell.users == peers.MANY]
    many = [(name, one) for name, one in ratios if one.value]
    if many:
        best, ratio = min(many, key=lambda one: one[1].value or math.inf)
        value = Interval(ratio.value or 0.0, ratio.low, ratio.high)
        yield Number(f"against {NAMES[best]}, the best of {len(many)}", value, words.differing(ratio))


def _batched(result: Result) -> Iterator[Number]:
    whole, one = (_at(result, OURS, batch=batch) for batch in (32, 1))
    if whole and one:
        yield from _case("one caller", _quotient(*(row["cpu_ms"].get(SERVERS) for row in (whole, one))))


def _decode(result: Result) -> Iterator[Number]:
    if (row := _at(result, "torchserve-http", photo=FULL_HD)) and row["split"]:
        yield Number("TorchServe's handler, which decodes by the same code", Interval(row["split"][DECODE]))


def _engines(result: Result) -> Iterator[Number]:
    """By one caller, and by many, whose photos are computed together."""
    for measure in (P50, PER_SECOND):
        for pair, cell, ratio in ratios_of(result, measure):
            if pair == SERVER and cell.users in (1, peers.MANY) and (cpu := ratio.cpu.get(SERVERS)):
                yield Number(callers(cell.users), cpu.turned(), words.differing(ratio))


def _gateway(measure: str, result: Result) -> Iterator[Number]:
    """The typed gateway over TorchServe's own gRPC, of one caller and small photos."""
    if found := _ratio(result, "typed-grpc", "torchserve-grpc", photo="360x640"):
        ratio, theirs = found
        cpu = ratio.cpu.get(EVERY), theirs["cpu_ms"].get(EVERY)
        of, to = cpu if measure == EVERY else (ratio.time, theirs[P50])
        if of and to:
            yield Number("360x640, through the edge", _added(of, to))


def _edge(result: Result) -> Iterator[Number]:
    for name in (HTTP, GRPC):
        if (found := _ratio(result, name, name)) and found[0].time:
            yield Number(f"{name}, 602 kB", found[0].time)


def _edge_alone(result: Result) -> Iterator[Number]:
    """The edge before a server that computes nothing, one caller."""
    for name, factors in product(("echo-http", "echo-grpc-light"), ({"size": STRUCTURED}, {"photo": "720x1280"})):
        kind = BINARY if "photo" in factors else STRUCTURED
        found = _ratio(result, f"{name}-{kind}", f"{name}-{kind}", **factors)
        if found and found[0].time:
            size = f"{found[1]['sent_bytes_per_image'] / 1e3:.0f} kB"
            yield Number(f"{name}, {size}", _added(found[0].time, found[1][P50]))


def _triton(batch: int, result: Result) -> Iterator[Number]:
    """Triton over the same ONNX Runtime in a process that serves nothing."""
    found = _ratio(result, GRPC, ALONE, batch=batch, target=DIRECT)
    if found and found[0].time:
        yield Number("onnx-grpc", found[0].time if batch > 1 else _added(found[0].time, found[1][P50]))


def _budget(name: str, kept: Kept) -> Iterator[Number]:
    if name in kept:
        yield Number("", Interval(kept[name]))


def _cores(kept: Kept, measure: str = THROUGHPUT) -> Iterator[tuple[str, Interval]]:
    """Route -> the measure on two cores / on one, with many callers."""
    if kept["kind"] == IN_TURN and kept["study"] == SCALING.name:
        for id_, ratio in kept["ratios"][measure].items():
            if f"/c{peers.MANY}/" in id_:
                yield id_.partition("/")[0], Interval(**ratio)


def _two_cores(kept: Kept) -> Iterator[Number]:
    ratios = sorted(_cores(kept), key=lambda one: one[1].value)
    for word, (name, ratio) in zip(("least", "most"), ratios[:: max(1, len(ratios) - 1)], strict=False):
        yield Number(f"{name}, the {word} of {len(ratios)} routes", ratio)


def _protocols(cpu: bool, result: Result) -> Iterator[Number]:
    for one in result.analysis.pooled:
        if one.kind == "protocol":
            yield from _case(f"over {one.ratios} cells", one.cpu.get(EVERY) if cpu else one.time)


def _shared(result: Result) -> Iterator[Number]:
    for target, part in shm.outside(result).items():
        yield Number(f"{target}, batch {shm.BATCH}", Interval(part))


GOALS = (
    Goal(
        "JPEG server / the best of the peers, images per second, 16 callers",
        least=1.2,
        study=PEERS_STUDY,
        of=partial(_peers, False),
        why="The model takes nearly all of the CPU time, and the peers compute it by the same code.",
    ),
    Goal(
        "the same with a model that does next to nothing",
        least=2,
        study=PEERS_STUDY,
        of=partial(_peers, True),
        why="Half of the CPU time that is left is Pillow's resize and the decoding of the JPEG, which the peers do by"
        " the same code ([decision 26](decisions/0026-a-photo-has-one-thread.md)).",
    ),
    Goal("JPEG server, CPU per image, batch 32 / batch 1", 1.05, study=FIVEWAY, of=_batched),
    Goal(
        "decoding and resizing a 1080p JPEG",
        5,
        unit=" ms",
        study=TORCHSERVE,
        of=_decode,
        why="libjpeg-turbo decodes it at a quarter of its size already. At an eighth it would take nearly as long: what"
        " is left are the compressed bits, which have to be read one after another.",
    ),
    Goal("PyTorch / ONNX Runtime, CPU per image of servers that take JPEGs", 1.5, study=SCALING, of=_engines),
    Goal(
        "typed gateway over TorchServe directly, p50",
        0.5,
        unit=" ms",
        study=TORCHSERVE,
        of=partial(_gateway, P50),
        why="Each call is read, checked, sent on, and answered anew, and most of that is sockets and wake-ups: the"
        " least that a gateway can do takes as long in Go"
        " ([decision 27](decisions/0027-the-typed-gateways-own-time.md)).",
    ),
    Goal(
        "typed gateway over TorchServe directly, CPU per image",
        0.3,
        unit=" ms",
        study=TORCHSERVE,
        of=partial(_gateway, EVERY),
    ),
    Goal(
        "through the edge / directly, p50, one tensor",
        1.03,
        study=SHM_STUDY,
        of=_edge,
        why="One more process reads and writes each byte, and nothing that was tried makes it do so in less"
        " ([decision 25](decisions/0025-what-the-edge-does-with-a-tensor.md)).",
    ),
    Goal(
        "added by the edge to 10 kB without a model",
        0.3,
        unit=" ms",
        study=BASE_STUDY,
        of=_edge_alone,
        why="Two sockets more, and of gRPC its frames and headers are read and made anew.",
    ),
    Goal(
        "light Triton over ONNX Runtime in process, batch 1",
        1.5,
        unit=" ms",
        study=SHM_STUDY,
        of=partial(_triton, 1),
    ),
    Goal(
        "light Triton / ONNX Runtime in process, batch 32",
        1.05,
        study=SHM_STUDY,
        of=partial(_triton, 32),
        why="Triton reads the tensor from a socket and copies it into memory that its Python process has too. In shared"
        " memory the same batch takes less ([shm](studies/shm.md)).",
    ),
    Goal("onnx-grpc / onnx-http, time", 1.02, study=FIVEWAY, of=partial(_protocols, False)),
    Goal("onnx-grpc / onnx-http, CPU of everything", 1.02, study=FIVEWAY, of=partial(_protocols, True)),
    Goal(
        "onnx-shm / onnx-grpc, time outside Triton",
        0.15,
        study=SHM_STUDY,
        of=_shared,
        why="A call has to be sent all the same, only without its tensor; and the tensor has to be copied once.",
    ),
    Goal(
        "images per second, two cores / one, 16 callers",
        least=1.9,
        kept=_two_cores,
        why="On two cores a photo takes more CPU time, likely because they share caches and memory, and both are not"
        " busy all the time: threads that compute one batch wait for each other"
        " ([every route](#every-route-a-second-core-and-more-callers)).",
    ),
    Goal(
        "unique image layers",
        2.2e3,
        unit=" MB",
        kept=partial(_budget, "images_unique_layers_mb"),
        why="PyTorch, Java and TorchServe, OpenVINO, and Debian's packages below them.",
    ),
    Goal("built images to all routes answering", 20, unit=" s", kept=partial(_budget, "start_to_healthy_s")),
    Goal("idle memory", 1335, unit=" MiB", kept=partial(_budget, "idle_memory_mib")),
    Goal(
        "idle CPU",
        2,
        unit=" % of a core",
        kept=partial(_budget, "idle_cpu_percent_of_a_core"),
        why="Half of it is the servers themselves, which look at their clocks and queues; the other half are health"
        " checks, each of them a program ([decision 14](decisions/0014-a-proof-of-life-lasts.md)).",
    ),
)


def page(paths: Sequence[Path]) -> str:
    """In Markdown. Raises ResultError."""
    found = [(path, results.load(path)) for path in paths if path.suffix != ".json"]
    kept = [(path, _kept(path)) for path in paths if path.suffix == ".json"]
    lines = [line for goal in GOALS for line in _lines(goal, found, kept)]
    verdicts = [line[3] for line in lines]
    judged = {(line[0], line[3]) for line in lines}
    return md.page(
        "Performance",
        f"<!-- Made by ./scripts/bench performance {' '.join(map(str, paths))}: change a result or"
        " bench/report/performance.py. -->",
        f"**Of {len(verdicts)} goals: {verdicts.count(MET)} met, {verdicts.count(MISSED)} missed,"
        f" {verdicts.count(NOT_SHOWN)} not shown, {verdicts.count('')} not measured.** They say what"
        " the stack costs beside other ways to serve the same model, on two cores of a CPU."
        f" *{MET}* and *{MISSED}* are by the whole 95 % interval, or by the estimate"
        f" where there is none; *{NOT_SHOWN}*: the interval has the goal in it. Each is as of its result's date: what"
        " was made faster since is not in it.",
        md.table(Table(["what", "goal", "measured", "", "result"], lines, left=5)),
        md.items(
            (f"{goal.says}: {goal.why}" for goal in GOALS if goal.why and (goal.says, MISSED) in judged),
            "## Why what is missed is missed",
        ),
        *_limits(found),
        *_scaling(found, kept),
        "## Where they are from",
        md.items(f"{_link(path)}: {results.label(result)}" for path, result in found),
    )


def _link(path: Path) -> str:
    return f"[{path.stem}](../{path if path.suffix else path / 'report.md'})"


def _kept(path: Path) -> Kept:
    try:
        kept: Kept = json.loads(path.read_text())
        return kept
    except (OSError, ValueError) as error:
        raise ResultError(f"{path} cannot be read ({error}): give a file of scripts/budgets or compare") from error


def _lines(goal: Goal, found: Found, kept: Sequence[tuple[Path, Kept]]) -> Iterator[Sequence[str]]:
    """A line for each number of a goal, or a line that says that none was measured."""
    name = goal.study and goal.study.name
    numbers = [(path, number) for path, result in found if result.study == name for number in goal.of(result)]
    numbers += [(path, number) for path, one in kept for number in goal.kept(one)]
    for path, number in numbers:
        case = f" ({number.case})" if number.case else ""
        differ = f"; they differ in {number.why}" if number.why else ""
        said = f"{number.value}{goal.unit}{case}{differ}"
        yield goal.says, goal.wanted, said, goal.met(number.value), _link(path)
    if not numbers:
        yield goal.says, goal.wanted, "not measured", "", ""


def _limits(found: Found) -> Iterator[str]:
    """What the machine cannot do without: copying the bytes, carrying them over a socket, and computing."""
    for _, result in found:
        if result.study == SHM_STUDY.name:
            batches = sorted({row["batch"] for row in results.rows(result)})
            rows = {batch: [_at(result, name, target=DIRECT, batch=batch) for name in LIMITS] for batch in batches}
            lines = [[f"batch {batch}", *(str(row[P50]) if row else "–" for row in of)] for batch, of in rows.items()]
            yield "## What the machine cannot do without"
            yield (
                "Milliseconds for the tensor of a call: one copy, one way over TCP to another process, and the model"
                " by ONNX Runtime in a process that serves nothing."
            )
            yield md.table(Table(["", *LIMITS], lines))


def _scaling(found: Found, kept: Sequence[tuple[Path, Kept]]) -> Iterator[str]:
    """Of every route: what a second core gives, and where more callers give no more."""
    faster, dearer = (dict(one for _, of in kept for one in _cores(of, measure)) for measure in (THROUGHPUT, CPU))
    for path, result in found:
        if result.study == SCALING.name:
            lines = []
            for knee in result.analysis.knees:
                at = f"more than {knee.at}" if knee.still else str(knee.at)
                ratios = (str(of.get(knee.name, "–")) for of in (faster, dearer))
                lines.append([knee.name, *ratios, at, str(knee.per_second)])
            yield "## Every route: a second core, and more callers"
            yield (
                f"On two cores / on one, with {peers.MANY} callers: photos a second, and the CPU time of everything per"
                " photo; their product is how busy two cores were, where the one was busy all the time. Servers, edge"
                " and load have both cores, or share the first, also for what they do while idle. The knee is the least"
                f" number of callers that no larger one beats by more than 5 % ({_link(path)})."
            )
            head = ["route", "photos a second, two cores / one", "CPU time, two cores / one"]
            yield md.table(Table([*head, "knee, callers", "photos per second there"], lines))
