"""What a report is made of, whatever it is written as: blocks of text, tables, plots and claims in one order.

    report.py (a run), study_page.py (a study) -> Page -> render.py -> Markdown, or one HTML page that loads nothing

A block says by `only` where it belongs when it does not belong into both: a Markdown file draws no plots, and a page
has room for every factor. Words are plain text here; the two templates escape them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.report.plots import Plot
from bench.report.results import Row, between, digits
from bench.result import Interval, Judged

FASTER, SLOWER, SAME, NONE = "faster", "slower", "no difference shown", "no verdict"
SIGNS = {FASTER: "▼", SLOWER: "▲", SAME: "=", NONE: "?"}
"""Beside the colour, the sign of a verdict: a faster one takes less time."""
HTML, MARKDOWN = "html", "markdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Something between two blank lines."""

    only: str = ""
    """HTML, MARKDOWN, or empty: both."""

    @property
    def kind(self) -> str:
        """What the templates tell blocks apart by."""
        return type(self).__name__


@dataclass(frozen=True, slots=True)
class Heading(Block):
    """Begins a section; with a short name in `nav` it is in the table of contents."""

    text: str
    id: str = ""
    nav: str = ""
    level: int = 2


@dataclass(frozen=True, slots=True)
class Text(Block):
    """A paragraph: a bold beginning, words, and a link at the end."""

    text: str
    bold: str = ""
    link: tuple[str, str] | None = None
    """(words, where to)."""
    style: str = ""
    """`small`, `label` or `warning`."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A cell of a table."""

    text: str
    between: str = ""
    """Its interval, or that it has none."""
    published: tuple[str, ...] = ()
    marks: tuple[int, ...] = ()
    """Numbers of what speaks against it in the list of marks, from 1; 0 where no list numbers them."""
    verdict: str = ""
    """One of SIGNS."""
    times: str = ""
    """`1.20×`, beside the verdict."""
    route: bool = False
    """A row's name, which has a colour."""


@dataclass(frozen=True, slots=True)
class Table(Block):
    """A head and lines; the first column is what a line is about."""

    head: Sequence[str]
    lines: Sequence[Sequence[Entry | str]]
    caption: str = ""
    style: str = "numbers"
    """`numbers`, or `words`: every column on the left."""
    folded: str = ""
    """The line that opens it, where it is closed at first."""
    left: int = 1
    """How many columns are on the left, of `numbers`."""


@dataclass(frozen=True, slots=True)
class Items(Block):
    """A list; its caption is a heading, or a plain line where it ends with a colon."""

    items: Sequence[str]
    caption: str = ""
    numbered: str = ""
    """The beginning of the ids by which entries of tables lead here."""
    folded: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """A question with its short and its long answer."""

    question: str
    short: str
    long: str


@dataclass(frozen=True, slots=True)
class Cards(Block):
    """Answers side by side."""

    cards: Sequence[Card]


@dataclass(frozen=True, slots=True)
class Claims(Block):
    """What was published, and our verdicts."""

    claims: Sequence[Judged]


@dataclass(frozen=True, slots=True)
class Picture(Block):
    """A plot with its caption; in Markdown a file beside the page."""

    title: str
    caption: str = ""
    plot: Plot | None = None
    file: str = ""


@dataclass(frozen=True, slots=True)
class Legend(Block):
    """What the colours and signs of verdicts mean."""


@dataclass(frozen=True, slots=True)
class Code(Block):
    """Commands."""

    lines: Sequence[str]


@dataclass(slots=True)
class Page:
    """A whole report."""

    title: str
    eyebrow: str = ""
    """The words above the heading."""
    answer: str = ""
    """The heading of the HTML page."""
    made_by: str = ""
    """How to make it again: a comment at the beginning of the Markdown."""
    footer: str = ""
    names: Sequence[str] = ()
    """All rows, for their colours."""
    blocks: list[Block] = field(default_factory=list)

    def add(self, *blocks: Block | None) -> None:
        """Blocks in the order of reading; None is left out."""
        self.blocks += [block for block in blocks if block is not None]


def entry(interval: Interval | None, row: Row, marks: Sequence[str] = (), verdict: str = "", times: str = "") -> Entry:
    """A number of a row with its interval, and what speaks against it."""
    numbers = tuple(marks.index(mark) + 1 if mark in marks else 0 for mark in row["marks"])
    if interval is None:
        return Entry("–", marks=numbers, verdict=verdict, times=times)
    return Entry(digits(interval.value), between(interval), marks=numbers, verdict=verdict, times=times)


def pivot(
    found: Sequence[Row],
    column: Callable[[Row], str],
    cell: Callable[[Row], Entry],
    caption: str = "",
    order: Callable[[Row], int] = lambda row: 0,
) -> Table:
    """A line per name, a column per value of `column`, in `order`."""
    columns = list(dict.fromkeys(column(row) for row in sorted(found, key=order)))
    lines: list[list[Entry | str]] = []
    for name in dict.fromkeys(row["name"] for row in found):
        mine = {column(row): row for row in found if row["name"] == name}
        lines.append([Entry(name, route=True), *(cell(mine[key]) if key in mine else "–" for key in columns)])
    return Table(["", *columns], lines, caption)
