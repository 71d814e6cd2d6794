"""The generators of the cross-check reach the running stack, and count what the servers count."""

import json
import re
from typing import Any

import pytest

from tests.docker import docker

# Beside the stack, in the bench's image: {cell: what its generator and the servers counted}, without a warm-up, which
# nobody would count; and what becomes of calls to a path that the edge does not know.
CHECK = """
import json
from dataclasses import asdict, replace

from bench import truth
from bench.measure.counters import delta, read
from bench.measure.measured import Cell
from locustfiles.settings import Settings

truth.WARM_S = 0
served = Settings("edge:8080").serving.model
found = {}
for route in ("onnx-http", "onnx-grpc"):
    for users in (1, 8):
        cell = Cell(route, route, users=users)
        about = truth.target(cell, "http://edge:8080")
        before = read(cell, served)
        visit = truth.generate(about, 1, 1.0)
        counted = delta(before, read(cell, served))
        bodies = sum(map(len, about.bodies)) / len(about.bodies)
        found[f"{route} {users}"] = {"visit": asdict(visit), "counted": asdict(counted), "body": bodies}
truth.WARM_S, wrong = 1, {}
for route in ("onnx-http", "onnx-grpc"):
    about = truth.target(Cell(route, route), "http://edge:8080")
    bodies = tuple(body.replace(about.path.encode(), b"/nothing/here") for body in about.bodies)
    wrong[route] = truth.generate(replace(about, path="/nothing/here", bodies=bodies), 1, 1.0).problem
print(json.dumps({"cells": found, "wrong": wrong}))
"""

pytestmark = pytest.mark.slow

CELLS = [(route, users) for route in ("onnx-http", "onnx-grpc") for users in (1, 8)]


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    run = ("compose", "--profile", "bench", "run", "--rm", "--no-deps", "-T", "bench", "python", "-c", CHECK)
    result: dict[str, Any] = json.loads(docker(*run))
    return result


@pytest.fixture
def found(said: dict[str, Any]) -> dict[str, dict[str, Any]]:
    cells: dict[str, dict[str, Any]] = said["cells"]
    return cells


@pytest.mark.parametrize(("route", "users"), CELLS)
def test_no_call_fails(route: str, users: int, found: dict[str, dict[str, Any]]) -> None:
    """Every user has called more than once in a second, and every call succeeded with a latency."""
    visit = found[f"{route} {users}"]["visit"]
    assert (visit["failures"], visit["errors"]) == (0, {})
    assert visit["requests"] > users
    assert visit["mean_ms"] > 0


@pytest.mark.parametrize(("route", "users"), CELLS)
def test_the_servers_count_the_same_calls(route: str, users: int, found: dict[str, dict[str, Any]]) -> None:
    """Envoy and Triton count what the generator counted; wrk leaves behind what is under way in the end."""
    counted, visit = found[f"{route} {users}"]["counted"], found[f"{route} {users}"]["visit"]
    assert counted["server_requests"] is not None, counted["reasons"]
    under_way = users if route == "onnx-http" else 0
    assert visit["requests"] <= counted["server_requests"] <= visit["requests"] + under_way


@pytest.mark.parametrize(("route", "users"), CELLS)
def test_each_user_keeps_one_connection(route: str, users: int, found: dict[str, dict[str, Any]]) -> None:
    """The edge accepted one per user; wrk first tries the address with one more."""
    tried = 1 if route == "onnx-http" else 0
    assert found[f"{route} {users}"]["counted"]["edge_connections"] == users + tried


@pytest.mark.parametrize(("route", "users"), CELLS)
def test_the_whole_tensor_is_sent(route: str, users: int, found: dict[str, dict[str, Any]]) -> None:
    """At least the bytes of the calls that were answered went over the wire, and little more per call."""
    one = found[f"{route} {users}"]
    sent = one["counted"]["sent_bytes"]
    assert one["visit"]["requests"] * one["body"] <= sent <= (one["visit"]["requests"] + users) * one["body"] * 1.1


def test_calls_that_fail_are_no_truth(said: dict[str, Any]) -> None:
    """A path that the edge does not know fails every call, and the generator's visit says so."""
    assert re.fullmatch(r"wrk: \d+ calls failed, most with status", said["wrong"]["onnx-http"])
    assert re.match(r"grpc-raw: \d+ calls failed, most with Unimplemented: ", said["wrong"]["onnx-grpc"])
