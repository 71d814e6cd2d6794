"""Markdown: a page is a title and blocks; words of a result are escaped, markup is written here alone."""

import re
from collections.abc import Iterable

from bench.report.tables import Entry, Table
from bench.result import Judged


def page(title: str, *blocks: str) -> str:
    """Blocks with an empty line between them; empty ones are left out."""
    return "\n\n".join([f"# {escaped(title)}", *filter(None, blocks)]) + "\n"


def escaped(text: str) -> str:
    """Words of a result as Markdown shows them: one line, no markup of their own."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def table(made: Table) -> str:
    rule = ["---"] * made.left + ["---:"] * (len(made.head) - made.left)
    lines: list[Iterable[str]] = [map(escaped, made.head), rule, *(map(cell, line) for line in made.lines)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(entry: Entry | str) -> str:
    """`8.40 (8.21–8.57) † ‡ *9.1*`, the published number in italics."""
    if isinstance(entry, str):
        return escaped(entry)
    limits = f" ({entry.limits})" if entry.limits not in ("", "no interval") else ""
    signs = " †" * bool(entry.marks) + " ‡" * entry.heavy
    return escaped(entry.text) + limits + signs + "".join(f" *{text}*" for text in entry.published)


def items(lines: Iterable[str], heading: str = "") -> str:
    """A list below its heading; nothing without a line."""
    text = "\n".join(f"- {escaped(line)}" for line in lines)
    return f"{heading}\n\n{text}" if text and heading else text


def claims(judged: Iterable[Judged]) -> Iterable[str]:
    """What was published, and our verdicts ratio by ratio."""
    for one in judged:
        yield f"### {one.id}: {escaped(one.claim.removesuffix('.'))}"
        cause = f" {escaped(one.cause)}" if one.cause else ""
        published = escaped(one.published_verdict.removesuffix("."))
        yield f"**{one.verdict.capitalize()}.** Published: {published}.{cause}"
        yield items(one.text.splitlines())


def commands(lines: Iterable[str]) -> str:
    text = "\n".join(" ".join(line.split()) if "\n" in line else line for line in lines)
    return f"```console\n{text}\n```"
