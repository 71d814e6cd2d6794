"""What a study is made of: rows, cells, what is compared with what, and the claims that were published."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.measure.measured import GATE, Cell
from locustfiles.routes import Route

PUBLISHED = Path(__file__).with_name("published")
P50, PER_SECOND, RECEIVED = "p50_ms", "images_per_s", "received_bytes_per_image"
LOWER, HIGHER, EQUAL = "lower", "higher", "equal"

Interval = Mapping[str, float | None]
"""{"value", "low", "high"}: see statistics.as_json."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of a cell in the unit that the study's tables have, made of what the analysis has."""

    name: str
    """Head of a table: `s per 20 calls`."""
    of: str
    """The analysis's number that it is made of: P50 or PER_SECOND."""
    factor: float = 1.0
    inverse: bool = False
    """The number is `factor` / that number."""

    def __call__(self, cell: Mapping[str, Any]) -> Interval | None:
        """Of an analysed cell; None where it has no such number."""
        found: Interval | None = cell[self.of]
        if not found:
            return None
        value, low, high = (found[name] for name in ("value", "low", "high"))
        if self.inverse:
            return {name: x and self.factor / x for name, x in (("value", value), ("low", high), ("high", low))}
        return {name: x and self.factor * x for name, x in (("value", value), ("low", low), ("high", high))}


MEDIAN = Measure("p50, ms", P50)
RATE = Measure("calls per second", PER_SECOND)


def per_calls(calls: int) -> Measure:
    """Seconds for so many calls of the throughput that was measured."""
    return Measure(f"s per {calls} calls", PER_SECOND, calls, inverse=True)


@dataclass(frozen=True, slots=True)
class Claim:
    """A published finding, as ratios that would show it."""

    id: str
    says: str
    """The finding in one sentence, as published."""
    published: str
    """The published numbers that it rests on."""
    pairs: Sequence[tuple[str, str]]
    """(a, b): the ratio a / b of two rows, in every cell that `where` takes."""
    expected: str
    """LOWER or HIGHER: on which side of 1 the ratio is where the finding holds. EQUAL: within hypotheses.SAME."""
    measure: str = P50
    """P50, PER_SECOND, or RECEIVED: bytes on the wire, which are counted and have no interval."""
    where: Callable[[Mapping[str, Any]], bool] = lambda cell: True
    """By the factors of a's cell."""
    size: float | None = None
    """How large the published ratio is (its inverse where LOWER), for a finding that names a size: `7x faster`. It is
    reproduced where the interval reaches SIZE_SHARE of it."""


SIZE_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class Study:
    """A published comparison as data: everything else is the bench's."""

    name: str
    question: str
    source: str
    """Who published it, and where; empty for a study of our own."""
    routes: Mapping[str, Route]
    """Row -> the way to ask. Rows that are routes of the stack are taken from there."""
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
    claims: Sequence[Claim] = ()
    published: Callable[[Mapping[str, Any]], Mapping[str, float]] = lambda cell: {}
    """By the factors of a cell: where it was measured -> the published number in the unit of the first measure."""
    published_kb: Callable[[Mapping[str, Any]], float | None] = lambda cell: None
    """By the factors of a cell: the published size of its answer, in KiB."""
    flaws: Sequence[tuple[str, str]] = field(default_factory=tuple)
    """(what was wrong with the original, which factor of ours shows it)."""
    advice: Sequence[str] = field(default_factory=tuple)
    """What a practitioner should do."""
    answer: Callable[[Mapping[str, Any]], str] = lambda result: ""
    """The study's question, answered in one sentence from the numbers of a result (result.json); empty: no answer."""
    declared: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What is known of the rows without measuring: head of a column -> row -> number."""
    gate: float = GATE
    """The most that a load process may use of one core; math.inf where the client's work is what is measured, too."""
    seconds: float = 4.0
    """Of a visit; the quick form takes a third of it."""
    least: Callable[[Cell], float] = lambda cell: 0.0
    """Seconds that a visit takes at least, for long calls: a p50 needs 10 of them in all blocks together."""
    warm_s: float = 1.0
    """Before a visit, at least, and two calls; the quick form takes half of it."""
    blocks: int = 5


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
