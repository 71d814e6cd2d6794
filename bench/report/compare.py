"""Two results side by side: `scripts/compare A B [--allow FACTOR]`.

Unlike things are not compared: each factor that differs is named with both values, and nothing else is said. What is
alike is put side by side, but never judged: two runs were made at two times, and a machine drifts between them.

Exit status: 0 the two are alike (or differ in what was allowed), 1 a result cannot be read, 2 refused.
"""

import argparse
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.report import results
from bench.report.results import ResultError, Row, bracketed, digits
from bench.result import Environment, Interval, Judged, Limits, Result
from bench.studies import STUDIES

ALIKE, UNREADABLE, REFUSED = 0, 1, 2
DRIFT = "Two runs at two times: differences may be drift. To judge a difference, measure both sides in one run."
MEASURES = {"p50_ms": "p50, ms", "images_per_s": "images/s"}


@dataclass(frozen=True, slots=True)
class Difference:
    """A factor in which two results differ, and what each of them has."""

    factor: str
    a: str
    b: str

    def __str__(self) -> str:
        return f"{self.factor}: {self.a} against {self.b}"


@dataclass(frozen=True, slots=True)
class Line:
    """One measure of a cell that both results have."""

    cell: str
    measure: str
    a: Interval
    b: Interval
    marks: tuple[str, ...]
    """Why no verdict may rest on it, from both results."""

    @property
    def ratio(self) -> float:
        """b / a."""
        return self.b.value / self.a.value

    @property
    def overlap(self) -> bool | None:
        """Whether the two intervals overlap; None when one of them is not known."""
        low_a, high_a, low_b, high_b = self.a.low, self.a.high, self.b.low, self.b.high
        if low_a is None or high_a is None or low_b is None or high_b is None:
            return None
        return low_a <= high_b and low_b <= high_a

    def __str__(self) -> str:
        said = {True: "intervals overlap", False: "intervals do not overlap", None: "no interval"}[self.overlap]
        marked = f"; marked: {'; '.join(self.marks)}" if self.marks else ""
        return (
            f"{self.cell}  {MEASURES[self.measure]}: {bracketed(self.a)} against {bracketed(self.b)},"
            f" b/a {digits(self.ratio)}, {said}{marked}"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is to be said of two results."""

    refused: tuple[Difference, ...]
    """Differences that nobody allowed: with any of them there are no lines."""
    allowed: tuple[Difference, ...]
    notes: tuple[str, ...]
    lines: tuple[Line, ...]
    across: Judged | None = None
    """The claim of the study that is about two devices."""

    def __str__(self) -> str:
        if self.refused:
            lines = ["These two results are not of the same thing, so they are not compared:"]
            lines += [f"  {difference}" for difference in self.refused]
            return "\n".join([*lines, "A difference that you want: --allow and the name before its colon."])
        lines = [DRIFT, *(f"Allowed to differ: {difference}" for difference in self.allowed), *self.notes]
        lines += [str(line) for line in self.lines] or ["No cell is in both results."]
        if one := self.across:
            lines.append(f"{one.id} ({one.claim}): {one.verdict}. {one.text}")
            lines += [f"Cause: {one.cause}"] if one.cause else []
        return "\n".join(lines)


Value = str | Mapping[str, str] | None


def _limits(facts: Limits) -> str:
    cores = f" on {facts.cpuset}" if facts.cpuset else ""
    return f"{facts.cpus or 'no limit of'} cores{cores}, {facts.memory_bytes or 'no limit of'} bytes"


def _services(environment: Environment) -> Value:
    services = environment.services
    return {name: _limits(facts) for name, facts in services.items()} if services else None


def _providers(environment: Environment) -> Value:
    # How many nodes a graph has follows from the model; what ran them is the factor.
    found = environment.providers
    return {model: " + ".join(sorted(nodes)) for model, nodes in found.items()} if found else None


FACTORS: Mapping[str, Callable[[Result], Value]] = {
    "study": lambda result: result.study,
    "method": lambda result: result.method,
    "machine": lambda result: result.environment.machine,
    "kernel": lambda result: result.environment.kernel,
    "accelerator": lambda result: result.environment.accelerator,
    "device": lambda result: f"{gpu.count} x {gpu.name}" if (gpu := result.environment.device) else "no GPU",
    "driver": lambda result: gpu.driver if (gpu := result.environment.device) else "no GPU",
    "limits": lambda result: _services(result.environment),
    "client-limits": lambda result: _limits(result.environment.client_limits),
    "model": lambda result: result.environment.model.name,
    "checksum": lambda result: result.environment.model.checksum,
    "model-config": lambda result: result.environment.model.config_sha256,
    "weights": lambda result: result.environment.model.weights,
    "providers": lambda result: _providers(result.environment),
    "triton": lambda result: result.environment.triton,
    "envoy": lambda result: result.environment.envoy.version,
    "envoy-config": lambda result: result.environment.envoy.config_sha256,
    "clients": lambda result: {name: text or "absent" for name, text in result.environment.versions.items()},
}
"""What must be equal: name -> its value in a result; None is unknown."""
CELL_FACTORS = ("photo", "policy", "target", "rate")
"""What cells have: two results are unlike in one of these when no value of it is in both."""
NAMES = (*FACTORS, *CELL_FACTORS)


def compare(a: Result, b: Result, allow: Collection[str] = ()) -> Comparison:
    """Set `b` against `a`, both as results.load() gives them; ResultError for a factor in `allow` that there is not."""
    if unknown := sorted(set(allow) - set(NAMES)):
        raise ResultError(f"no factor {unknown[0]}: choose from {', '.join(NAMES)}")
    rows_a, rows_b = results.rows(a), results.rows(b)
    differences = [*_differences(a, b), *_cell_differences(rows_a, rows_b)]
    refused = tuple(one for one in differences if one.factor not in allow)
    allowed = tuple(one for one in differences if one.factor in allow)
    unknown_in_both = [name for name, value in FACTORS.items() if value(a) is None and value(b) is None]
    notes = [f"{name} is unknown in both: nobody can tell if it is equal" for name in unknown_in_both]
    commits = [result.environment.commit or "unknown" for result in (a, b)]
    if commits[0] != commits[1]:
        notes.append(f"commit: {commits[0]} against {commits[1]}")
    if refused:
        return Comparison(refused, allowed, tuple(notes), ())
    free = {one.factor for one in allowed if one.factor in CELL_FACTORS}
    return Comparison(refused, allowed, tuple(notes), tuple(_lines(rows_a, rows_b, free)), _across(a, b, allowed))


def _differences(a: Result, b: Result) -> list[Difference]:
    found = []
    for name, value in FACTORS.items():
        mine, other = value(a), value(b)
        if mine == other:
            continue
        if isinstance(mine, Mapping) and isinstance(other, Mapping):
            # Only what differs: a reader looks for one version among ten.
            keys = [key for key in sorted({*mine, *other}) if mine.get(key) != other.get(key)]
            mine, other = ({key: side[key] for key in keys if key in side} for side in (mine, other))
        found.append(Difference(name, _said(mine), _said(other)))
    return found


def _said(value: Value) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {text}" for key, text in value.items()) or "none"
    return "unknown" if value is None else value


def _cell_differences(a: Sequence[Row], b: Sequence[Row]) -> list[Difference]:
    found = []
    for name in CELL_FACTORS:
        mine, other = ({row[name] for row in rows} for rows in (a, b))
        if mine and other and not mine & other:
            texts = [sorted("closed loop" if value is None else str(value) for value in side) for side in (mine, other)]
            found.append(Difference(name, *map(", ".join, texts)))
    return found


def _lines(a: Sequence[Row], b: Sequence[Row], free: Collection[str]) -> list[Line]:
    """A line per measure of each cell that is in both, without regard to the factors in `free`."""

    def key(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in ("name", "batch", "users", *CELL_FACTORS) if name not in free)

    # Where two cells of one result differ in a free factor only, nobody can tell which of them is meant.
    keys = [[key(row) for row in rows] for rows in (a, b)]
    others = {key(row): row for row in b}
    lines = []
    for row in a:
        other = others.get(key(row))
        if other is None or any(side.count(key(row)) > 1 for side in keys):
            continue
        marks = tuple(dict.fromkeys([*row["marks"], *other["marks"]]))
        lines += [
            Line(row["id"], measure, row[measure], other[measure], marks)
            for measure in MEASURES
            if row[measure] and other[measure] and row[measure].value
        ]
    return lines


def _across(a: Result, b: Result, allowed: Collection[Difference]) -> Judged | None:
    """The claim about two devices, when both results are of a study that has one, and the device is to differ."""
    device = next((one for one in allowed if one.factor in ("device", "machine")), None)
    study = STUDIES.get(a.study)
    if device is None or a.study != b.study or study is None or study.across is None:
        return None
    return study.across(a.analysis, b.analysis, (device.a, device.b))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives its exit status."""
    parser = argparse.ArgumentParser(prog="scripts/compare", description="Set result B against result A.")
    parser.add_argument("a", metavar="A", help="a run's folder, or its result.json")
    parser.add_argument("b", metavar="B", help="the same")
    parser.add_argument(
        "--allow", action="append", default=[], choices=NAMES, metavar="FACTOR",
        help=f"a factor that may differ; can be given again: {', '.join(NAMES)}",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    try:
        comparison = compare(results.load(options.a), results.load(options.b), options.allow)
    except ResultError as error:
        print(f"fiveway: {error}", file=sys.stderr)
        return UNREADABLE
    print(comparison, file=sys.stderr if comparison.refused else sys.stdout)
    return REFUSED if comparison.refused else ALIKE


if __name__ == "__main__":
    sys.exit(main())
