"""Visits as they really run: a fork server, Locust's master and workers in a process group, against stand-in servers.

The stand-ins (locust_servers.py) answer after DELAY_S; what is asserted of times is only that they are not below it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bench.measure.launcher import Launcher, LoadError, Window, launcher
from bench.measure.measured import Cell
from locustfiles.recorder import Histogram
from tests.unit.tiny_artifacts import declare, tiny

DELAY_S = 0.02
WINDOW = Window(seconds=0.6, warm_s=0.1)


@contextlib.contextmanager
def server(mode: str) -> Iterator[str]:
    """http://host:port of the HTTP stand-in, and of the gRPC one: gRPC routes take `grpc` as their target."""
    script = Path(__file__).with_name("locust_servers.py")
    with subprocess.Popen(
        [sys.executable, script, str(DELAY_S), mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            yield process.stdout.readline()
        finally:
            process.kill()


def addresses(said: str) -> dict[str, str]:
    http, grpc = said.split()
    return {"http": f"http://127.0.0.1:{http}", "grpc": f"http://127.0.0.1:{grpc}"}


def cell(where: dict[str, str], route: str, **factors: object) -> Cell:
    """A cell of this route at the stand-in of its protocol."""
    return Cell(route, route, target=where[route.rpartition("-")[2]], **factors)  # type: ignore[arg-type]


@pytest.fixture(scope="module", autouse=True)
def _artifacts(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A model `tiny` with a tensor per photo."""
    folder = tiny(tmp_path_factory.mktemp("artifacts"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ARTIFACTS", str(folder))
        patch.setenv("PYTHONPATH", f"{root}:{root / 'proto' / 'gen'}")
        yield


@pytest.fixture(scope="module")
def good() -> Iterator[dict[str, str]]:
    with server("good") as said:
        yield addresses(said)


@pytest.fixture(scope="module")
def load(_artifacts: None) -> Iterator[Launcher]:
    with launcher("http://127.0.0.1:1", seed=1) as made:
        yield made


@pytest.mark.parametrize("route", ["onnx-http", "onnx-grpc"])
@pytest.mark.parametrize(("policy", "users", "connections"), [("pooled", 3, 3), ("shared", 3, 1), ("pooled", 1, 1)])
def test_a_visit_counts_what_its_users_did(
    load: Launcher, good: dict[str, str], route: str, policy: str, users: int, connections: int
) -> None:
    """Latencies not below the server's delay, no failures, connections as the policy says."""
    found = load.visit(cell(good, route, policy=policy, users=users, batch=2), WINDOW, block=2, position=5)
    assert found.problem == ""
    assert (found.block, found.position, found.failures) == (2, 5, 0)
    latency = Histogram(found.latency)
    assert 0 < latency.count <= found.requests
    lowest = latency.percentile_ms(0)
    assert lowest is not None
    assert lowest >= DELAY_S * 1e3
    assert found.mean_ms is not None
    assert found.mean_ms >= DELAY_S * 1e3
    assert 0 < found.steady_requests <= found.requests
    assert found.encode_ms > 0
    assert found.client_cpu > 0
    assert found.connections == connections


@pytest.mark.parametrize("route", ["onnx-http", "onnx-grpc"])
def test_cold_calls_have_a_connection_each(load: Launcher, good: dict[str, str], route: str) -> None:
    """As many connections as calls in the window, and none of the warm-up's."""
    found = load.visit(cell(good, route, policy="cold", users=2), WINDOW, 1, 1)
    assert found.connections == found.requests + found.failures


def test_a_number_of_calls_bounds_a_visit(load: Launcher, good: dict[str, str]) -> None:
    """The published method: so many calls, all of them counted, ramp included."""
    found = load.visit(cell(good, "onnx-http", users=4), Window(60, 0, calls=10), 1, 1)
    assert found.requests == 10
    assert Histogram(found.latency).count == 10


def test_an_open_loop_asks_by_its_schedule(load: Launcher, good: dict[str, str]) -> None:
    """At a rate that the server keeps up with, there are as many calls as were asked for, as Poisson varies."""
    found = load.visit(cell(good, "onnx-http", users=16, rate=50.0), Window(4.0, 0.1), 1, 1)
    assert found.requests == pytest.approx(200, abs=4 * 200**0.5)
    assert found.missed <= found.requests // 4


def test_an_open_loop_counts_from_when_a_call_was_due(load: Launcher, good: dict[str, str]) -> None:
    """One user for twice the rate that it can keep: calls are missed, and their waiting is in the latency."""
    found = load.visit(cell(good, "onnx-http", users=1, rate=100.0), Window(1.0, 0.1), 1, 1)
    assert found.missed > found.requests / 2
    slowest = Histogram(found.latency).percentile_ms(100)
    assert slowest is not None
    assert slowest > 5 * DELAY_S * 1e3


@pytest.mark.parametrize(
    ("mode", "route", "problem"),
    [
        ("errors", "onnx-grpc", "no call succeeded: UNAVAILABLE: down"),
        ("short", "onnx-http", "an embedding for 1 of 2 images"),
        ("", "onnx-http", "no call succeeded: HTTP connection:"),
    ],
)
def test_a_visit_without_a_success_says_why(load: Launcher, mode: str, route: str, problem: str) -> None:
    """A server that refuses every call, one that leaves an image out of every answer, and none at all: in one line."""
    with server(mode) if mode else contextlib.nullcontext("9 9") as said:
        found = load.visit(cell(addresses(said), route, users=2, batch=2), WINDOW, 1, 1)
    assert (found.requests, found.failures > 0) == (0, True)
    assert problem in found.problem
    assert "\n" not in found.problem


def test_a_load_process_that_dies_costs_one_visit(load: Launcher, good: dict[str, str]) -> None:
    """A worker killed in the middle: that visit says so, nothing of its group is left, the next visit works."""
    leader = psutil.Process(load.pid)

    def kill_a_worker() -> None:
        while True:
            workers = [child for group in leader.children() for child in group.children()]
            if len(workers) == 2:
                os.kill(workers[0].pid, signal.SIGKILL)
                return
            time.sleep(0.01)

    killer = threading.Thread(target=kill_a_worker)
    killer.start()
    found = load.visit(cell(good, "onnx-http", users=2), Window(3.0, 0.5), 1, 1)
    killer.join()
    assert "a load process died" in found.problem
    assert leader.children(recursive=True) == []
    assert load.visit(cell(good, "onnx-http"), WINDOW, 1, 1).problem == ""


STALL = """
from gevent.monkey import get_original
from locust.rpc import zmqrpc

def send(self, msg, send=zmqrpc.Client.send):
    send(self, msg)
    if msg.type == "client_ready":
        get_original("time", "sleep")(0.5)

zmqrpc.Client.send = send
"""


def test_a_load_process_that_is_held_up_as_it_connects_misses_nothing(
    good: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine all that its master said meanwhile is there when it goes on."""
    (tmp_path / "sitecustomize.py").write_text(STALL)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ['PYTHONPATH']}")
    with launcher("http://127.0.0.1:1", seed=1) as load:
        found = load.visit(cell(good, "onnx-http", users=2), Window(60, 0, calls=10), 1, 1)
    assert (found.requests, found.problem) == (10, "")


def test_missing_inputs_are_one_line_and_the_load_ends_with_the_run(
    good: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A model that was never built has no tensors: said, with who makes them. After its run the fork server is gone."""
    declare(tmp_path, "nobody")
    monkeypatch.setenv("ARTIFACTS", str(tmp_path))
    with launcher("http://127.0.0.1:1", seed=1) as made:
        found = made.visit(cell(good, "onnx-http"), WINDOW, 1, 1)
    assert "the model builder makes the inputs" in found.problem
    assert not psutil.pid_exists(made.pid)
    with pytest.raises(LoadError, match="the load generator ended"):
        made.visit(cell(good, "onnx-http"), WINDOW, 1, 1)


@pytest.mark.parametrize("route", ["onnx-http", "onnx-grpc"])
def test_a_gather_counts_whole(load: Launcher, good: dict[str, str], route: str) -> None:
    """All users begin together until the window closes; the last gather is in it whole, however long it takes."""
    users, window = 5, Window(seconds=DELAY_S * 2.5, warm_s=0.1)
    found = load.visit(cell(good, route, users=users, gather=True), window, 1, 1)
    assert found.problem == ""
    assert found.requests == found.steady_requests == Histogram(found.latency).count
    assert found.requests % users == 0
    assert found.steady_s * 1e3 >= found.requests / users * DELAY_S * 1e3
    assert found.connections == users
