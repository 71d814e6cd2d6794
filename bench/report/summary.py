"""What a run prints at its end: the tables and the verdicts that fit on a screen. The report has the rest."""

import sys

from rich.console import Console
from rich.table import Table

from bench.report import markdown, report
from bench.result import Result

WIDTH = 160


def show(result: Result) -> None:
    """Print the tables of every setting with their intervals, then the verdicts on protocols, claims and marks."""
    # A table that does not fit a pipe's 80 columns would lose its row names.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    tables = [(f"{made.caption} ({part.name})", made) for part in report.parts(result) for made in part.tables]
    if result.analysis.quick_runs:
        made = report.quick_runs(result.analysis.quick_runs)
        tables.append((made.caption, made))
    for title, made in tables:
        table = Table(title=title, title_justify="left")
        for number, head in enumerate(made.head):
            table.add_column(head, justify="left" if number < made.left else "right", no_wrap=True)
        for line in made.lines:
            table.add_row(*map(markdown.cell, line))
        console.print(table)
    lines = [report.said(ratio) for ratio in result.analysis.ratios if ratio.kind in ("protocol", "edge")]
    lines += [f"{one.id} {one.verdict}. {' '.join(one.text.splitlines())}" for one in result.analysis.hypotheses]
    lines += dict.fromkeys(f"† No verdict: {mark}" for cell in result.analysis.cells for mark in cell.marks)
    for line in lines:
        console.print(line, markup=False)
