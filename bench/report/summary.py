"""What a run prints at its end: the tables and the verdicts that fit on a screen. The report has the rest."""

import sys

from rich.console import Console
from rich.table import Table

from bench.report import render, report
from bench.report.model import Table as Made
from bench.result import Result

WIDTH = 160


def show(result: Result, console: Console | None = None) -> None:
    """Print the tables of every setting with their intervals, then the verdicts on protocols, claims and marks."""
    # A table that does not fit a pipe's 80 columns would lose its row names.
    console = console or Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    for part in report.parts(result):
        for made in report.numbers(part, []):
            _print(console, made, f"{made.caption} ({part.name})")
    if result.analysis.quick_runs:
        made = report.quick_runs(result.analysis.quick_runs)
        _print(console, made, made.caption)
    lines = [str(report.Verdict(ratio)) for ratio in result.analysis.ratios if ratio.kind == "protocol"]
    lines += [f"{one.id} {one.verdict}: {one.text}" for one in result.analysis.hypotheses]
    lines += dict.fromkeys(f"† no verdict: {mark}" for cell in result.analysis.cells for mark in cell.marks)
    for line in lines:
        console.print(line, markup=False)


def _print(console: Console, made: Made, title: str) -> None:
    table = Table(title=title, title_justify="left")
    for number, head in enumerate(made.head):
        table.add_column(head, justify="left" if number < made.left else "right", no_wrap=True)
    for line in made.lines:
        table.add_row(*(render.bracketed(cell) for cell in line))
    console.print(table)
