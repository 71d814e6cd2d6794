"""A page as Markdown, and as one self-contained HTML file: both by templates over the same blocks."""

import re
from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from bench.report import plots
from bench.report.model import HTML, MARKDOWN, SIGNS, Entry, Page


def html(page: Page) -> str:
    """One page that loads nothing."""
    return _template("report.html.j2", autoescape=True).render(page=page, blocks=_only(page, HTML), signs=SIGNS)


def markdown(page: Page) -> str:
    """The same without plots, colours and what would be too long."""
    text = _template("report.md.j2", autoescape=False).render(page=page, blocks=_only(page, MARKDOWN))
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _only(page: Page, form: str) -> list[object]:
    return [block for block in page.blocks if block.only in ("", form)]


def _template(name: str, *, autoescape: bool) -> Template:
    loader = Environment(
        loader=PackageLoader("bench.report", "."), autoescape=autoescape, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    loader.filters |= {"css": css, "escaped": escaped, "bracketed": bracketed, "found": found}
    return loader.get_template(name)


def css(name: str, names: Sequence[str] = ()) -> str:
    """The colour of a row."""
    return plots.css(plots.colour(name, names))


def escaped(text: str) -> str:
    """Words of a result as Markdown shows them: one line, no markup of their own."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def bracketed(cell: Entry | str) -> str:
    """An entry of a table in Markdown: `8.40 (8.21–8.57) † *9.1*`, the published number in italics."""
    if isinstance(cell, str):
        return escaped(cell)
    between = f" ({cell.between})" if cell.between not in ("", "no interval") else ""
    published = "".join(f" *{number}*" for number in cell.published)
    return escaped(cell.text) + between + (" †" if cell.marks else "") + published


def found(text: str) -> list[str]:
    """What a claim's text says ratio by ratio: a semicolon in brackets is between an interval and its cell."""
    return re.split(r"; (?![^(]*\))", text.removesuffix("."))
