"""The checkers of other projects over the whole repository, each with its settings in one place."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.repository import ROOT, files, scripts

SCHEMA = "check-jsonschema --builtin-schema vendor.github"


def check(*command: str | Path) -> None:
    """Run a checker at the root; its own words are the failure message."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command[0]}\n{done.stdout}{done.stderr}"


@pytest.mark.timeout(400)  # mypy: minutes on a busy machine the first time; then out/.cache has its cache
@pytest.mark.parametrize(
    "command",
    [
        "ruff check --quiet .",
        "ruff format --check --quiet .",
        "mypy gateways servers models locustfiles bench chaos scripts tests",
        "lint-imports --cache-dir out/.cache/import-linter",
        "hadolint Dockerfile",
        "promtool check config compose/metrics/prometheus.yaml",
        "promtool test rules compose/metrics/rules_test.yaml",
        "buf lint proto",
        "buf format --diff --exit-code --path proto/fiveway proto",
        "cloud-init schema --config-file cloud-init.yaml",
        " ".join(map(str, ["yamllint --strict", *files(".yaml", ".yml")])),
        " ".join(map(str, ["shellcheck", *scripts()])),
        " ".join(map(str, [f"{SCHEMA}-workflows", *(ROOT / ".github/workflows").iterdir()])),
        " ".join(map(str, [f"{SCHEMA}-issue-forms", *(ROOT / ".github/ISSUE_TEMPLATE").iterdir()])),
        "check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml",
    ],
    ids=lambda command: re.sub(r" /.*|--builtin-schema ", "", command)[:40],
)
def test_a_checker_finds_nothing(command: str) -> None:
    """Each with the settings of its own file: pyproject.toml, .hadolint.yaml, .yamllint.yaml."""
    check(*command.split())


def test_scripts_are_executable_and_strict() -> None:
    """What has a shebang can be run, and does not go on with a variable that is not set."""
    assert {path.name for path in scripts()} >= {"up", "down", "test", "run"}
    for path in scripts():
        text = path.read_text()
        if text.startswith("#!"):
            assert path.stat().st_mode & 0o111, f"{path} is not executable"
            assert re.search(r"^set -\w*u|^\. .*/lib\.sh", text, re.M), f"{path} is not strict"
