"""docs/performance.md: what the stack costs against other ways to serve the same model, each number beside its goal.

scripts/bench performance RESULT... > docs/performance.md, where a RESULT is a run's folder or a budgets.json. A goal
without a result says so.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import sub, truediv
from pathlib import Path
from typing import Any

from bench import words
from bench.figures import digits
from bench.measure.split import COMPUTE, DECODE
from bench.report import markdown as md
from bench.report import results
from bench.report.results import ResultError, Row
from bench.report.tables import Table
from bench.result import EVERY, SERVERS, Interval, Result
from bench.studies import peers, shm
from bench.studies.fiveway import FIVEWAY
from bench.studies.format import FORMAT, SERVER
from bench.studies.peers import NAMES, PEERS_STUDY
from bench.studies.shm import SHM_STUDY
from bench.studies.study import PER_SECOND, Study, ratios_of
from bench.studies.torchserve import TORCHSERVE
from locustfiles.settings import DIRECT, EDGE
from locustfiles.study_routes.peers import OURS
from locustfiles.study_routes.shm import GRPC, HTTP, LIMITS

NOOP = "noop"
FULL_HD = "1080x1920"
MET, MISSED, NOT_SHOWN = "met", "missed", "not shown"


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
    budget: str = ""
    """Its name in budgets.json instead."""

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


def _both(of: Callable[[float, float], float], a: Interval | None, b: Interval | None) -> Interval | None:
    """The difference or the quotient of two independent numbers, with the widest limits that both allow."""
    if not a or not b:
        return None
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return Interval(of(a.value, b.value))
    return Interval(of(a.value, b.value), of(a.low, b.high), of(a.high, b.low))


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
        yield from _case("one caller", _both(truediv, *(row["cpu_ms"].get(SERVERS) for row in (whole, one))))


def _decode(result: Result) -> Iterator[Number]:
    if (row := _at(result, "torchserve-http", photo=FULL_HD)) and row["split"]:
        yield Number("TorchServe's handler, which decodes by the same code", Interval(row["split"][DECODE]))


def _engines(result: Result) -> Iterator[Number]:
    for pair, cell, ratio in ratios_of(result):
        if pair == SERVER and not cell.distance and (cpu := ratio.cpu.get(SERVERS)):
            yield Number(f"batch {cell.batch}", cpu.turned(), words.differing(ratio))


def _gateway(measure: str, result: Result) -> Iterator[Number]:
    """The typed gateway over TorchServe's own gRPC, of one caller and small photos."""
    ours, theirs = (_at(result, name, photo="360x640") for name in ("typed-grpc", "torchserve-grpc"))
    if ours and theirs:
        both = (row["cpu_ms"].get(EVERY) if measure == EVERY else row[measure] for row in (ours, theirs))
        yield from _case("360x640, through the edge", _both(sub, *both))


def _edge(result: Result) -> Iterator[Number]:
    for name in (HTTP, GRPC):
        through, past = (_at(result, name, target=target) for target in (EDGE, DIRECT))
        if through and past:
            yield from _case(name, _both(truediv, through["p50_ms"], past["p50_ms"]))


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
    ),
    Goal("the same with a model that does next to nothing", least=2, study=PEERS_STUDY, of=partial(_peers, True)),
    Goal("JPEG server, CPU per image, batch 32 / batch 1", 1.05, study=FIVEWAY, of=_batched),
    Goal("decoding and resizing a 1080p JPEG", 5, unit=" ms", study=TORCHSERVE, of=_decode),
    Goal("PyTorch / ONNX Runtime, CPU per image of servers that take JPEGs", 1.5, study=FORMAT, of=_engines),
    Goal(
        "typed gateway over TorchServe directly, p50", 0.5, unit=" ms", study=TORCHSERVE, of=partial(_gateway, "p50_ms")
    ),
    Goal(
        "typed gateway over TorchServe directly, CPU per image",
        0.3,
        unit=" ms",
        study=TORCHSERVE,
        of=partial(_gateway, EVERY),
    ),
    Goal("through the edge / directly, p50, one tensor", 1.03, study=SHM_STUDY, of=_edge),
    Goal("added by the edge to 10 kB without a model", 0.3, unit=" ms"),
    Goal("light Triton over ONNX Runtime in process, batch 1", 1.5, unit=" ms"),
    Goal("onnx-grpc / onnx-http, time", 1.02, study=FIVEWAY, of=partial(_protocols, False)),
    Goal("onnx-grpc / onnx-http, CPU of everything", 1.02, study=FIVEWAY, of=partial(_protocols, True)),
    Goal("onnx-shm / onnx-grpc, time outside Triton", 0.15, study=SHM_STUDY, of=_shared),
    Goal("images per second, two cores / one", least=1.9),
    Goal("unique image layers", 2.2e3, unit=" MB", budget="images_unique_layers_mb"),
    Goal("built images to all routes answering", 20, unit=" s", budget="start_to_healthy_s"),
    Goal("idle memory", 1335, unit=" MiB", budget="idle_memory_mib"),
)


def page(paths: Sequence[Path]) -> str:
    """In Markdown. Raises ResultError."""
    found: list[tuple[Path, Result]] = []
    budgets: dict[str, tuple[Path, float]] = {}
    for path in paths:
        if path.name == "budgets.json":
            budgets |= _budgets(path)
        else:
            found.append((path, results.load(path)))
    lines = [line for goal in GOALS for line in _lines(goal, found, budgets)]
    verdicts = [line[3] for line in lines]
    return md.page(
        "Performance",
        f"<!-- Made by ./scripts/bench performance {' '.join(map(str, paths))}: change a result or"
        " bench/report/performance.py. -->",
        f"**Of {len(verdicts)} goals: {verdicts.count(MET)} met, {verdicts.count(MISSED)} missed,"
        f" {verdicts.count(NOT_SHOWN)} not shown, {verdicts.count('')} not measured.** They say what"
        " the stack costs beside other ways to serve the same model, on two cores of a CPU."
        f" *{MET}* and *{MISSED}* are by the whole 95 % interval, or by the estimate"
        f" where there is none; *{NOT_SHOWN}*: the interval has the goal in it.",
        md.table(Table(["what", "goal", "measured", "", "result"], lines, left=5)),
        *_limits(found),
        "## Where they are from",
        md.items(f"{_link(path)}: {results.label(result)}" for path, result in found),
    )


def _link(path: Path) -> str:
    return f"[{path.stem}](../{path if path.suffix else path / 'report.md'})"


def _budgets(path: Path) -> dict[str, tuple[Path, float]]:
    """Name -> (where it is from, the number)."""
    try:
        measured = json.loads(path.read_text())
        return {name: (path, value) for name, value in measured.items() if isinstance(value, int | float)}
    except (OSError, ValueError) as error:
        raise ResultError(f"{path} cannot be read ({error}): give a file of scripts/budgets") from error


def _lines(
    goal: Goal, found: Sequence[tuple[Path, Result]], budgets: Mapping[str, tuple[Path, float]]
) -> Iterator[Sequence[str]]:
    """A line for each number of a goal, or a line that says that none was measured."""
    name = goal.study and goal.study.name
    numbers = [(path, number) for path, result in found if result.study == name for number in goal.of(result)]
    if goal.budget in budgets:
        path, value = budgets[goal.budget]
        numbers = [(path, Number("", Interval(value)))]
    for path, number in numbers:
        case = f" ({number.case})" if number.case else ""
        differ = f"; they differ in {number.why}" if number.why else ""
        said = f"{number.value}{goal.unit}{case}{differ}"
        yield goal.says, goal.wanted, said, goal.met(number.value), _link(path)
    if not numbers:
        yield goal.says, goal.wanted, "not measured", "", ""


def _limits(found: Sequence[tuple[Path, Result]]) -> Iterator[str]:
    """What the machine cannot do without: copying the bytes, carrying them over a socket, and computing."""
    for _, result in found:
        if result.study != SHM_STUDY.name:
            continue
        lines = []
        for batch in sorted({row["batch"] for row in results.rows(result)}):
            copied, carried = (_at(result, name, target=DIRECT, batch=batch) for name in LIMITS)
            computed = _at(result, GRPC, target=DIRECT, batch=batch)
            compute = computed and computed["split"] and digits(computed["split"][COMPUTE])
            numbers = [str(row["p50_ms"]) if row else "–" for row in (copied, carried)]
            lines.append([f"batch {batch}", *numbers, compute or "–"])
        yield "## What the machine cannot do without"
        yield "Milliseconds for the tensor of a call: one copy, one way over TCP to another process, and the model."
        yield md.table(Table(["", "memcpy", "loopback", "compute"], lines))
