"""The bench's end of the fork server: asks for visits and gets them. Nothing in this process is patched by gevent."""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import psutil

from bench.measure.measured import Cell, Visit, now


class LoadError(Exception):
    """The load generator failed, for one visit or for all; the text is one line."""


@dataclass(frozen=True, slots=True)
class Window:
    """The settings of a measurement that are not factors of the cell."""

    seconds: float
    warm_s: float
    calls: int | None = None
    """A number of calls in all instead of a number of seconds (the published method)."""
    warm_calls: int = 2
    """Calls that each user makes at least before the window."""
    rounds: int = 1
    """How many such windows a visit has. The cells that are compared take turns at them: see plan.py."""


@dataclass(frozen=True, slots=True)
class Job:
    """A visit to be made."""

    cell: Cell
    window: Window
    result: Visit
    """To be filled in."""
    seed: int
    host: str
    """The edge, http://host:port."""


type Agreement = tuple[Sequence[Cell], str, Mapping[str, str]]
"""Whether the routes of these cells agree, asked at the edge of this host, by the precision of each engine."""


class Launcher:
    """The fork server of a run. Use as `with Launcher(host, seed) as load`: afterwards all its processes have ended."""

    def __init__(self, host: str, seed: int) -> None:
        self._host = host
        self._seed = seed
        self._closed = False
        self._process = _start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        _end(self._process)

    @property
    def pid(self) -> int:
        """The fork server's process id."""
        return self._process.pid

    def visit(self, cell: Cell, window: Window, block: int, position: int) -> Visit:
        """Measure a cell once; a visit that measured nothing says why in `problem`."""
        return self.visits([(cell, window)], block, position)[0]

    def visits(self, cells: Sequence[tuple[Cell, Window]], block: int, position: int) -> list[Visit]:
        """Measure cells that are compared, as visit() does one, by windows in turns. `position`: that of the first."""
        results = [Visit(block, position + at, now()) for at in range(len(cells))]
        jobs = [
            Job(cell, window, result, self._seed, self._host)
            for (cell, window), result in zip(cells, results, strict=True)
        ]
        answer: list[Visit | LoadError] | LoadError = self._ask(jobs)
        found = [answer] * len(jobs) if isinstance(answer, LoadError) else answer
        return [
            replace(result, problem=str(one)) if isinstance(one, LoadError) else one
            for result, one in zip(results, found, strict=True)
        ]

    def parity(self, cells: Sequence[Cell], precisions: Mapping[str, str]) -> dict[str, dict[str, Any]]:
        """See parity.check; raises LoadError."""
        found: dict[str, dict[str, Any]] | LoadError = self._ask((cells, self._host, precisions))
        if isinstance(found, LoadError):
            raise LoadError(f"the answers could not be compared: {found}")
        return found

    def _ask(self, job: list[Job] | Agreement) -> Any:
        """The result of a request, or a LoadError. A fork server that ended costs this one: the next has a new one."""
        assert self._process.stdin
        assert self._process.stdout
        try:
            pickle.dump(job, self._process.stdin)
            self._process.stdin.flush()
            return pickle.load(self._process.stdout)
        except (OSError, ValueError, EOFError, pickle.UnpicklingError):
            if not self._closed:
                _end(self._process)
                self._process = _start()
            return LoadError("the load generator ended: the lines above say why")


def _start() -> "subprocess.Popen[bytes]":
    # A session of its own: Ctrl-C ends the run here first, which then ends the load.
    command, pipe = [sys.executable, "-m", "bench.measure.forkserver"], subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a fork server and what is left of its session: killed itself, it cannot end its load."""
    process.terminate()
    with process:  # closes its pipes, and waits
        pass
    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == process.pid:
                os.kill(pid, signal.SIGKILL)
