"""Results side by side: `scripts/compare A B [A B ...] [--allow FACTOR]`.

If a factor differs, the results are not compared: each such factor is named with both values. Otherwise their cells are
put side by side, without verdicts: a machine drifts between two runs at two times.

What cannot be measured in one run, such as a setting of the servers, takes several runs of each side in turn. Then each
pair gives a ratio, slow drift is in both of its sides, and the interval is from how far the pairs agree.

Exit status: 0 the two are alike (or differ in what was allowed), 1 a result cannot be read, 2 refused.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bench.analysis.statistics import MIN_BLOCKS, Estimate, pooled
from bench.figures import digits
from bench.report import results
from bench.report.results import ResultError, Row
from bench.result import EVERY, Interval, Result
from bench.studies import study_of

ALIKE, UNREADABLE, REFUSED = 0, 1, 2
DRIFT = "Two runs at two times: a difference may be drift. To judge it, measure both sides in one run, or in turn."
ALLOWED = "Allowed to differ"
ALL = "all cells"
IN_TURN, THROUGHPUT, CPU = "in-turn", "images/s", "CPU, ms/image"
MEASURES: Mapping[str, Callable[[Row], Interval | None]] = {
    "p50, ms": lambda row: row["p50_ms"],
    THROUGHPUT: lambda row: row["images_per_s"],
    CPU: lambda row: row["cpu_ms"].get(EVERY),
}
"""Of a cell: what it is called -> its number in a row, None where it was not measured."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of two results."""

    refused: Mapping[str, tuple[str, str]]
    """Factors that differ and were not allowed to, with both values. If there are any, there are no lines."""
    lines: Sequence[str]

    def __str__(self) -> str:
        if not self.refused:
            return "\n".join(self.lines)
        said = ["These results were not measured under the same conditions, so they are not compared:"]
        said += [f"  {_difference(name, values)}" for name, values in self.refused.items()]
        return "\n".join([*said, "To compare them all the same, name each factor that may differ: --allow FACTOR."])


Value = str | Mapping[str, str] | None


FACTORS: Mapping[str, Callable[[Result], Value]] = {
    "study": lambda result: result.study,
    "method": lambda result: result.method,
    "machine": lambda result: result.environment.machine,
    "kernel": lambda result: result.environment.kernel,
    "accelerator": lambda result: result.environment.accelerator,
    "device": lambda result: f"{gpu.count} x {gpu.name}" if (gpu := result.environment.device) else "no GPU",
    "driver": lambda result: gpu.driver if (gpu := result.environment.device) else "no GPU",
    "limits": lambda result: {name: str(one) for name, one in (result.environment.services or {}).items()} or None,
    "client-limits": lambda result: str(result.environment.client_limits),
    "model": lambda result: result.environment.model.name,
    "checksum": lambda result: result.environment.model.checksum,
    "model-config": lambda result: result.environment.model.config_sha256,
    "weights": lambda result: result.environment.model.weights,
    # The number of nodes follows from the model; the factor is the provider that ran them.
    "providers": lambda result: (
        {model: " + ".join(sorted(nodes)) for model, nodes in (result.environment.providers or {}).items()} or None
    ),
    "engines": lambda result: {name: str(one) for name, one in (result.environment.engines or {}).items()} or None,
    "triton": lambda result: result.environment.triton,
    "envoy": lambda result: result.environment.envoy.version,
    "envoy-config": lambda result: result.environment.envoy.config_sha256,
    "traces": lambda result: "on" if result.environment.traces else "off",
    "clients": lambda result: {name: text or "absent" for name, text in result.environment.versions.items()},
}
"""Factors that must be equal: name -> its value in a result, None if unknown."""
CELL_FACTORS = ("photo", "policy", "target", "rate")
"""Factors of cells: two results differ in one if they have no value of it in common."""
NAMES = (*FACTORS, *CELL_FACTORS)


def compare(a: Result, b: Result, allow: Collection[str] = ()) -> Comparison:
    """Set `b` against `a`, both as results.load() gives them; ResultError for an unknown factor in `allow`."""
    if unknown := sorted(set(allow) - set(NAMES)):
        raise ResultError(f"no factor {unknown[0]}: choose from {', '.join(NAMES)}")
    differ = _differ(a, b)
    if refused := {name: values for name, values in differ.items() if name not in allow}:
        return Comparison(refused, [])
    said = [DRIFT, *(f"{ALLOWED}: {_difference(name, values)}" for name, values in differ.items())]
    unknown_in_both = [name for name, value in FACTORS.items() if value(a) is None and value(b) is None]
    said += [f"{name} is unknown in both results, so it may differ" for name in unknown_in_both]
    commits = [result.environment.commit or "unknown" for result in (a, b)]
    if commits[0] != commits[1]:
        said.append(f"commit: {commits[0]} against {commits[1]}")
    said += list(_lines(_common(a, b, differ))) or ["The two results have no cell in common."]
    # The claim of a study that is about two devices.
    study, devices = study_of(a.study), differ.get("machine", differ.get("device"))
    if devices and a.study == b.study and study.across:
        one = study.across(a.analysis, b.analysis, devices)
        said.append(f"{one.id} ({one.claim}): {one.verdict}. {one.text}")
        said += [f"Cause: {one.cause}"] if one.cause else []
    return Comparison({}, said)


@dataclass(frozen=True, slots=True)
class InTurn:
    """b / a of results that were measured in turn: A B A B A B."""

    about: Mapping[str, str | int]
    """When, where and at which commit they began, and how many pairs there are."""
    differ: Mapping[str, tuple[str, str]]
    """Factors that were allowed to differ, and do, with both values."""
    ratios: Mapping[str, Mapping[str, Interval]]
    """Measure -> ALL, or a cell's id -> its ratio, with a 95 % interval by how far the pairs agree."""

    def __str__(self) -> str:
        said = [f"{self.about['pairs']} pairs in turn: b/a, with its 95 % interval by the pairs."]
        said += [f"{ALLOWED}: {_difference(name, values)}" for name, values in self.differ.items()]
        said += [f"{cell}  {words}: {ratio}" for words, of in self.ratios.items() for cell, ratio in of.items()]
        return "\n".join(said)

    @property
    def json(self) -> str:
        plain = {"schema": 1, "kind": IN_TURN, **self.about, "differ": self.differ, "ratios": self.ratios}
        return msgspec.json.format(msgspec.json.encode(plain), indent=1).decode()


def in_turn(pairs: Sequence[tuple[Result, Result]], allow: Collection[str] = ()) -> Comparison | InTurn:
    """Set the second of each pair against its first. What may differ within a pair may not differ from pair to pair:
    then it is a refused Comparison. Raises ResultError as `compare` does."""
    every = [compare(a, b, allow) for a, b in pairs]
    every += [compare(pairs[0][side], pair[side]) for pair in pairs[1:] for side in (0, 1)]
    if refused := next((one for one in every if one.refused), None):
        return refused
    ratios: dict[str, dict[str, Interval]] = {}
    for words, measure in MEASURES.items():
        quotients = defaultdict[str, dict[int, float]](dict)
        for turn, pair in enumerate(pairs):
            for row, other in _common(*pair, allow):
                mine, its = measure(row), measure(other)
                if mine and its and mine.value and its.value:
                    quotients[row["id"]][turn] = its.value / mine.value
        found = {id_: Estimate(one) for id_, one in quotients.items() if len(one) == len(pairs)}
        if whole := pooled(list(found.values())):
            ratios[words] = {ALL: whole.interval} | {id_: one.interval for id_, one in found.items()}
    first = pairs[0][0]
    about: dict[str, str | int] = {
        "pairs": len(pairs),
        "study": first.study,
        "date": first.started_at,
        "commit": first.environment.commit or "unknown",
        "machine": first.environment.machine,
        "model": first.environment.model.name,
    }
    return InTurn(about, _differ(*pairs[0]), ratios)


def _difference(factor: str, values: tuple[str, str]) -> str:
    return f"{factor}: {values[0]} against {values[1]}"


def _differ(a: Result, b: Result) -> dict[str, tuple[str, str]]:
    """Every factor that differs, of the runs and of their cells, with both values."""
    return dict(_differences(a, b)) | dict(_cell_differences(results.rows(a), results.rows(b)))


def _differences(a: Result, b: Result) -> Iterator[tuple[str, tuple[str, str]]]:
    for name, value in FACTORS.items():
        mine, other = value(a), value(b)
        if isinstance(mine, Mapping) and isinstance(other, Mapping):
            # Only what differs: a reader looks for one version among ten.
            alike = mine.items() & other.items()
            mine, other = (dict(sorted(side.items() - alike)) for side in (mine, other))
        if mine != other:
            yield name, (_said(mine), _said(other))


def _said(value: Value) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {text}" for key, text in value.items()) or "none"
    return "unknown" if value is None else value


def _cell_differences(a: Sequence[Row], b: Sequence[Row]) -> Iterator[tuple[str, tuple[str, str]]]:
    for name in CELL_FACTORS:
        mine, other = ({"closed loop" if row[name] is None else str(row[name]) for row in rows} for rows in (a, b))
        if mine and other and not mine & other:
            yield name, (", ".join(sorted(mine)), ", ".join(sorted(other)))


def _common(a: Result, b: Result, free: Collection[str]) -> Iterator[tuple[Row, Row]]:
    """Each cell that is in both, without regard to the factors in `free`."""

    def key(row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in ("name", "batch", "users", *CELL_FACTORS) if name not in free)

    theirs = results.grouped(results.rows(b), key)
    for found, rows in results.grouped(results.rows(a), key).items():
        # Where two cells of one result differ in a free factor only, nobody can tell which of them is meant.
        if len(rows) == len(theirs.get(found, ())) == 1:
            yield rows[0], theirs[found][0]


def _lines(common: Iterable[tuple[Row, Row]]) -> Iterator[str]:
    """A line per measure of each common cell: b / a, and marks."""
    for row, other in common:
        marks = dict.fromkeys([*row["marks"], *other["marks"]])
        marked = f"; marked: {'; '.join(marks)}" if marks else ""
        for words, measure in MEASURES.items():
            mine, its = measure(row), measure(other)
            if mine and its and mine.value:
                ratio = f"b/a {digits(its.value / mine.value)}, {_overlap(mine, its)}"
                yield f"{row['id']}  {words}: {mine} against {its}, {ratio}{marked}"


def _overlap(a: Interval, b: Interval) -> str:
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return "no interval"
    return "intervals overlap" if a.low <= b.high and b.low <= a.high else "intervals do not overlap"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives its exit status."""
    parser = argparse.ArgumentParser(
        prog="scripts/compare",
        description="Compare result B with result A. Several pairs, measured in turn (A B A B A B), give an interval.",
    )
    help_ = "folders of two runs, or their result.json; or of several such pairs"
    parser.add_argument("results", metavar="RESULT", nargs="+", help=help_)
    allowed = f"a factor that may differ; may be repeated. One of: {', '.join(NAMES)}"
    parser.add_argument("--allow", action="append", default=[], choices=NAMES, metavar="FACTOR", help=allowed)
    parser.add_argument("--json", action="store_true", help="of pairs: as JSON")
    options = parser.parse_args(arguments)
    sides = options.results[::2], options.results[1::2]
    if len(sides[0]) != len(sides[1]) or 1 < len(sides[0]) < MIN_BLOCKS:
        parser.error(f"give two results, or {MIN_BLOCKS} pairs and more, in turn: A B A B A B")
    try:
        pairs = [(results.load(a), results.load(b)) for a, b in zip(*sides, strict=True)]
        comparison = in_turn(pairs, options.allow) if len(pairs) > 1 else compare(*pairs[0], options.allow)
    except ResultError as error:
        print(f"fiveway: {error}", file=sys.stderr)
        return UNREADABLE
    if isinstance(comparison, InTurn):
        print(comparison.json if options.json else comparison)
        return ALIKE
    print(comparison, file=sys.stderr if comparison.refused else sys.stdout)
    return REFUSED if comparison.refused else ALIKE


if __name__ == "__main__":
    sys.exit(main())
