"""The profile `metrics` as it runs beside the stack: under load every panel of the dashboard has data."""

import json
import math
import os
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlencode

import pytest

from chaos.docker import address_of, container, docker, wait_until
from tests.clients import CLIENTS, ROUTES, TIMEOUT_S
from tests.repository import ROOT
from tests.stack import test_hardening as hardening

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

URL = f"http://127.0.0.1:{os.environ.get('PROMETHEUS_PORT', '9090')}"
PROFILE = ("compose", "--profile", "metrics")
PANELS = json.loads((ROOT / "compose/metrics/dashboard.json").read_text())["panels"]
# Empty when all is well, and without a GPU.
EMPTY = {"Alerts", *({"GPU, 0 to 1"} if os.environ.get("ACCELERATOR", "cpu") == "cpu" else ())}


@pytest.fixture(scope="module", autouse=True)
def _prometheus() -> Iterator[None]:
    """It runs for these tests only, so that no other is measured with it."""
    docker(*PROFILE, "up", "--detach", "--wait", "--no-deps", "prometheus")
    yield
    docker(*PROFILE, "rm", "--force", "--stop", "prometheus")


def ask(path: str, **query: str) -> Any:
    with urllib.request.urlopen(f"{URL}/api/v1/{path}?{urlencode(query)}", timeout=TIMEOUT_S) as answer:
        return json.load(answer)["data"]


def samples(expression: str) -> list[tuple[dict[str, str], float]]:
    """The labels and the number of each series; what is not a number (0 requests in 0 seconds) is no data."""
    found = [(one["metric"], float(one["value"][1])) for one in ask("query", query=expression)["result"]]
    return [(labels, number) for labels, number in found if math.isfinite(number)]


@contextmanager
def load(photo: bytes) -> Iterator[None]:
    """One caller per client, until the end."""
    ended = threading.Event()

    def call(name: str) -> None:
        while not ended.is_set():
            CLIENTS[name]([photo])

    with ExitStack() as stack:
        for name in CLIENTS:
            caller = threading.Thread(target=call, args=(name,))
            caller.start()
            stack.callback(caller.join)
        stack.callback(ended.set)
        yield


def test_every_panel_has_data_under_load(photo: bytes) -> None:
    """Each expression gives a number, each route has requests, and nothing alerts."""
    expressions = {one["expr"] for panel in PANELS if panel["title"] not in EMPTY for one in panel["targets"]}

    def silent() -> list[str]:
        asked = {labels["route"] for labels, rate in samples("route:requests:rate1m") if rate > 0}
        return [one for one in sorted(expressions) if not samples(one)] + sorted(set(ROUTES) - asked)

    with load(photo):
        try:
            wait_until(lambda: not silent(), "every expression and route has data", seconds=150, every=5)
        except AssertionError as error:
            raise AssertionError(f"no data: {silent()}") from error
    assert {labels["job"]: up for labels, up in samples("up")} == dict.fromkeys(
        ("edge", "jpeg-http", "triton", "typed-grpc"), 1.0
    )
    assert samples('ALERTS{alertstate="firing"}') == []


def test_every_rule_is_evaluated() -> None:
    """Without an error; the recording rules under their names."""
    rules = [rule for group in ask("rules")["groups"] for rule in group["rules"]]
    assert {rule["health"] for rule in rules} == {"ok"}
    assert {rule["name"] for rule in rules} >= {"instance:triton_pending_requests:sum", "RouteFails", "BackendDown"}


def test_it_is_a_container_like_every_other() -> None:
    """Its user, capabilities, limits and port; and what it asks is on no port of the host."""
    found = container("prometheus")
    hardening.test_what_the_kernel_says_of_process_1([found])
    hardening.test_limits([found])
    hardening.test_the_artefacts_cannot_be_written([found])
    hardening.test_no_other_port_is_published([found])


def test_the_gateways_metrics_are_inside_only() -> None:
    """They are there on the network of the servers, and Envoy lets nobody through to them."""
    for service in ("jpeg-http", "typed-grpc"):
        with urllib.request.urlopen(f"http://{address_of(service)}:9464/metrics", timeout=TIMEOUT_S) as answer:
            assert b"fiveway_requests_total" in answer.read()
        assert not any(container(service)["NetworkSettings"]["Ports"].values())
