"""Pages that repeat what the code says are held to it."""

import argparse
import re
from pathlib import Path

import pytest

from bench.commands import parsers
from tests.clients import ROUTES, WITHOUT_MODEL
from tests.repository import ROOT
from tests.stack.errors_page import PAGE, render

# Pages of studies, and those of goals, are made from results.
WRAPPED = [
    path.relative_to(ROOT)
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if path.parent.name != "studies" and path.name not in ("reliability.md", "performance.md")
]


def test_every_route_is_in_its_reference() -> None:
    """The tables of docs/routes.md have one row per route, in the order used everywhere."""
    rows = re.findall(r"^\| \[?`([\w-]+)`", (ROOT / "docs" / "routes.md").read_text(), re.M)
    assert [name for name in rows if name in (*ROUTES, *WITHOUT_MODEL)] == [*ROUTES, *WITHOUT_MODEL]


def test_the_errors_page_is_the_tested_table() -> None:
    """docs/errors.md is what tests/stack/bad_input.py says: `python -m tests.stack.errors_page` writes it."""
    assert (ROOT / PAGE).read_text() == render()


def test_every_option_of_the_bench_is_in_its_table() -> None:
    """docs/measuring.md has the options that some command of scripts/bench takes, and no other."""
    _, commands = parsers()
    actions = [action for command in commands.values() for action in command._actions]
    taken = {
        action.option_strings[-1] for action in actions if action.option_strings and action.help != argparse.SUPPRESS
    }
    table = (ROOT / "docs" / "measuring.md").read_text().partition("## Options")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`--.*?) \|", table, re.M)
    assert set(re.findall(r"`(--[a-z-]+)", "".join(rows))) == taken - {"--help"}


@pytest.mark.parametrize("document", WRAPPED, ids=str)
def test_lines_can_be_read(document: Path) -> None:
    """At most 120 characters, but for tables, whose rows cannot be broken; and README is short."""
    lines = (ROOT / document).read_text().splitlines()
    assert len(lines) <= 110 or document != Path("README.md")
    assert not [line for line in lines if len(line) > 120 and not line.startswith("|")]


def test_the_index_has_every_page() -> None:
    """docs/README.md links each page beside it, the studies, and the index of decisions, which links each decision."""
    for folder, pages in (("docs", "*.md"), ("docs", "studies/*.md"), ("docs/decisions", "*.md")):
        index = (ROOT / folder / "README.md").read_text()
        found = {str(path.relative_to(ROOT / folder)) for path in (ROOT / folder).glob(pages)} - {"README.md"}
        assert {name for name in found if f"]({name})" not in index} == set()
