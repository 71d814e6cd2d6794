"""The bench's end of the fork server: asks for visits and gets them. Nothing in this process is patched by gevent."""

import contextlib
import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

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


type Agreement = tuple[Sequence[Cell], str]
"""Whether the routes of these cells agree, asked at the edge of this host."""


class Launcher:
    """Use as `with launcher(host) as load`."""

    def __init__(self, process: "subprocess.Popen[bytes]", host: str, seed: int) -> None:
        self.pid = process.pid
        """The fork server's process id."""
        self._process = process
        self._host = host
        self._seed = seed

    def visit(self, cell: Cell, window: Window, block: int, position: int) -> Visit:
        """Measure a cell once; a visit that measured nothing says why in `problem`. Raises LoadError."""
        result = Visit(block, position, now())
        found: Visit | LoadError = self._ask(Job(cell, window, result, self._seed, self._host))
        return replace(result, problem=str(found)) if isinstance(found, LoadError) else found

    def parity(self, cells: Sequence[Cell]) -> dict[str, dict[str, Any]]:
        """Route -> {"agrees", "cosine", "why"}; raises LoadError."""
        found: dict[str, dict[str, Any]] | LoadError = self._ask((cells, self._host))
        if isinstance(found, LoadError):
            raise LoadError(f"the answers could not be compared: {found}")
        return found

    def _ask(self, job: Job | Agreement) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        try:
            pickle.dump(job, self._process.stdin)
            self._process.stdin.flush()
            return pickle.load(self._process.stdout)
        except (OSError, ValueError, EOFError, pickle.UnpicklingError):
            raise LoadError("the load generator ended: the lines above say why") from None


@contextlib.contextmanager
def launcher(host: str, seed: int) -> Iterator[Launcher]:
    """A fork server for one run; afterwards all its processes have ended."""
    command, pipe = [sys.executable, "-m", "bench.measure.forkserver"], subprocess.PIPE
    # A session of its own: Ctrl-C ends the run here first, which then ends the load.
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True) as process:
        try:
            yield Launcher(process, host, seed)
        finally:
            process.terminate()
