"""Tables, before they are written as Markdown (markdown.py), HTML (report.html.j2) or onto a screen (summary.py)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.figures import digits
from bench.report.results import Row
from bench.result import Interval, Ratio


@dataclass(frozen=True, slots=True)
class Entry:
    """A number in a table."""

    text: str
    limits: str = ""
    """Its interval, or that it has none."""
    published: Sequence[str] = ()
    marks: Sequence[str] = ()
    """Why no verdict may rest on it."""
    heavy: bool = False
    """Whether the client is a large part of it: Found.client_heavy."""
    verdict: str = ""
    """One of SPEEDS."""
    times: str = ""
    """`1.20×`, beside the verdict."""


@dataclass(frozen=True, slots=True)
class Table:
    """A head and lines. The first column names the line."""

    head: Sequence[str]
    lines: Sequence[Sequence[Entry | str]]
    caption: str = ""
    left: int = 1
    """The number of left-aligned columns, which hold words."""
    routes: bool = False
    """The first column has rows' names, which have colours."""


def entry(interval: Interval | None, row: Row, verdict: Ratio | None = None, published: Sequence[str] = ()) -> Entry:
    """A number of a row with its interval and its mark."""
    text, limits = (digits(interval.value), interval.limits) if interval else ("–", "")
    judged = (verdict.speed, times(verdict)) if verdict else ()
    return Entry(text, limits, published, row["marks"], row["client_heavy"], *judged)


def times(ratio: Ratio) -> str:
    """The ratio of times, e.g. how many times as long it takes; empty if unknown."""
    return f"{ratio.time.value:.2f}×" if ratio.time else ""


def pivot(
    rows: Sequence[Row],
    column: Callable[[Row], str],
    cell: Callable[[Row], Entry],
    caption: str = "",
    order: Callable[[Row], int] = lambda row: 0,
) -> Table:
    """A line per name, a column per value of `column`, in `order`."""
    columns = list(dict.fromkeys(map(column, sorted(rows, key=order))))
    cells = {(row["name"], column(row)): cell(row) for row in rows}
    names = dict.fromkeys(row["name"] for row in rows)
    lines = [[name, *(cells.get((name, key), "–") for key in columns)] for name in names]
    return Table(["", *columns], lines, caption, routes=True)
