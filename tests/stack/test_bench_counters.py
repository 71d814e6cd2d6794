"""Counters of the running stack around calls whose number is known."""

from typing import Any

import pytest

from tests.clients import ROUTES
from tests.stack.runs import in_the_bench

pytestmark = pytest.mark.slow

CALLS = 7
CONNECTIONS = 3

# Beside the stack, with the load's own clients: {route: [what each window counted]}, a window per target and batch.
COUNT = """
import json, sys
from dataclasses import asdict

import locust

from bench.measure.counters import delta, read
from bench.measure.measured import Cell
from locustfiles.calls import requests_of
from locustfiles.routes import ROUTES
from locustfiles.settings import Settings
from locustfiles.user import connect

calls, connections = int(sys.argv[1]), int(sys.argv[2])
found = {}
for route in ROUTES.values():
    for target in ("edge", "direct"):
        for batch in (1, 4):
            if batch > route.format.max_batch or (target == "direct" and not route.direct):
                continue
            chosen = Settings("edge:8080", batch, target=target)
            ready = requests_of(route, chosen)
            cell, served = Cell(route.name, route.name, batch, target=target), chosen.served(route)
            connect(route, chosen).send(ready[0])
            before = read(cell, served)
            nothing = delta((before, read(cell, served)))
            clients = [connect(route, chosen) for _ in range(connections)]
            for i in range(calls):
                clients[i % connections].send(ready[i % len(ready)])
            counted = delta((before, read(cell, served)))
            for client in clients:
                client.close()
            body = sum(len(ready[i % len(ready)].body) for i in range(calls))
            about = {"target": target, "batch": batch, "body": body}
            found.setdefault(route.name, []).append(about | {"nothing": asdict(nothing), "counted": asdict(counted)})
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def windows() -> Any:
    # In the bench's container, which has no health check: a worker's asks the Locust page, by a connection of its own.
    return in_the_bench(COUNT, str(CALLS), str(CONNECTIONS))


@pytest.mark.parametrize("route", ROUTES)
def test_every_call_is_counted_and_nothing_else(windows: dict[str, list[dict[str, Any]]], route: str) -> None:
    """N calls make N successes at once, by the edge or by Triton, whatever probes came meanwhile."""
    assert windows[route]
    for window in windows[route]:
        counted = window["counted"]
        on_triton = route.startswith(("onnx-", "trt-"))
        if window["target"] == "direct" and not on_triton:
            assert counted["server_requests"] is None
            assert "only the edge" in counted["reasons"][0]
            continue
        assert counted["reasons"] == []
        assert counted["server_requests"] == CALLS
        if on_triton:
            assert counted["model_executions"] == CALLS
            stages = counted["triton_stages_ms"]
            assert stages["triton.total"] >= stages["triton.compute_infer"] > 0


@pytest.mark.parametrize("route", ROUTES)
def test_connections_and_bytes_are_counted(windows: dict[str, list[dict[str, Any]]], route: str) -> None:
    """As many connections as there are clients, here and at the edge; the bodies and a little more on the wire.

    Reading the counters makes no connection, and its own pages, kilobytes of them, are not counted.
    """
    for window in windows[route]:
        through = window["target"] == "edge"
        assert window["nothing"]["connections"] == 0
        assert window["counted"]["connections"] == CONNECTIONS
        assert window["nothing"]["edge_connections"] == (0 if through else None)
        assert window["counted"]["edge_connections"] == (CONNECTIONS if through else None)
        assert max(window["nothing"]["sent_bytes"], window["nothing"]["received_bytes"]) < 500
        assert window["body"] < window["counted"]["sent_bytes"] < 1.15 * window["body"] + 1500 * CALLS
        assert window["counted"]["received_bytes"] > 500 * CALLS
