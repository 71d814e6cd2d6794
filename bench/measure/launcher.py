"""The bench's end of the fork server: asks for visits and gets them. Nothing in this process is patched by gevent."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.measure.measured import Cell, Visit


class LoadError(Exception):
    """The load cannot be made at all; the text is one line."""


@dataclass(frozen=True, slots=True)
class Window:
    """How a cell is measured, besides its factors."""

    seconds: float
    warm_s: float
    calls: int | None = None
    """So many calls in all instead of so many seconds: the published method."""
    warm_calls: int = 2
    """Calls that each user makes at least before the window."""


class Launcher:
    """Use as `with launcher(host) as load`."""

    def __init__(self, process: "subprocess.Popen[str]", host: str, seed: int) -> None:
        self._process = process
        self._host = host
        self._seed = seed

    @property
    def pid(self) -> int:
        """The fork server's process id."""
        return self._process.pid

    def visit(self, cell: Cell, window: Window, block: int, position: int) -> Visit:
        """Measure a cell once; a visit that measured nothing says why in `problem`. Raises LoadError."""
        about = {"cell": asdict(cell), "block": block, "position": position, "seed": self._seed, "host": self._host}
        return Visit(**self._ask({"kind": "visit", **about, **asdict(window)}))

    def parity(self, cells: Sequence[Cell]) -> dict[str, dict[str, Any]]:
        """Route -> {"agrees", "cosine", "why"}; raises LoadError."""
        result = self._ask({"kind": "parity", "cells": [asdict(cell) for cell in cells], "host": self._host})
        if "problem" in result:
            raise LoadError(f"the answers could not be compared: {result['problem']}")
        return result

    def _ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            return dict(json.loads(self._process.stdout.readline()))
        except (OSError, ValueError):
            raise LoadError("the load generator ended: the lines above say why") from None


@contextlib.contextmanager
def launcher(host: str, seed: int) -> Iterator[Launcher]:
    """A fork server for one run; whatever it started is over after."""
    # A session of its own: Ctrl-C ends the run here first, which then ends the load.
    with subprocess.Popen(
        [sys.executable, "-m", "bench.measure.forkserver"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield Launcher(process, host, seed)
        finally:
            process.terminate()
