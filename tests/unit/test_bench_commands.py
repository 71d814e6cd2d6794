"""The command line of scripts/bench: every command says what it takes, and refuses the rest with what to choose."""

from dataclasses import asdict
from pathlib import Path
from unittest.mock import Mock

import pytest

from bench import commands
from bench.measure.plan import Plan
from bench.studies import STUDIES
from tests.unit.tiny_artifacts import declare

COMMANDS = ["fiveway", *STUDIES, "aa", "truth", "explain", "report", "readme", "page", "plot", "devices"]


@pytest.mark.parametrize("name", dict.fromkeys(COMMANDS))
def test_every_command_has_help_and_refuses_other_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Help exits with 0; an unknown option is refused with the list of options."""
    result = ["result"] if name in ("report", "readme", "page", "plot") else []
    result += ["http://here", "--model", "m"] if name in ("endpoint", "explain") else []
    for options, status in (["--help"], 0), ([*result, "--quikc"], 2):
        with pytest.raises(SystemExit) as ended:
            commands.parse([name, *options])
        assert ended.value.code == status
    said = capsys.readouterr()
    assert f"scripts/bench {name}" in said.out
    assert "unknown --quikc: choose from --help" in said.err


@pytest.mark.parametrize("arguments", [[], ["nope"], ["fiveway", "--batches", "1,x"], ["fiveway", "--method", "y"]])
def test_what_is_no_choice_is_refused(arguments: list[str]) -> None:
    """Before anything is measured; choices that cannot run: test_locust_settings.py has every kind."""
    with pytest.raises(SystemExit) as ended:
        commands.parse(arguments)
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("arguments", "cells", "factors"),
    [
        ("fiveway", 42, {"batch": 5, "users": 3}),
        ("fiveway --quick --routes onnx-http,trt-http --policy cold,pooled", 12, {"users": 2, "policy": 2, "batch": 2}),
        ("fiveway --batches 1 --concurrency 4 --distance 0ms-100mbit,9ms-9mbit", 24, {"users": 2, "distance": 2}),
        ("fiveway --method published", 35, {"batch": 5, "users": 3}),
        ("fiveway --quick --routes onnx-http,onnx-grpc --client light,grpcio,go", 15, {"users": 2, "batch": 2}),
        ("frames --quick --routes frames-zmq,frames-grpc", 2, {}),
        ("format --quick --policy cold,pooled", 20, {"distance": 2, "policy": 2}),
        ("aa --route jpeg-http --runs 2 --target edge,direct", 8, {"users": 2, "target": 2}),
    ],
)
def test_what_a_command_measures(
    arguments: str, cells: int, factors: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every combination of what was chosen, in place of what the study has."""
    monkeypatch.setenv("ARTIFACTS", str(tmp_path))
    declare(tmp_path)
    planned: list[Plan] = []

    def measure(plan: Plan, _: object) -> int:
        planned.append(plan)
        return 0

    monkeypatch.setattr(commands, "measure", measure)
    options = commands.parse(arguments.split())
    assert options.run(options) == 0
    found = [asdict(cell) for cell in planned[0].cells]
    several = {name: len({cell[name] for cell in found}) for name in found[0] if name not in ("name", "route")}
    assert len(found) == len({cell.id for cell in planned[0].cells}) == cells
    assert {name: count for name, count in several.items() if count > 1} == factors


@pytest.mark.parametrize(("name", "rounds"), [("peers", 12), ("base", 1)])
def test_windows_come_in_turns_where_a_study_says_so(name: str, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cells of one comparison share a second that is slow; elsewhere a visit has one window."""
    measure = Mock(return_value=0)
    monkeypatch.setattr(commands, "measure", measure)
    monkeypatch.setattr(commands, "check", lambda *_: None)
    assert commands.of_study(commands.parse([name])) == 0
    plan: Plan = measure.call_args.args[0]
    assert plan.window(plan.cells[0]).rounds == rounds
