"""What a run leaves behind: result.json, checked against schema.json, and its views: cells.csv, report.md, report.html.

Every file is written whole or not at all, result.json first: a full disk costs the views, never what was measured.
"""

import csv
import functools
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from bench.measure.measured import FINISHED, SCHEMA, Run, of_tensors
from locustfiles.study_routes import WAYS

RESULT = "result.json"
INTERVALS = ("p50_ms", "p90_ms", "p99_ms", "images_per_s", "cost_per_million_images")
FACTORS = ("id", "name", "route", "batch", "users", "policy", "target", "photo", "rate", "size", "distance", "gather")
ABSENT: Mapping[str, Any] = {"size": "", "distance": "", "gather": False}
"""What the factors are in a result that was written before they existed."""
COUNTS = ("requests", "failures", "blocks")
MEANS = (
    "mean_ms", "sent_bytes_per_image", "received_bytes_per_image", "connections", "edge_connections", "client_cpu",
    "calls_per_execution",
)  # fmt: skip
BEGIN, END = "<!-- fiveway table -->", "<!-- /fiveway table -->"
DEVICES_BEGIN, DEVICES_END = "<!-- devices table -->", "<!-- /devices table -->"

Row = Mapping[str, Any]
"""A cell's factors together with what the analysis says of it."""


class ResultError(ValueError):
    """A result that cannot be written, read or shown; the text is one line that says what to do."""


def write(folder: Path, run: Run, analysis: Mapping[str, Any], *, pages: bool = True) -> None:
    """Write a run into `folder`: result.json, and the pages made of it. Raises ResultError; older files then stay."""
    # The views draw plots: whoever only reads results need not load what draws them.
    from bench.report import report

    result: dict[str, Any] = _plain(run.as_json() | {"analysis": analysis})
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _replace(folder / RESULT, json.dumps(result, indent=1, allow_nan=False) + "\n")
        try:
            check(result)
        except ResultError as error:
            raise ResultError(f"{folder / RESULT} is written, but no report can be made of it: {error}") from error
        if not pages:
            return
        _replace(folder / "cells.csv", cells_csv(result))
        _replace(folder / "report.md", report.markdown(result))
        _replace(folder / "report.html", report.html(result))
    except OSError as error:
        raise ResultError(
            f"{error.filename or folder} cannot be written ({error.strerror}): make room for it, or choose another"
            " folder; files that were there before are unchanged"
        ) from error


def load(path: Path | str) -> dict[str, Any]:
    """The result in a run's folder or result.json; raises ResultError when it is none that this version reads."""
    file = Path(path)
    if file.is_dir():
        file /= RESULT
    try:
        result = json.loads(file.read_text())
    except FileNotFoundError:
        raise ResultError(f"{file} is absent: give the folder of a run (results/<date>/<machine>/<run>)") from None
    except OSError as error:
        raise ResultError(f"{file} cannot be read ({error.strerror}): give a run's folder or its {RESULT}") from error
    except ValueError as error:
        raise ResultError(
            f"{file} is not JSON ({_line(error)}): it is damaged, take it from git or measure again"
        ) from None
    try:
        check(result)
    except ResultError as error:
        raise ResultError(f"{file}: {error}") from None
    loaded: dict[str, Any] = result
    return loaded


def check(result: Any) -> None:
    """Raise ResultError unless `result` follows schema.json and its analysis speaks of its own cells."""
    if not isinstance(result, dict) or "schema" not in result:
        raise ResultError("not a result of the bench: it names no schema")
    if result["schema"] != SCHEMA:
        environment = result.get("environment")
        commit = environment.get("commit") if isinstance(environment, dict) else None
        which = f"at commit {commit}" if commit else "that wrote it"
        raise ResultError(f"schema {result['schema']}, this version reads {SCHEMA}: use the version {which}")
    if error := best_match(_validator().iter_errors(result)):
        where = "/".join(str(part) for part in error.absolute_path) or "top level"
        raise ResultError(f"not a result of schema {SCHEMA}: {where}: {_line(error.message)}")
    cells = {cell["id"] for cell in result["cells"]}
    analysed = {cell["id"] for cell in result["analysis"]["cells"]}
    if cells != analysed:
        raise ResultError(
            f"its analysis is of other cells than it has ({sorted(cells ^ analysed)[0]}): analyse it again"
        )
    for ratio in result["analysis"]["ratios"]:
        if stranger := {ratio["a"], ratio["b"]} - cells:
            raise ResultError(
                f"a ratio in its analysis is of a cell that it has not ({min(stranger)}): analyse it again"
            )


def rows(result: Mapping[str, Any]) -> list[Row]:
    """One row per cell, in the order of the result: its factors, its analysis, and the problems of its visits."""
    analysed = {cell["id"]: cell for cell in result["analysis"]["cells"]}
    return [
        {**ABSENT, **{name: cell[name] for name in FACTORS if name in cell}}
        | analysed[cell["id"]]
        | {"problems": [visit["problem"] for visit in cell["visits"] if visit["problem"]]}
        for cell in result["cells"]
    ]


def setting(row: Row) -> tuple[Any, ...]:
    """What one table holds still: everything but the name, the batch and the number of users."""
    return tuple(row[name] for name in ("policy", "target", "photo", "rate", "size", "distance", "gather"))


def settings(found: Iterable[Row]) -> list[tuple[Any, ...]]:
    """The settings of these rows, each once, in the order of the rows."""
    return list(dict.fromkeys(setting(row) for row in found))


def by_batch(found: Iterable[Row]) -> list[Row]:
    """The serial cells: one caller."""
    return [row for row in found if row["users"] == 1]


def by_users(found: Iterable[Row]) -> list[Row]:
    """The concurrent cells: the smallest batch, any number of callers; none when there was one caller only."""
    found = list(found)
    smallest = min((row["batch"] for row in found), default=1)
    at_smallest = [row for row in found if row["batch"] == smallest]
    return at_smallest if any(row["users"] > 1 for row in at_smallest) else []


def cells_csv(result: Mapping[str, Any]) -> str:
    """One line per cell; an interval is three columns, a part of the time split one (ms); empty: no number."""
    found = rows(result)
    parts = list(dict.fromkeys(part for row in found for part in row["split"] or ()))
    bounds = [f"{name}{suffix}" for name in INTERVALS for suffix in ("", "_low", "_high")]
    split = [f"split_{part.replace(' ', '_')}_ms" for part in parts]
    text = io.StringIO()
    sheet = csv.writer(text, lineterminator="\n")
    sheet.writerow([*FACTORS, *COUNTS, *bounds, *MEANS, *split, "marks", "notes"])
    for row in found:
        values = [(row[name] or {}).get(key) for name in INTERVALS for key in ("value", "low", "high")]
        spent = [(row["split"] or {}).get(part) for part in parts]
        words = ["; ".join(row[name]) for name in ("marks", "notes")]
        numbers = [
            f"{value:.6g}" if isinstance(value, float) else value
            for value in (*values, *(row[m] for m in MEANS), *spent)
        ]
        sheet.writerow([*(row[name] for name in (*FACTORS, *COUNTS)), *numbers, *words])
    return text.getvalue()


def table(result: Mapping[str, Any], folder: str | None = None) -> str:
    """The README's table in Markdown, of the result's first setting: p50 by batch, images per second by concurrency.

    `folder` is where the result lies, for the reader who wants all of it.
    """
    check(result)
    found = rows(result)
    found = [row for row in found if setting(row) in settings(found)[:1]]
    parts = [escaped(label(result)) + (f" All of it: [{folder}]({folder})." if folder else "")]
    if serial := by_batch(found):
        parts.append("p50 latency in ms, one caller:\n\n" + pivot(serial, "batch", "p50_ms", "batch {}".format))
    if concurrent := by_users(found):
        parts.append("Images per second:\n\n" + pivot(concurrent, "users", "images_per_s", callers))
    if any(row["marks"] for row in found):
        parts.append("† no verdict may rest on this cell; the report says why.")
    return "\n\n".join(parts)


def quick_runs(result: Mapping[str, Any]) -> str:
    """An A/A result in Markdown: a row per ratio, with the quick runs that showed no difference."""
    lines = ["| cell | measure | no difference shown | median interval |", "|---|---|---:|---:|"]
    for row in result["analysis"]["quick_runs"]:
        where = f"batch {row['batch']}, {callers(row['users'])}"
        what = "p50" if row["measure"] == "p50_ms" else "images per second"
        width = "–" if row["width"] is None else f"± {100 * (row['width'] ** 0.5 - 1):.0f} %"
        lines.append(f"| {where} | {what} | {row['same']} of {row['runs']} | {width} |")
    return "\n".join(lines)


def label(result: Mapping[str, Any]) -> str:
    """Where the numbers are from, in short: date, machine, model, weights, providers, confidence."""
    environment, confidence = result["environment"], result["analysis"]["confidence"]
    text = (
        f"Measured {result['started_at'][:10]} on {environment['machine']}"
        f" ({environment['device']['name'] if environment['device'] else 'no GPU'}):"
        f" {'; '.join(filter(None, model(result)))}. Intervals are {confidence * 100:g} %."
    )
    if of_tensors(environment):
        text += " The model takes tensors: an image here is one item of a batch."
    if result["method"] != "fair":
        text += f" Method: {result['method']}."
    if result["ended"] != FINISHED:
        text += f" The run ended early: {result['ended']}."
    return text


def model(result: Mapping[str, Any]) -> tuple[str, str]:
    """The model with its weights, and what ran it; `no model` and nothing where no row has one."""
    ways = [WAYS.get(cell["name"]) for cell in result["cells"]]
    if ways and all(way and way.modelless for way in ways):
        return "no model", ""
    about = result["environment"]["model"]
    return f"{about['name']} with {about['weights'] or 'unknown'} weights", providers(result["environment"])


def escaped(text: str) -> str:
    """Words of a result as Markdown shows them: one line, no markup of their own."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def providers(environment: Mapping[str, Any]) -> str:
    """`<model> on CPUExecutionProvider, <model>_trt on OpenVINOExecutionProvider`, or that nobody knows."""
    found = environment["providers"] or {}
    return ", ".join(f"{model} on {' + '.join(nodes)}" for model, nodes in sorted(found.items())) or "providers unknown"


def pivot(found: Sequence[Row], column: str, measure: str, heading: Callable[[int], str]) -> str:
    """A Markdown table: a line per name, a column per value of `column`, `8.40 (8.21–8.57)` in the cells."""
    columns = sorted({row[column] for row in found})
    lines = [["", *(heading(value) for value in columns)], ["---"] + ["---:"] * len(columns)]
    for name in dict.fromkeys(row["name"] for row in found):
        mine = {row[column]: row for row in found if row["name"] == name}
        lines.append([escaped(name), *(_entry(mine.get(value), measure) for value in columns)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def callers(users: int) -> str:
    return "1 caller" if users == 1 else f"{users} callers"


def _entry(row: Row | None, measure: str) -> str:
    return "–" if row is None else bracketed(row[measure]) + (" †" if row["marks"] else "")


def bracketed(interval: Mapping[str, float | None] | None) -> str:
    """`8.40 (8.21–8.57)`; the number alone where there are too few blocks for its interval; a dash without a number."""
    if not interval:
        return "–"
    return f"{digits(interval['value'])} ({between(interval)})" if interval["low"] else digits(interval["value"])


def between(interval: Mapping[str, float | None]) -> str:
    """`8.21–8.57`."""
    return f"{digits(interval['low'])}–{digits(interval['high'])}" if interval["low"] else "no interval"


def digits(value: float | None) -> str:
    """Three digits or all of the whole ones: 0.0123, 8.40, 59.2, 1,974; a dash for no value."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(places, 6)}f}"


def update_readme(readme: str, result: Mapping[str, Any], folder: str | None = None) -> str:
    """`readme` with the table between its markers; raises ResultError when it has not exactly one pair of them."""
    return _between(readme, "README", BEGIN, END, table(result, folder))


def update_devices(page: str, root: Path) -> str:
    """docs/gpu.md with a row for every result below `root`/results; raises ResultError as update_readme does."""
    lines = ["| date | device | study | model | providers | result |", "|---|---|---|---|---|---|"]
    for path in sorted(root.glob("results/*/*/*/result.json")):
        result, folder = load(path), path.parent.relative_to(root)
        environment = result["environment"]
        device = environment["device"]
        where = f"{device['count']} x {device['name']}, driver {device['driver']}" if device else "no GPU"
        study = result["study"] if result["method"] == "fair" else f"{result['study']}, {result['method']}"
        ran = [f"{where}: {environment['machine']}", study, *model(result)]
        cells = [
            result["started_at"][:10],
            *(escaped(text) or "–" for text in ran),
            f"[{folder.name}](../{folder}/report.md)",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return _between(page, "page", DEVICES_BEGIN, DEVICES_END, "\n".join(lines))


def _between(text: str, what: str, begin: str, end: str, new: str) -> str:
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
        raise ResultError(f"the {what} needs one line {begin} and below it one line {end}: the table goes between them")
    return f"{text.partition(begin)[0]}{begin}\n{new}\n{end}{text.partition(end)[2]}"


@functools.cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(json.loads(Path(__file__).with_name("schema.json").read_text()))


def _replace(path: Path, text: str) -> None:
    """Put a file in place at once; an error leaves the one that was there."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        # write() itself names no file when the disk is full.
        raise OSError(error.errno, error.strerror, str(path)) from error


def _plain(value: Any) -> Any:
    """JSON's own types: numpy's numbers become Python's, and what is not finite becomes null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _line(error: object) -> str:
    """One line, not too long: a checker may quote a whole document."""
    text = re.sub(r"\s+", " ", str(error))
    return text if len(text) <= 200 else f"{text[:80]} ... {text[-100:]}"
