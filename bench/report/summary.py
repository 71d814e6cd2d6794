"""What a run prints at its end: the tables and the verdicts that fit on a screen. The report has the rest."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.report import results

WIDTH = 160
P50, THROUGHPUT = "p50_ms", "images_per_s"


def show(result: Mapping[str, Any], console: Console | None = None) -> None:
    """Print the p50 and throughput of every cell with 95 % intervals, then the verdicts."""
    # A table that does not fit a pipe's 80 columns would lose its row names.
    console = console or Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    judged = {cell["id"]: cell for cell in result["analysis"]["cells"]}
    groups: dict[tuple[Any, ...], list[results.Row]] = {}
    for row in results.rows(result):
        groups.setdefault(results.setting(row), []).append(row)
    for setting, group in groups.items():
        where = ", ".join("all at once" if factor is True else str(factor) for factor in setting if factor)
        serial = [cell for cell in group if cell["users"] == 1]
        together = [cell for cell in group if cell["batch"] == 1]
        if serial:
            console.print(_table(f"p50 in ms per call, one user ({where})", serial, judged, "batch", P50))
        if together:
            console.print(_table(f"images per second, batch 1 ({where})", together, judged, "users", THROUGHPUT))
    for row in result["analysis"].get("quick_runs", []):
        what = f"batch {row['batch']}, {row['users']} users, {_MEASURES[row['measure']]}"
        console.print(f"no difference shown in {row['same']} of {row['runs']} quick runs: {what}", markup=False)
    for ratio in result["analysis"]["ratios"]:
        if ratio["kind"] == "protocol":
            what = f"batch {ratio['batch']}, {ratio['users']} users, {_MEASURES[ratio['measure']]}"
            console.print(f"{ratio['a_name']} / {ratio['b_name']}, {what}: {ratio['text']}", markup=False)
    for hypothesis in result["analysis"]["hypotheses"]:
        console.print(f"{hypothesis['id']} {hypothesis['verdict']}: {hypothesis['text']}", markup=False)
    marks = dict.fromkeys(mark for cell in judged.values() for mark in cell["marks"])
    for mark in marks:
        console.print(f"no verdict: {mark}", markup=False)


_MEASURES = {P50: "p50", THROUGHPUT: "images per second"}


def _table(
    title: str, cells: Sequence[Mapping[str, Any]], judged: Mapping[str, Any], column: str, measure: str
) -> Table:
    """Rows are names, columns the values of a factor."""
    table = Table(title=title, title_justify="left")
    table.add_column("", no_wrap=True)
    values = sorted({cell[column] for cell in cells})
    for value in values:
        table.add_column(f"{column} {value}", justify="right", no_wrap=True)
    for name in dict.fromkeys(cell["name"] for cell in cells):
        row = {cell[column]: judged[cell["id"]] for cell in cells if cell["name"] == name}
        table.add_row(name, *(_interval(row.get(value), measure) for value in values))
    return table


def _interval(cell: Mapping[str, Any] | None, measure: str) -> str:
    """`9.12 (9.01 to 9.30)`; a star where the cell is marked."""
    found = cell and cell[measure]
    if not cell or not found:
        return "–"
    star = "*" if cell["marks"] else ""
    if found["low"] is None:
        return f"{found['value']:.4g}{star}"
    return f"{found['value']:.4g}{star} ({found['low']:.4g} to {found['high']:.4g})"
