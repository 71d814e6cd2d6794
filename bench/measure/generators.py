"""Load by a program instead of Locust's users: a client that is not Python's, or one with another event loop.

    program warms up -> prints `idle` -> for each line that it gets: calls for a window, prints its numbers as JSON

It has connections of its own, one per user, and as many processes as Locust would have. Its numbers are those that
meter.py has of a load process; its answers are not checked beyond their status, and carry no times of the server.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measure.launcher import LoadError, Window
from bench.measure.measured import RAMP, Cell
from locustfiles.calls import endpoint_of, requests_of
from locustfiles.clients.policy import POOLED, PUBLISHED
from locustfiles.recorder import Histogram
from locustfiles.routes import Route
from locustfiles.settings import Settings
from locustfiles.study_routes.clients import GENERATORS

_AIO = (sys.executable, "-m", "bench.generators.aio")
PROGRAMS: Mapping[str, Sequence[str]] = {
    client: ("raw",) if client == "go" else (*_AIO, "--client", client) for client in GENERATORS
}
"""Format.generator -> the command."""
START_S, DRAIN_S = 60.0, 45.0
"""How long a program may take to start and warm up besides the warm-up's own time, and its last calls to end."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that loads one cell."""

    name: str
    route: Route
    chosen: Settings
    cell: Cell

    def unfit(self) -> str:
        """Why it cannot load this cell; empty if it can."""
        if self.cell.rate is not None:
            return f"an open loop: {self.name} is a closed loop, choose no rate"
        if self.cell.gather or self.cell.policy == PUBLISHED:
            return f"{self.name} has no callers that begin together, and no policy {PUBLISHED}"
        if self.name != "go" and self.cell.policy != POOLED:
            return f"policy {self.cell.policy}: {self.name} keeps one connection per caller, choose {POOLED}"
        return ""

    def command(self, users: int, window: Window, files: Sequence[Path]) -> list[str]:
        """Raises LoadError where the requests' headers differ."""
        to, payloads = endpoint_of(self.route, self.chosen), requests_of(self.route, self.chosen)
        if any(one.headers != payloads[0].headers for one in payloads):
            raise LoadError(f"{self.cell.route}: its requests have different headers, {self.name} sends the same")
        options = {
            "protocol": self.route.format.protocol,
            "address": to.address,
            "path": to.path,
            "users": users,
            "policy": self.cell.policy,
            "warm-s": window.warm_s,
            "seconds": window.seconds,
            "steady": 1 - RAMP,
            "deadline-s": to.deadline_s,
        }
        said = [f"--{name}={value}" for name, value in options.items()]
        said += [f"--header={name}={value}" for name, value in {**to.headers, **payloads[0].headers}.items()]
        return [*PROGRAMS[self.name], *said, *map(str, files)]


class Load:
    """The running programs of one visit. Use as a context manager: afterwards all their processes have ended."""

    def __init__(self, program: Program, window: Window, processes: int = 1) -> None:
        self._program, self._window = program, window
        self._folder = tempfile.TemporaryDirectory()
        payloads = requests_of(program.route, program.chosen)
        files = [Path(self._folder.name, str(i)) for i in range(len(payloads))]
        for file, payload in zip(files, payloads, strict=True):
            file.write_bytes(payload.body)
        users = program.cell.users
        shares = [users // processes + (i < users % processes) for i in range(processes)]
        self._running = [self._start(program.command(share, window, files)) for share in shares]

    def __enter__(self) -> "Load":
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        for process in self._running:
            with process:  # closes its pipes, and waits
                pass
        self._folder.cleanup()

    def warm(self) -> None:
        """Returns when all have warmed up, and wait. Raises LoadError."""
        if set(self._lines(START_S + self._window.warm_s + DRAIN_S)) != {"idle"}:
            raise LoadError(f"{self._program.name} said something else than that it is ready")

    def run(self) -> list[dict[str, Any]]:
        """Has all of them call for the window; the share of each as Meter.share has it. Raises LoadError."""
        for process in self._running:
            assert process.stdin
            with contextlib.suppress(OSError):  # it has ended: its line says why
                os.write(process.stdin.fileno(), b"go\n")  # a buffer would keep it, and fail again when it is closed
        return [share(self._program.name, line) for line in self._lines(self._window.seconds + DRAIN_S)]

    def _start(self, command: Sequence[str]) -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE
        try:
            return subprocess.Popen(command, text=True, errors="replace", stdin=pipe, stdout=pipe, stderr=pipe)
        except OSError as error:
            why = f"{command[0]} cannot be started ({error.strerror}): the image fiveway-bench has it"
            raise LoadError(why) from None

    def _lines(self, limit_s: float) -> list[str]:
        """The next line of each; those that are late are killed."""
        timer = threading.Timer(limit_s, self._kill)
        timer.daemon = True
        timer.start()
        try:
            return [self._line(process) for process in self._running]
        finally:
            timer.cancel()

    def _line(self, process: "subprocess.Popen[str]") -> str:
        assert process.stdout
        assert process.stderr
        if line := process.stdout.readline().strip():
            return line
        said = process.stderr.read().strip().splitlines() or ["without a word"]
        raise LoadError(f"{self._program.name} ended early, or was killed after its time: {said[-1][:200]}")

    def _kill(self) -> None:
        for process in self._running:
            process.kill()


def share(name: str, line: str) -> dict[str, Any]:
    """What a program printed, as Meter.share has it; raises LoadError."""
    try:
        found = json.loads(line)
        latency = Histogram()
        for microseconds, count in found.pop("latencies_us"):
            latency.record(microseconds / 1e6, count)
        return {
            **{key: found[key] for key in ("steady_s", "counted_s", "steady_requests", "requests", "failures")},
            **{key: found[key] for key in ("errors", "sum_ms", "cpu_ms")},
            "latency": latency.encode(),
            "client_cpu": found["cpu_ms"] / 1e3 / found["counted_s"],
            "stages_ms": {},
            "missed": 0,
            "unanswered": 0,
            "oldest_unanswered_s": 0.0,
            "decode_ms": None,
        }
    except (LookupError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        raise LoadError(f"{name} printed something else than its numbers ({error!r})") from None
