"""The health watcher: when it asks, and when it heals."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from gateways.core import health


class Server:
    """A server as the watcher sees it: a probe that may fail, a counter, and how often it was ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.alive = True
        self.error: Exception = TimeoutError("no answer")
        self.count = 0.0
        self.probes = 0
        self.heals = 0

    def probe(self) -> None:
        self.probes += 1
        if not self.alive:
            raise self.error
        self.count += 1

    def heal(self) -> None:
        self.heals += 1

    def check(self) -> int:
        return health.watch(self.probe, "test", progress=self.read, heal=self.heal, folder=self.folder)

    def read(self) -> float:
        if self.count < 0:
            raise OSError("gone")
        return self.count


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def test_an_idle_server_is_probed_every_time_and_a_busy_one_is_not(server: Server) -> None:
    """The probe's own success does not count as traffic; a counter that moved proves life without a probe."""
    assert [server.check() for _ in range(3)] == [0, 0, 0]
    assert server.probes == 3
    for _ in range(3):
        server.count += 100
        assert server.check() == 0
    assert server.probes == 3


def test_without_a_counter_or_a_state_there_is_a_probe(server: Server) -> None:
    """A counter that cannot be read proves nothing; a full disk must not break the watcher for good."""
    for _ in range(2):
        server.count = -2
        assert server.check() == 0
    (server.folder / "health.test").write_text("{")
    assert server.check() == 0
    assert server.probes == 3


def test_ending_the_server_is_sigterm_then_sigkill_for_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the container but its init and the check."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, sig: sent.append((pid, sig)))
    monkeypatch.setattr(health, "STOP_GRACE_S", 0)
    health.end_server()
    assert sent == [(-1, signal.SIGTERM), (-1, signal.SIGKILL)]


def test_three_failures_in_a_row_heal_and_then_every_second_one(server: Server) -> None:
    """At the number where Docker says unhealthy; again if the first cure did not work. An answer forgets failures."""
    for alive in (True, False, False, True):
        server.alive = alive
        server.check()
    server.alive = False
    assert [(server.check(), server.heals) for _ in range(7)] == [(1, heals) for heals in (0, 0, 1, 1, 2, 2, 3)]


def test_who_needs_a_server_that_is_dead_is_left_running(server: Server) -> None:
    """Unhealthy it is, but its own restart would not help."""
    assert server.check() == 0
    server.alive, server.error = False, health.ElsewhereError("another one")
    assert [(server.check(), server.heals) for _ in range(5)] == [(1, 0)] * 5


def test_a_slow_start_is_not_a_failure(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first answer failures count only after the grace period."""
    now = 1000.0
    monkeypatch.setattr(time, "time", lambda: now)
    server.alive = False
    assert [server.check() for _ in range(5)] == [1] * 5
    assert server.heals == 0
    now += health.START_GRACE_S
    for _ in range(3):
        server.check()
    assert server.heals == 1


def test_a_proof_lasts_half_a_minute(root: Path, tmp_path: Path) -> None:
    """Until then the check is not made again: it watches, not all containers at the same seconds, and makes it at once
    when a process has ended. One that failed proves nothing."""
    made, slept, proof, process = (tmp_path / name for name in ("made", "slept", "health.proof", "1000"))
    process.mkdir()
    (process / "exe").touch()
    (tmp_path / "sleep").write_text(f'#!/bin/sh\necho "$1" >>{slept}\n$MEANWHILE\n')
    (tmp_path / "sleep").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    settings = os.environ | {"TMPDIR": str(tmp_path), "PROCESSES": str(tmp_path), "PATH": path}

    def recently(command: str, meanwhile: str = "true") -> tuple[int, int, int]:
        """Its exit code, how often it made the check, and how many seconds it waited."""
        made.write_text("")
        slept.write_text("")
        check = [str(root / "gateways" / "core" / "recently"), "sh", "-c", f"echo >>{made}; {command}"]
        code = subprocess.run(check, env=settings | {"MEANWHILE": meanwhile}, check=False).returncode
        return code, len(made.read_text()), sum(map(int, slept.read_text().split()))

    old = f"touch --date=-31seconds {proof}"
    first_nap = range(1, 6)
    assert recently("exit 0") == (0, 1, 0)
    stayed = {recently("exit 3") for _ in range(20)}
    assert len(stayed) > 1
    assert stayed <= {(0, 0, nap + 25) for nap in first_nap}
    assert recently("exit 3", meanwhile=old) in [(3, 1, nap) for nap in first_nap]
    assert recently("exit 3") == (3, 1, 0)
    assert recently("exit 0") == (0, 1, 0)
    gone = f"rm -f {process / 'exe'}"  # as of one that nobody has reaped
    assert recently('exit "$((ENDED - 1))"', meanwhile=gone) in [(0, 1, nap) for nap in first_nap]
    assert recently("exit 3")[:2] == (0, 0)


def test_what_is_dead_is_healed_at_once(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has ended does not come back by itself: its first failure heals. What it answered before proves
    nothing."""
    assert server.check() == 0
    server.alive, server.error, server.count = False, health.DeadError("gone"), 100
    monkeypatch.setenv("ENDED", "1")
    assert [(server.check(), server.heals) for _ in range(3)] == [(1, 1), (1, 1), (1, 2)]
