"""A command that is bounded in time, and of which nothing is left over."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any


def run(command: Sequence[str], limit_s: float, **pipes: Any) -> "subprocess.CompletedProcess[str]":
    """Run it to its end in a session of its own; whatever it started is killed then, or when this is interrupted.

    `pipes` are Popen's. Raises OSError when it cannot be started, subprocess.TimeoutExpired after `limit_s`.
    """
    process = subprocess.Popen(command, text=True, errors="replace", start_new_session=True, **pipes)
    try:
        stdout, stderr = process.communicate(timeout=limit_s)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)
