"""The command line of scripts/bench: every command says what it takes, and refuses the rest with what to choose."""

import pytest

from bench import commands
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
