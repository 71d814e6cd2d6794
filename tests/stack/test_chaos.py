"""What breaks is healed without anyone's help, and nobody else notices; told to stop, everything stops.

Runs after all other tests: here servers die. docs/reliability.md has the figures of the long forms.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos import figures
from chaos.docker import containers, docker, inspect, service_of, wait_until
from tests.conftest import all_healthy
from tests.repository import ROOT

# From a check that fails for the third time (5 s apart, and each may wait for its own timeout) to a model that answers.
HEALED_S = 150


def chaos(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """The rows of one run of scripts/chaos."""
    wait_until(all_healthy, "everything healthy", seconds=HEALED_S)
    command = [sys.executable, "-m", "chaos", "--results", str(folder), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = folder.rglob("*.json")
    return figures.load(path).rows


ONE = "kill -9: a model's process in triton"


@pytest.mark.timeout(2 * HEALED_S)
def test_a_fault_is_healed_and_nobody_else_notices(tmp_path: Path) -> None:
    """No call fails on other routes, no answer is wrong, and every route answers again. All faults take a quarter of an
    hour: scripts/chaos faults. Its load is for a machine of its own; this one a busy machine carries too."""
    (row,) = chaos(tmp_path, "faults", "--times", "1", "--rate", "0.5", "--only", ONE)
    assert [row["failed_elsewhere"], row["wrong"], row["failed_before"]] == [{}, 0, {}]
    assert row["recovery_s"] < HEALED_S
    assert row["seen"]


@pytest.mark.timeout(300)
def test_requests_that_are_nearly_right(tmp_path: Path) -> None:
    """Every answer is one that docs/errors.md declares, no process ends, and no answer speaks of the inside."""
    rows = chaos(tmp_path, "fuzz", "--cases", "1500", "--seed", "7")
    assert {row["way"]: row["undeclared"] for row in rows if row["undeclared"]} == {}
    assert {row["way"]: row["restarted"] for row in rows if row["restarted"]} == {}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_rude_clients(tmp_path: Path) -> None:
    """Others are answered all the time, by the same edge."""
    rows = chaos(tmp_path, "rude", "--seconds", "2")
    assert [
        (row["attack"], row["others"]) for row in rows if any(one["errors"] for one in row["others"].values())
    ] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_too_much_is_refused_with_a_reason(tmp_path: Path) -> None:
    """At ten times its capacity a route answers what it can, refuses the rest, and is as before afterwards. The other
    routes take a minute and a half each: scripts/chaos overload."""
    for row in chaos(tmp_path, "overload", "jpeg-http", "--seconds", "4"):
        assert set(row["refused"]) <= {"HTTP 429", "HTTP 503"}
        assert row["goodput"] > 0
        assert not row["after"][1]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mib", [1, 30])
def test_a_full_volume_fails_a_build_with_a_reason(mib: int) -> None:
    """Nothing half-written is left that a server would take."""
    options = ("--rm", "--network=none", "--user=65532:65532", "--read-only", "--tmpfs=/tmp:mode=1777")
    volume = (f"--tmpfs=/var/tmp:mode=1777,size={mib}m", "--env=ARTIFACTS=/var/tmp", "--entrypoint=sh")
    command = "python3 -m models.builder build 2>&1; echo exit $?; ls -A /var/tmp"
    said = docker("run", *options, *volume, "fiveway-models:local", "-c", command)
    assert "/var/tmp is full: free space on its disk" in said
    assert said.split()[-3:] == ["exit", "1", ".lock"]


@pytest.mark.slow
@pytest.mark.timeout(HEALED_S + 120)
def test_a_stop_is_clean() -> None:
    """Told to stop, everything ends by itself: 137 would mean that it was killed when its grace period ended."""
    every = ("compose", "--profile", "transport")
    wait_until(all_healthy, "everything healthy", seconds=HEALED_S)
    ids = [one["Id"] for one in containers()]
    docker(*every, "stop")
    try:
        assert [service_of(one) for one in inspect(*ids) if one["State"]["ExitCode"] == 137] == []
    finally:
        docker(*every, "start")
        wait_until(all_healthy, "everything healthy after a start", seconds=HEALED_S)
