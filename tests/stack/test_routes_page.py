"""docs/routes.md, word for word: commands answer what stands below them, Python prints what stands beside it."""

import re
import subprocess
import sys

import pytest

from tests.clients import EDGE, TIMEOUT_S
from tests.repository import ROOT

PAGE = (ROOT / "docs" / "routes.md").read_text().replace("127.0.0.1:8080", EDGE)
CONSOLE = re.findall(r"^```console\n(.*?)^```$", PAGE, re.M | re.S)
PYTHON = "".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S))
# A command and the indented lines below it, then its answer.
TYPED = re.compile(r"^\$ (.*\n(?:[ ].*\n)*)((?:(?!\$ ).*\n)*)", re.M)
BETWEEN = "\x1e"
"""Printed after each command, to tell the answers apart."""


def run(*command: str) -> str:
    """stdout of a command that must succeed, at the root of the repository."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=2 * TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{done.stderr}{done.stdout}"
    return done.stdout


def unspaced(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("block", CONSOLE, ids=range(len(CONSOLE)))
def test_commands_answer_what_the_page_shows(block: str) -> None:
    """Exactly, but for spaces and where the page has `...`; the commands of a block share a shell."""
    typed = TYPED.findall(block)
    script = "".join(f"{command}printf '{BETWEEN}'\n" for command, _ in typed)
    answers = run("bash", "-euo", "pipefail", "-c", script).split(BETWEEN)
    for (command, shown), answer in zip(typed, answers[:-1], strict=True):
        wanted = ".*?".join(re.escape(unspaced(part)) for part in shown.split("..."))
        assert re.fullmatch(wanted, unspaced(answer)), f"{command}{answer}"


def test_python_prints_what_the_page_shows() -> None:
    """All blocks as one program, as a reader would type them one after the other."""
    wanted = re.findall(r"^print\(.*\)  # (.*)$", PYTHON, re.M)
    assert len(wanted) == PYTHON.count("print(")
    assert run(sys.executable, "-c", PYTHON).split() == wanted
