"""The parts of a study: rows, cells, comparisons, and the published claims."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

from bench import words
from bench.figures import callers
from bench.measure.measured import Cell
from bench.measure.split import PARTS
from bench.result import Analysis, Found, Interval, Judged, Ratio, Result, Verdict
from locustfiles import toxiproxy
from locustfiles.routes import Route
from locustfiles.study_routes import STUDY_ROUTES

PUBLISHED = Path(__file__).with_name("published")
P50: Final = "p50_ms"
PER_SECOND: Final = "images_per_s"
RECEIVED: Final = "received_bytes_per_image"
TIME = "time"
"""P50 of one caller, and with more of them the inverse of PER_SECOND: what a caller waits for."""


VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of a cell, converted from the analysis into the unit of the study's tables."""

    name: str
    """Head of a table: `s per 20 calls`."""
    of: str
    """The analysis's number that it is made of: P50, PER_SECOND, or a part of the time split, which has no interval."""
    factor: float = 1.0
    inverse: bool = False
    """The number is `factor` / that number."""
    published: Callable[[Cell], Mapping[str, float]] = lambda cell: {}
    """By a cell: where it was measured -> the published number, in this unit."""

    def __call__(self, cell: Found) -> Interval | None:
        """Of an analysed cell; None where it has no such number."""
        if self.of in PARTS:
            return Interval(cell.split[self.of]) if cell.split else None
        found: Interval | None = cell[self.of]
        return found and (found.turned(self.factor) if self.inverse else found.times(self.factor))


MEDIAN = Measure("p50, ms", P50)
RATE = Measure("calls per second", PER_SECOND)


def per_calls(calls: int) -> Measure:
    """Seconds for so many calls of the throughput that was measured."""
    return Measure(f"s per {calls} calls", PER_SECOND, calls, inverse=True)


@dataclass(frozen=True, slots=True)
class Ratios:
    """The ratios that would show a finding."""

    pairs: Sequence[tuple[str, str]]
    """(a, b): the ratio a / b of two rows, in every cell that `where` takes."""
    expected: Literal["lower", "higher", "equal"]
    """On which side of 1 the ratio is where the finding holds; equal: result.SAME."""
    measure: str = P50
    """P50, PER_SECOND, TIME, or RECEIVED: bytes on the wire, which are counted and have no interval."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """Factor of a's cell -> its value, or a tuple of those that it may have."""
    size: float | None = None
    """How large the published ratio is (its inverse where `lower`), for a finding that names a size: `7x faster`."""
    largest: str = ""
    """A factor of which only the largest measured value counts, if it is above 1 (`large batches`)."""
    material: bool = False
    """A difference whose interval is within SAME_WITHIN counts as the same."""
    same_shows: bool | None = False
    """What SAME says of a finding of a side: it contradicts it, shows it (`not faster`), or None: nothing."""
    everywhere: bool = False
    """A finding about all cells: a single ratio that contradicts it refutes it."""

    def about(self, cell: Cell) -> bool:
        """Whether `where` takes this cell."""
        allowed = {name: value if isinstance(value, tuple) else (value,) for name, value in self.where.items()}
        return all(getattr(cell, name) in values for name, values in allowed.items())


@dataclass(frozen=True, slots=True)
class Claim:
    """A published finding."""

    says: str
    """The finding in one sentence, as published."""
    published: str
    """The published numbers that it rests on."""
    shown_by: Ratios


ANSWER = 2
"""Sentences of an answer: a reader knows it after half a minute."""
SIZE_WITHIN = (0.8, 1.25)
"""How many times the published size a ratio may be that reproduces it, with its whole interval."""


@dataclass(frozen=True, slots=True)
class Study:
    """A published comparison as data. The bench does the rest."""

    name: str
    question: str
    source: str
    """Who published it, and where; empty for a study of our own."""
    cells: Callable[[bool], Sequence[Cell]]
    """The cells of the whole study, or (True) of its quick form."""
    pairs: Mapping[tuple[str, str], str]
    """(a, b) -> what differs between the two rows: `protocol` (unequal connections forbid a verdict), or another."""
    measures: Sequence[Measure]
    """What the tables show; the first is the one that was published."""
    columns: Sequence[str] = ("photo",)
    """The factors whose values are the columns of a table; those left, each once, are its tables."""
    unit: str = ""
    """What a `size` counts, as a plural: `values`."""
    claims: Mapping[str, Claim] = field(default_factory=dict)
    """Name of a finding -> the finding."""
    published_kb: Callable[[Cell], float | None] = lambda cell: None
    """The published size of a cell's answer, in KiB."""
    flaws: Sequence[str] = ()
    """Faults of the original. Each one names the factor in our study that shows it."""
    advice: Sequence[str] = ()
    """What a practitioner should do."""
    answer: Callable[[Result], Sequence[str]] = lambda result: ()
    """Sentences made of a result's numbers: the first two (`ANSWER`) answer the question, each by ratios with their
    intervals, the others add to it; empty: no answer."""
    declared: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Columns of known numbers, which are not measured: head of a column -> row -> number."""
    no_gate: str = ""
    """Why a load process may use more than GATE of a core here, as a sentence; empty: it may not."""
    seconds: float = 4.0
    """Of a visit; the quick form takes a sixth of it."""
    least: Callable[[Cell], float] = lambda cell: 0.0
    """Seconds that a visit takes at least, for long calls: a p50 needs 10 of them in all blocks together."""
    warm_s: float = 1.0
    """Before a visit, at least, and two calls; the quick form takes a quarter of it."""
    blocks: int = 5
    together: Sequence[str] = ("name", "route", "target")
    """See Plan."""
    turns: bool = False
    """A visit has several short windows, and the cells that are compared take turns at them: see plan.in_turns()."""
    setting: Sequence[str] = ()
    """Factors whose first value alone the claims are about, where a run has several."""
    pooled_over: Sequence[str] = ()
    """Factors, besides batch and callers, over all of whose values the one ratio of a question is taken."""
    knees: bool = False
    """Where throughput stops growing is part of its answer."""
    of_photos: bool = False
    """Its claims are about photos: with a model that takes tensors they are not judged."""
    explain: Callable[[Found, Found, str], str] = lambda a, b, kind: ""
    """A further sentence on the cause of a ratio, from its two cells, after the measured factors that differ."""
    across: Callable[[Analysis, Analysis, tuple[str, str]], Judged] | None = None
    """Judges the claim about two devices, from their analyses and names."""

    @property
    def routes(self) -> Mapping[str, Route]:
        """Row -> the way to ask."""
        return STUDY_ROUTES[self.name]


CONNECTIONS = {
    "pooled": "pooled connections (one per caller, kept)",
    "shared": "one shared connection",
    "cold": "cold connections (a new one for every call)",
    "published": "a new client for every call",
}


def factor(study: Study, name: str, cell: Cell) -> str:
    """A factor of a cell as a reader says it: a size is `100,000 values`, `1 value`, or words as they are."""
    value, size = str(getattr(cell, name)), cell.size
    if size.isdecimal():
        size = f"{int(size):,} {study.unit.removesuffix('s') if size == '1' else study.unit}"
    said = {
        "users": callers(cell.users),
        "gather": "all at once" if cell.gather else "each at its own pace",
        "batch": f"batch {value}",
        "policy": CONNECTIONS.get(value, value),
        "distance": distance_text(cell.distance),
        "size": size or cell.photo,
        "photo": "" if size else value,
    }
    return said.get(name, value)


def distance_text(text: str) -> str:
    """`150 ms, 100 Mbit/s` of a cell's distance."""
    if not text:
        return "no added latency"
    way = toxiproxy.parse(text)
    return f"{way.round_trip_ms} ms, {way.mbit_per_s:,} Mbit/s"


def case(study: Study, cell: Cell) -> str:
    """The factors that distinguish a cell from one call of one caller: `20 callers, all at once, 360x640`."""
    usual = Cell("", "")
    names = ("batch", "gather", "photo", "size", "policy", "distance")
    told = [factor(study, name, cell) for name in names if getattr(cell, name) != getattr(usual, name)]
    return ", ".join(filter(None, [callers(cell.users), *told]))


def rows_of(file: str) -> list[dict[str, str]]:
    """The lines of a published table, without its comments."""
    lines = [line for line in (PUBLISHED / file).read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


def cross(base: Cell, **factors: Sequence[Any]) -> list[Cell]:
    """A cell for every combination of values of these factors of a Cell; `route` names the row too."""
    cells = [base]
    for name, values in factors.items():
        cells = [replace(cell, **{name: value}) for cell in cells for value in values]
    return [replace(cell, name=cell.route) for cell in cells]


def ratios_of(result: Result, measure: str = P50) -> Iterator[tuple[tuple[str, str], Cell, Ratio]]:
    """(its two rows, a's cell, the ratio) of every ratio of a result that is about `measure`."""
    cells = {cell.id: cell for cell in result.cells}
    for ratio in result.analysis.ratios:
        if ratio.measure == measure:
            yield (ratio.a_name, ratio.b_name), cells[ratio.a], ratio


def over_all(result: Result, names: Mapping[str, tuple[str, str]], least: int = 1) -> list[str]:
    """A clause per kind of these, between its two names, that has one ratio over `least` cells or more."""
    pooled = {one.kind: one for one in result.analysis.pooled if one.ratios >= least}
    return [words.between(*two, pooled[kind]) for kind, two in names.items() if kind in pooled]
