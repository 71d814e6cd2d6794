"""The generators of the cross-check reach the running stack, and count what the servers count."""

import re
from typing import Any

import pytest

from tests.stack.runs import in_the_bench

# Beside the stack, in the bench's image: {cell: what its generator and the servers counted}, without a warm-up, which
# nobody would count; and what becomes of calls to a path that the edge does not know.
CHECK = """
import json
from dataclasses import asdict, replace

from bench import truth
from bench.measure.cells import settings_of
from bench.measure.counters import delta, read
from bench.measure.measured import Cell
from locustfiles.calls import requests_of
from locustfiles.routes import ROUTES
from locustfiles.settings import Settings

truth.WARM_S = 0
served = Settings("edge:8080").serving.model
found = {}
for route in ("onnx-http", "onnx-grpc"):
    for users in (1, 8):
        cell = Cell(route, route, users=users)
        before = read(cell, served)
        visit = truth.generate(cell, "http://edge:8080", 1, 1.0)
        counted = delta((before, read(cell, served)))
        sizes = [len(one.body) for one in requests_of(ROUTES[route], settings_of(cell, "http://edge:8080"))]
        bodies = sum(sizes) / len(sizes)
        found[f"{route} {users}"] = {"visit": asdict(visit), "counted": asdict(counted), "body": bodies}
truth.WARM_S, wrong = 1, {}
for route in ("onnx-http", "onnx-grpc"):
    truth.ROUTES = {route: replace(ROUTES[route], path="/nothing/here")}
    wrong[route] = truth.generate(Cell(route, route), "http://edge:8080", 1, 1.0).problem
print(json.dumps({"cells": found, "wrong": wrong}))
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def said() -> Any:
    return in_the_bench(CHECK)


@pytest.mark.parametrize("route", ["onnx-http", "onnx-grpc"])
@pytest.mark.parametrize("users", [1, 8])
def test_the_generators_count_what_the_servers_count(route: str, users: int, said: dict[str, Any]) -> None:
    """No call fails; every user has called more than once in a second, by one connection, and sent whole tensors.

    wrk leaves behind what is under way in the end, and first tries the address with one connection more.
    """
    visit, counted, body = (said["cells"][f"{route} {users}"][key] for key in ("visit", "counted", "body"))
    requests = visit["requests"]
    assert (visit["failures"], visit["errors"]) == (0, {})
    assert requests > users
    assert visit["mean_ms"] > 0
    under_way, tried = (users, 1) if route == "onnx-http" else (0, 0)
    assert counted["server_requests"] is not None, counted["reasons"]
    assert requests <= counted["server_requests"] <= requests + under_way
    assert counted["edge_connections"] == users + tried
    # At least the bytes of the calls that were answered, and little more per call.
    assert requests * body <= counted["sent_bytes"] <= (requests + users) * body * 1.1


def test_calls_that_fail_are_no_truth(said: dict[str, Any]) -> None:
    """A path that the edge does not know fails every call, and the generator's visit says so."""
    assert re.fullmatch(r"wrk: \d+ calls failed, most with status", said["wrong"]["onnx-http"])
    assert re.match(r"go: \d+ calls failed, most with Unimplemented: ", said["wrong"]["onnx-grpc"])
