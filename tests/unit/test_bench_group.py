"""Visits as they really run: a fork server, Locust's master and workers in a process group, against stand-in servers.

The stand-ins (locust_servers.py) answer after DELAY_S; what is asserted of times is only that they are not below it.
"""

import os
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from bench.measure.launcher import Launcher, Window
from bench.measure.measured import RAMP, Cell, Visit
from locustfiles.recorder import Histogram
from locustfiles.study_routes import WAYS, clients
from tests.unit.locust_processes import until
from tests.unit.locust_servers import StandIn, standing_in
from tests.unit.tiny_artifacts import declare, tiny

DELAY_S = 0.02
WINDOW = Window(seconds=0.6, warm_s=0.1)


def cell(servers: StandIn, route: str, **factors: Any) -> Cell:
    """A cell of this route at the stand-in of its protocol: what passes on to either would connect once more."""
    port = servers.grpc_port if WAYS[route].format.protocol == "gRPC" else servers.http_port
    return Cell(route, route, target=f"http://127.0.0.1:{port}", **factors)


@pytest.fixture(scope="module", autouse=True)
def _artifacts(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A model `tiny` with a tensor per photo."""
    folder = tiny(tmp_path_factory.mktemp("artifacts"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ARTIFACTS", str(folder))
        patch.setenv("PYTHONPATH", f"{root}:{root / 'proto' / 'gen'}")
        yield


@pytest.fixture(scope="module")
def servers() -> Iterator[StandIn]:
    with standing_in(DELAY_S) as found:
        yield found


@pytest.fixture
def good(servers: StandIn) -> StandIn:
    servers.mode = "good"
    return servers


@pytest.fixture(scope="module")
def load(_artifacts: None) -> Iterator[Launcher]:
    with Launcher("http://127.0.0.1:1", seed=1) as made:
        yield made


def sound(found: Visit) -> None:
    """Latencies not below the server's delay, no failures, and what the client took."""
    assert (found.problem, found.failures) == ("", 0)
    latency = Histogram(found.latency)
    assert 0 < latency.count <= found.requests
    assert min(latency.percentile_ms(0) or 0, found.mean_ms or 0) >= DELAY_S * 1e3
    assert 0 < found.steady_requests <= found.requests
    assert min(found.encode_ms, found.client_cpu) > 0


@pytest.mark.parametrize("route", ["onnx-http", "onnx-grpc"])
@pytest.mark.parametrize("policy", ["pooled", "shared", "cold"])
def test_a_visit_counts_what_its_users_did(load: Launcher, good: StandIn, route: str, policy: str) -> None:
    """Connections as the policy says: of cold calls one each, and none of the warm-up's."""
    found = load.visit(cell(good, route, policy=policy, users=3, batch=2), WINDOW, block=2, position=5)
    sound(found)
    assert (found.block, found.position) == (2, 5)
    assert found.connections == {"pooled": 3, "shared": 1, "cold": found.requests}[policy]


def test_cells_that_are_compared_take_turns(load: Launcher, good: StandIn) -> None:
    """Each has its windows, on connections that it keeps between them; a cell that fails costs the others nothing."""
    turns = replace(WINDOW, seconds=0.2, rounds=3)
    http, grpc, aio = (cell(good, route, users=3) for route in ("onnx-http", "onnx-grpc", "onnx-http-aiohttp"))
    nobody = replace(http, target="http://127.0.0.1:9")
    found = load.visits([(one, turns) for one in (http, grpc, nobody, aio)], block=2, position=4)
    assert [(one.block, one.position, one.repeated) for one in found] == [(2, at, 0) for at in (4, 5, 6, 7)]
    assert "no call succeeded" in found.pop(2).problem
    for one in found:
        sound(one)
        assert one.connections == 3
        assert one.steady_s == pytest.approx(3 * 0.2 * (1 - RAMP))
        assert one.counted_s > one.steady_s


# All but the program in Go, which the bench's image has: tests/stack/test_studies.py.
BY_OTHERS = [name for name, row in clients.ROWS.items() if row.client and row.client != "go"]


@pytest.mark.parametrize("route", BY_OTHERS)
def test_every_client_counts_alike(load: Launcher, good: StandIn, route: str) -> None:
    """A connection per caller, and its own CPU time; what fails says why."""
    found = load.visit(cell(good, route, users=3, batch=2), WINDOW, 1, 1)
    sound(found)
    assert found.connections == 3
    good.mode = "errors"
    found = load.visit(cell(good, route, users=2), WINDOW, 1, 1)
    assert (found.requests, found.failures > 0) == (0, True)
    assert re.search("503|UNAVAILABLE|down", found.problem), found.problem


@pytest.mark.parametrize(
    ("factors", "why"),
    [({"rate": 9.0}, "choose no rate"), ({"policy": "cold"}, "choose pooled"), ({"gather": True}, "begin")],
)
def test_what_a_program_cannot_do_is_said(load: Launcher, good: StandIn, factors: dict[str, Any], why: str) -> None:
    """An open loop, another policy than its own, callers that begin together: nothing is measured."""
    found = load.visit(cell(good, "onnx-http-aiohttp", **factors), WINDOW, 1, 1)
    assert why in found.problem
    assert found.requests == 0


def test_an_open_loop_asks_by_its_schedule(load: Launcher, good: StandIn) -> None:
    """As many calls are due as were asked for, as Poisson varies."""
    found = load.visit(cell(good, "onnx-http", users=16, rate=100.0), Window(2.0, 0.1), 1, 1)
    # A machine that is busy with something else starts some of them late, or not at all.
    assert found.requests + found.unanswered == pytest.approx(200, abs=4 * 200**0.5)


def test_an_open_loop_counts_from_when_a_call_was_due(load: Launcher, good: StandIn) -> None:
    """One user for twice the rate that it can keep: calls are missed, and their waiting is in the latency; those that
    never began are counted, with how long the first of them had waited."""
    found = load.visit(cell(good, "onnx-http", users=1, rate=100.0), Window(1.0, 0.1), 1, 1)
    assert found.missed > found.requests / 2
    assert found.requests + found.unanswered == pytest.approx(100, abs=4 * 100**0.5)
    assert found.unanswered > 0
    assert 0 < found.oldest_unanswered_s <= 1
    assert (Histogram(found.latency).percentile_ms(100) or 0) > 5 * DELAY_S * 1e3


@pytest.mark.parametrize(
    ("mode", "route", "problem"),
    [
        ("errors", "onnx-grpc", "no call succeeded: UNAVAILABLE: down"),
        ("short", "onnx-http", "an embedding for 1 of 2 images"),
        ("", "onnx-http", "no call succeeded: HTTP connection:"),
    ],
)
def test_a_visit_without_a_success_says_why(
    load: Launcher, servers: StandIn, mode: str, route: str, problem: str
) -> None:
    """A server that refuses every call, one that leaves an image out of every answer, and none at all: in one line."""
    servers.mode = mode
    asked = cell(servers, route, users=2, batch=2)
    found = load.visit(asked if mode else replace(asked, target="http://127.0.0.1:9"), WINDOW, 1, 1)
    assert (found.requests, found.failures > 0) == (0, True)
    assert problem in found.problem
    assert "\n" not in found.problem


def test_a_load_process_that_dies_costs_one_visit(load: Launcher, good: StandIn) -> None:
    """A worker killed in the middle: that visit says so, nothing of its group is left, the next visit works."""
    leader = psutil.Process(load.pid)

    def kill_a_worker() -> None:
        def workers() -> list[psutil.Process]:
            return [child for group in leader.children() for child in group.children()]

        until(lambda: len(workers()) == 2, "two workers")
        workers()[0].kill()

    threading.Thread(target=kill_a_worker).start()
    found = load.visit(cell(good, "onnx-http", users=2), Window(3.0, 0.5), 1, 1)
    assert "a load process died" in found.problem
    assert leader.children(recursive=True) == []
    assert load.visit(cell(good, "onnx-http"), WINDOW, 1, 1).problem == ""


def test_a_fork_server_that_dies_costs_one_visit(load: Launcher, good: StandIn) -> None:
    """Killed in the middle of a visit: that visit says so, its load ends with it, the next visit works."""
    first = psutil.Process(load.pid)
    left: list[psutil.Process] = []

    def kill_it() -> None:
        until(lambda: len(first.children(recursive=True)) == 3, "a group of two workers")
        left.extend(first.children(recursive=True))
        first.kill()

    threading.Thread(target=kill_it).start()
    found = load.visit(cell(good, "onnx-http", users=2), Window(3.0, 0.5), 1, 1)
    assert "the load generator ended" in found.problem
    until(lambda: not any(psutil.pid_exists(one.pid) for one in left), "its load has ended")
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
    good: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine all that its master said meanwhile is there when it goes on. A visit bounded by a number of
    calls, as the published method's are, counts them all."""
    (tmp_path / "sitecustomize.py").write_text(STALL)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ['PYTHONPATH']}")
    with Launcher("http://127.0.0.1:1", seed=1) as load:
        found = load.visit(cell(good, "onnx-http", users=2), Window(60, 0, calls=10), 1, 1)
    assert (found.requests, Histogram(found.latency).count, found.problem) == (10, 10, "")


def test_missing_inputs_are_one_line_and_the_load_ends_with_the_run(
    good: StandIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A model that was never built has no tensors: said, with who makes them. After its run the fork server is gone."""
    declare(tmp_path, "nobody")
    monkeypatch.setenv("ARTIFACTS", str(tmp_path))
    with Launcher("http://127.0.0.1:1", seed=1) as made:
        found = made.visit(cell(good, "onnx-http"), WINDOW, 1, 1)
    assert "the model builder makes the inputs" in found.problem
    assert not psutil.pid_exists(made.pid)
    assert "the load generator ended" in made.visit(cell(good, "onnx-http"), WINDOW, 1, 1).problem


@pytest.mark.parametrize("route", ["onnx-http", "onnx-grpc"])
def test_a_gather_counts_whole(load: Launcher, good: StandIn, route: str) -> None:
    """All users begin together until the window closes; the last gather is in it whole, however long it takes."""
    users, window = 5, Window(seconds=DELAY_S * 2.5, warm_s=0.1)
    found = load.visit(cell(good, route, users=users, gather=True), window, 1, 1)
    assert found.problem == ""
    assert found.requests == found.steady_requests == Histogram(found.latency).count
    assert found.requests % users == 0
    assert found.steady_s * 1e3 >= found.requests / users * DELAY_S * 1e3
    assert found.connections == users
