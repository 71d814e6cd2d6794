"""Result files: result.json is read and written here, whole or not at all, and its cells are rows of tables."""

import contextlib
import csv
import io
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bench.measure.measured import FINISHED, SCHEMA, Cell
from bench.result import Environment, Found, MeasuredCell, Result
from locustfiles.study_routes import WAYS

RESULT = "result.json"
INTERVALS = ("p50_ms", "p90_ms", "p99_ms", "images_per_s", "cost_per_million_images")
FACTORS = ("id", *Cell.__dataclass_fields__)
COUNTS = ("requests", "failures", "blocks")
MEANS = (
    "mean_ms", "sent_bytes_per_image", "received_bytes_per_image", "connections", "edge_connections", "client_cpu",
    "calls_per_execution",
)  # fmt: skip


class ResultError(ValueError):
    """A result that cannot be written, read or shown; the text is one line that says what to do."""


@dataclass(frozen=True, slots=True)
class Row:
    """A cell's factors and its analysis in one record, each field by its name."""

    cell: MeasuredCell
    found: Found

    def __getitem__(self, name: str) -> Any:
        return getattr(self.cell if name in FACTORS else self.found, name)


def load(path: Path | str) -> Result:
    """The result in a run's folder or result.json; raises ResultError when this version cannot read it."""
    file = Path(path)
    if file.is_dir():
        file /= RESULT
    try:
        return decode(file.read_bytes())
    except FileNotFoundError:
        raise ResultError(f"{file} is absent: give the folder of a run (results/<date>/<machine>/<run>)") from None
    except OSError as error:
        raise ResultError(f"{file} cannot be read ({error.strerror}): give a run's folder or its {RESULT}") from error
    except ResultError as error:
        raise ResultError(f"{file}: {error}") from None


def decode(text: bytes) -> Result:
    """The result in this JSON; ResultError names the field that is wrong."""
    try:
        result = msgspec.json.decode(text, type=Result)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ResultError(_refused(text, error)) from None
    cells = {cell.id for cell in result.cells}
    analysed = {cell.id for cell in result.analysis.cells}
    if cells != analysed:
        raise ResultError(f"its analysis is of other cells than it has ({min(cells ^ analysed)}): analyse it again")
    if strangers := {id_ for ratio in result.analysis.ratios for id_ in (ratio.a, ratio.b)} - cells:
        raise ResultError(f"a ratio in its analysis is of a cell that it has not ({min(strangers)}): analyse it again")
    return result


def _refused(text: bytes, error: Exception) -> str:
    """Why this is not a result. For another version of the format it says which commit wrote it."""
    try:
        found = json.loads(text)
    except ValueError:
        return f"not JSON ({error}): it is damaged, take it from git or measure again"
    if not isinstance(found, dict) or "schema" not in found:
        return "not a result of the bench: it names no schema"
    if found["schema"] == SCHEMA:
        return f"not a result of schema {SCHEMA}: {error}"
    environment = found.get("environment")
    commit = environment.get("commit") if isinstance(environment, dict) else None
    which = f"at commit {commit}" if commit else "that wrote it"
    return f"schema {found['schema']}, this version reads {SCHEMA}: use the version {which}"


def encode(result: Result) -> bytes:
    """result.json: compact, numpy's numbers as Python's, what is not finite as null, and each cell with its id."""
    plain = msgspec.to_builtins(result, enc_hook=lambda number: number.item())
    for cell, entry in zip(result.cells, plain["cells"], strict=True):
        entry["id"] = cell.id
    return msgspec.json.encode(plain) + b"\n"


def put(path: Path, content: bytes | str) -> None:
    """Replace a file in one step. Raises ResultError; the old file then stays."""
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        what = "make room for it, or choose another folder; files that were there before are unchanged"
        raise ResultError(f"{path} cannot be written ({error.strerror}): {what}") from error


def grouped[Key](found: Iterable[Row], key: Callable[[Row], Key]) -> dict[Key, list[Row]]:
    """The rows with equal keys, in the order of the rows."""
    groups: dict[Key, list[Row]] = {}
    for row in found:
        groups.setdefault(key(row), []).append(row)
    return groups


def rows(result: Result) -> list[Row]:
    """One row per cell, in the order of the result."""
    analysed = {cell.id: cell for cell in result.analysis.cells}
    return [Row(cell, analysed[cell.id]) for cell in result.cells]


def cells_csv(result: Result) -> str:
    """One line per cell; an interval is three columns, a part of the time split one (ms); empty: no number."""
    found = rows(result)
    parts = list(dict.fromkeys(part for row in found for part in row["split"] or ()))
    text, bounds = io.StringIO(), {"": "value", "_low": "low", "_high": "high"}
    lines = []
    for row in found:
        numbers = {f"{name}{end}": row[name] and row[name][bounds[end]] for name in INTERVALS for end in bounds}
        numbers |= {name: row[name] for name in MEANS}
        numbers |= {f"split_{part.replace(' ', '_')}_ms": (row["split"] or {}).get(part) for part in parts}
        line = {name: row[name] for name in (*FACTORS, *COUNTS)}
        line |= {name: f"{number:.6g}" if isinstance(number, float) else number for name, number in numbers.items()}
        lines.append(line | {name: "; ".join(row[name]) for name in ("marks", "notes")})
    sheet = csv.DictWriter(text, lines[0] if lines else (), lineterminator="\n")
    sheet.writeheader()
    sheet.writerows(lines)
    return text.getvalue()


def label(result: Result) -> str:
    """Where the numbers are from, in short: date, machine, model, weights, providers, confidence."""
    device = result.environment.device
    text = (
        f"Measured {result.started_at[:10]} on {result.environment.machine} ({device.name if device else 'no GPU'}):"
        f" {'; '.join(filter(None, model(result)))}. Intervals are {result.analysis.confidence * 100:g} %."
    )
    if result.of_tensors:
        text += " The model takes tensors: an image here is one item of a batch."
    if result.method != "fair":
        text += f" Method: {result.method}."
    if result.ended != FINISHED:
        text += f" The run ended early: {result.ended}."
    return text


def model(result: Result) -> tuple[str, str]:
    """The model with its weights, and what ran it; `no model` and nothing where no row has one."""
    ways = [WAYS.get(cell.name) for cell in result.cells]
    if ways and all(way and way.modelless for way in ways):
        return "no model", ""
    about = result.environment.model
    return f"{about.name} with {about.weights or 'unknown'} weights", providers(result.environment)


def providers(environment: Environment) -> str:
    """`<model> on CPUExecutionProvider, <model>_trt on OpenVINOExecutionProvider`, or that it is unknown."""
    found = sorted((environment.providers or {}).items())
    return ", ".join(f"{model} on {' + '.join(nodes)}" for model, nodes in found) or "providers unknown"
