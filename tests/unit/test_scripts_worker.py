"""scripts/worker refuses what cannot work before it builds anything."""

import subprocess

import pytest

from tests.repository import ROOT


@pytest.mark.parametrize("arguments", [[], ["a b"], ["10.0.0.5", "0"], ["10.0.0.5", "many"]])
def test_how_it_is_called(arguments: list[str]) -> None:
    """A machine, and how many workers: one line, exit status 1."""
    command = [str(ROOT / "scripts/worker"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    says = "fiveway: say which machine has the stack: scripts/worker HOST [COUNT]\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", says)


def test_no_master() -> None:
    """Where nothing listens it says which port, and what opens it."""
    environment = {"LOCUST_MASTER_PORT": "1", "PATH": "/usr/bin:/bin"}
    command = [str(ROOT / "scripts/worker"), "127.0.0.1"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "fiveway: no Locust master at 127.0.0.1:1: set LOCUST_MASTER_PORT=1 where the stack runs, "
        "and open the SSH tunnel (docs/vm.md)\n"
    )
