"""The health watcher: when it asks, when it heals, and that it ends a server that ignores SIGTERM."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gateways.core import health
from tests.unit.http_server import http_server


class Server:
    """A server as the watcher sees it: a probe that may fail, a counter, and how often it was ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.alive = True
        self.count = 0.0
        self.probes = 0
        self.heals = 0

    def probe(self) -> None:
        self.probes += 1
        if not self.alive:
            raise TimeoutError("no answer")
        self.count += 1

    def heal(self) -> None:
        self.heals += 1

    def check(self) -> int:
        return health.watch(self.probe, "test", progress=lambda: self.count, heal=self.heal, folder=self.folder)


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def test_an_idle_server_is_probed_every_time_and_a_busy_one_is_not(server: Server) -> None:
    """The probe's own success is not somebody else's traffic; a counter that moved is a proof of life, and free."""
    assert [server.check() for _ in range(3)] == [0, 0, 0]
    assert server.probes == 3
    for _ in range(3):
        server.count += 100
        assert server.check() == 0
    assert server.probes == 3


def test_three_failures_in_a_row_heal_and_then_every_second_one(server: Server) -> None:
    """At the number where Docker says unhealthy; again if the first cure did not work."""
    server.check()
    server.alive = False
    assert [(server.check(), server.heals) for _ in range(7)] == [(1, heals) for heals in (0, 0, 1, 1, 2, 2, 3)]


def test_one_good_answer_forgets_the_failures(server: Server) -> None:
    """Two failures, an answer, two failures: nothing to heal."""
    server.check()
    for alive in (False, False, True, False, False):
        server.alive = alive
        server.check()
    assert server.heals == 0


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


def test_a_counter_that_cannot_be_read_means_a_probe(tmp_path: Path) -> None:
    """No counter is no proof."""

    def broken() -> float:
        raise OSError("gone")

    probes: list[int] = []
    for _ in range(2):
        assert health.watch(lambda: probes.append(1), "test", progress=broken, folder=tmp_path) == 0
    assert len(probes) == 2


def test_a_damaged_state_file_is_a_first_check(server: Server) -> None:
    """A full disk must not break the watcher for good."""
    (server.folder / "health.test").write_text("{")
    assert server.check() == 0


def test_ending_the_server_kills_what_ignores_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM first, SIGKILL after the grace period."""
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('on', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"on\n"
        monkeypatch.setattr(health, "_children_of_init", lambda: [] if process.poll() is not None else [process.pid])
        monkeypatch.setattr(health, "STOP_GRACE_S", 0.3)
        health.end_server()
        assert process.wait(5) == -signal.SIGKILL


def test_a_request_returns_the_body_of_a_200_and_raises_otherwise() -> None:
    """A 503 is a failed probe, and says why."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 200 if scope["path"] == "/echo" else 503})
        await send({"type": "http.response.body", "body": body})

    with http_server(app, lifespan="off") as port:
        assert health.request("POST", port, "/echo", health.PHOTO, timeout=5) == health.PHOTO
        with pytest.raises(RuntimeError, match="POST /dead answered 503: worker died"):
            health.request("POST", port, "/dead", b"worker died", timeout=5)


def test_a_proof_lasts_half_a_minute(root: Path, tmp_path: Path) -> None:
    """The check is not made again before, and at once after one that failed."""
    made, proof = tmp_path / "made", tmp_path / "health.proof"

    def recently(command: str) -> int:
        check = [str(root / "gateways" / "core" / "recently"), "sh", "-c", f"echo >>{made}; {command}"]
        return subprocess.run(check, env=os.environ | {"TMPDIR": str(tmp_path)}, check=False).returncode

    assert [recently("exit 0") for _ in range(3)] == [0, 0, 0]
    assert len(made.read_text()) == 1
    os.utime(proof, (time.time() - 31,) * 2)
    assert [recently("exit 3") for _ in range(2)] == [3, 3]
    assert len(made.read_text()) == 3
    assert recently("exit 0") == 0
    assert len(made.read_text()) == 4
