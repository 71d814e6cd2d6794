"""The command line of scripts/bench: every command says what it takes, and refuses the rest with what to choose."""

import sys

import pytest

from bench import commands
from bench.__main__ import main
from bench.studies import STUDIES

COMMANDS = ["fiveway", *STUDIES, "aa", "truth", "report", "readme", "page", "plot", "devices"]


@pytest.mark.parametrize("name", dict.fromkeys(COMMANDS))
def test_every_command_has_help_and_refuses_other_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Help is no error; an unknown option names those that there are."""
    result = ["result"] if name in ("report", "readme", "page", "plot") else []
    for options, status in (["--help"], 0), ([*result, "--quikc"], 2):
        with pytest.raises(SystemExit) as ended:
            commands.parse([name, *options])
        assert ended.value.code == status
    said = capsys.readouterr()
    assert f"scripts/bench {name}" in said.out
    assert "unknown --quikc: choose from --help" in said.err


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_is_asked_by_its_name(study: str) -> None:
    """With its own target, unless one is named."""
    options = commands.parse([study, "--quick", "--policy", "cold,pooled"])
    assert (options.study, options.quick, options.policy) == (study, True, ["cold", "pooled"])
    assert options.target is None


@pytest.mark.parametrize("arguments", [[], ["nope"], ["fiveway", "--batches", "1,x"], ["fiveway", "--method", "y"]])
def test_what_is_no_choice_is_refused(arguments: list[str]) -> None:
    """Before anything is measured."""
    with pytest.raises(SystemExit) as ended:
        commands.parse(arguments)
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--routes onnx-htp", "jpeg-http"),
        ("--batches 33", "1 to 32"),
        ("--policy warm", "cold"),
        ("--target moon", "edge"),
    ],
)
def test_choices_that_cannot_run_are_refused(
    options: str, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, and a line that says what to choose."""
    monkeypatch.setattr(sys, "argv", ["scripts/bench", "fiveway", *options.split()])
    assert main() == 2
    assert says in capsys.readouterr().err
