"""Every script answers --help and refuses what it does not know, before it does anything."""

import subprocess
from pathlib import Path

import pytest

from bench import commands
from tests.repository import ROOT, SCRIPTS

ACTS = ("docker", "apt-get", "git", "nvidia-smi", "uv", "dockerd", "systemctl")


def call(folder: Path, script: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run it where every program that acts leaves a note that it was called."""
    for program in ACTS:
        (folder / program).write_text(f'#!/bin/sh\necho {program} "$@" >>{folder}/called\nexit 1\n')
        (folder / program).chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin"} | variables
    command = [str(ROOT / "scripts" / script), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("script", SCRIPTS)
def test_help_and_nonsense(script: str, tmp_path: Path) -> None:
    """--help prints the comment at its head; an unknown argument is one line, exit status 2. Neither acts."""
    done = call(tmp_path, script, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"scripts/{script}" in done.stdout
    assert done.stdout.splitlines()[0] in (ROOT / "scripts" / script).read_text()
    done = call(tmp_path, script, "--nonsense")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert done.stderr.startswith("fiveway: ")
    assert not (tmp_path / "called").exists(), (tmp_path / "called").read_text()


@pytest.mark.parametrize(
    "words",
    [
        "bench", "chaos", "chaos monkey", "compare", "compare A", "down --all",
        "generate --out", "lock no-such-group", "native --routes edge", "push", "push https://registry.example",
        "setup-vm --yes", "swap", "swap --model", "test --al", "test --all --fast", "test --kubernetes no/overlay",
        "test bench", "test no/such/test",
        "up --profile", "up --profile tests", "up transport",
        "worker", "worker a,b", "worker 10.0.0.5 0", "worker 10.0.0.5 many",
    ],
)  # fmt: skip
def test_other_calls_that_cannot_be_meant(words: str, tmp_path: Path) -> None:
    """The same for what is missing or cannot be."""
    done = call(tmp_path, *words.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize(
    "words", ["--all", "--fast", "--kubernetes", "tests/unit", "tests/stack/test_scripts.py::test_x tests/static"]
)
def test_what_can_be_tested(words: str, tmp_path: Path) -> None:
    """`scripts/test` gets past these arguments, to the engine, which does not answer here."""
    assert call(tmp_path, "test", *words.split()).returncode == 1
    assert "docker info" in (tmp_path / "called").read_text()


def test_the_bench_names_its_studies(tmp_path: Path) -> None:
    """Its help, which is there without Docker, has every command of the bench."""
    said = call(tmp_path, "bench", "--help").stdout.replace(",", " ").replace(".", " ").split()
    assert set(commands.parsers()[1]) <= set(said)


def test_no_master(tmp_path: Path) -> None:
    """scripts/worker: where nothing listens it says which port, and what opens it."""
    done = call(tmp_path, "worker", "127.0.0.1", LOCUST_MASTER_PORT="1")
    assert done.returncode == 1
    assert "127.0.0.1:1: set LOCUST_MASTER_PORT=1" in done.stderr
