"""Run a command with a time limit, and end all its processes."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any


def run(command: Sequence[str], limit_s: float, **pipes: Any) -> "subprocess.CompletedProcess[str]":
    """Run the command in its own session. When it ends, or this is interrupted, all its processes are killed.

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
