"""The load generator's processes, for its tests: Locust patches the standard library of the one it is in."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from chaos.docker import wait_until
from tests.repository import ROOT

LOCUSTFILE = ROOT / "locustfiles" / "locustfile.py"
FAST = Path(__file__).with_name("locust_fast.py")
"""Loaded after the locustfile: what takes seconds in it then takes tenths of them."""


def paths(artifacts: Path) -> dict[str, str]:
    """The environment that the image sets, with a folder of artefacts."""
    return {
        **os.environ,
        "ARTIFACTS": str(artifacts),
        "PYTHONPATH": f"{ROOT}:{ROOT / 'proto' / 'gen'}",
        "LOCUST_LOCUSTFILE": f"{LOCUSTFILE},{FAST}",
        "PYTHONUNBUFFERED": "1",
    }


@contextlib.contextmanager
def python(*arguments: Any, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A Python process that does not outlive the test, and neither do its children."""
    command = [sys.executable, *map(str, arguments)]
    with subprocess.Popen(command, text=True, start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def run(*arguments: Any, **options: Any) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of `python ...`."""
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with python(*arguments, **pipes, **options) as process:
        out, err = process.communicate(timeout=100)
    return process.returncode, out, err


def until(condition: Callable[[], object], what: str) -> None:
    """Wait until it holds. An exception counts as not yet."""
    wait_until(lambda: condition() or None, what, seconds=60, every=0.05)
