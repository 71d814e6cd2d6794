"""`docker compose up --scale triton=2`: replicas share the calls of one connection, and one may die."""

import json
import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from chaos.docker import address, address_of, containers, docker, wait_until
from tests.clients import EDGE, MODEL, tensor
from tests.conftest import all_healthy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
CALLS = 200
CALLERS = 4
both = pytest.mark.parametrize("library", [tritonclient.http, tritonclient.grpc], ids=["http", "grpc"])


def scale(replicas: int) -> None:
    """So many Tritons that the edge knows of; it asks the DNS every two seconds."""
    up = ("compose", "up", "--detach", "--wait", "--no-deps", "--no-recreate")
    docker(*up, "--scale", f"triton={replicas}", "triton")
    wait_until(lambda: known() == {str(replicas)}, f"the edge knows {replicas}", seconds=60)


def known() -> set[str]:
    """How many hosts each of Triton's clusters has."""
    url = f"http://{address_of('edge')}:9901/stats?filter=^cluster.(onnx|trt)-.*membership_total"
    with urllib.request.urlopen(url, timeout=10) as page:
        return set(re.findall(r": (\d+)$", page.read().decode(), re.M))


@pytest.fixture(autouse=True)
def two() -> Iterator[None]:
    scale(2)
    yield
    scale(1)
    wait_until(all_healthy, "everything healthy", seconds=150)


def answered() -> list[int]:
    """How many calls each Triton counts, itself."""
    counts = []
    for one in containers("triton"):
        with urllib.request.urlopen(f"http://{address(one)}:8000/v2/models/{MODEL}/stats", timeout=10) as page:
            (found,) = json.load(page)["model_stats"]
        counts.append(int(found["inference_stats"]["success"]["count"]))
    return counts


def black(library: Any) -> Any:
    return tensor(library, "image", np.zeros((1, 3, 224, 224), np.float32))


def shared(library: Any, calls: int) -> list[int]:
    """How many of so many calls on one connection each Triton answered."""
    before, image = answered(), black(library)
    with library.InferenceServerClient(EDGE) as client:
        for _ in range(calls):
            client.infer(MODEL, [image])
    return [after - then for after, then in zip(answered(), before, strict=True)]


@both
def test_each_answers_half(library: Any) -> None:
    """Within a tenth; health checks are among them."""
    one, other = shared(library, CALLS)
    assert 0.9 < one / other < 1.1, (one, other)


@both
def test_one_that_dies_takes_only_what_it_was_answering(library: Any) -> None:
    """Its tensors are too large to be sent a second time; whoever calls next is answered by the other one."""
    good, failed, over = list[float](), list[str](), threading.Event()

    def call() -> None:
        with library.InferenceServerClient(EDGE) as client:
            while not over.is_set():
                try:
                    client.infer(MODEL, [black(library)])
                    good.append(time.monotonic())
                except InferenceServerException as error:
                    failed.append(str(error))

    callers = [threading.Thread(target=call) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    try:
        wait_until(lambda: len(good) > CALLS, "calls are answered", seconds=60)
        docker("kill", max(containers("triton"), key=lambda one: one["Created"])["Id"])
        died = time.monotonic()
        # Envoy asks the DNS every two seconds, and lets a replica that it could not reach back in after as long.
        wait_until(lambda: good[-1] > died + 8, "calls are answered", seconds=60)
    finally:
        over.set()
        for caller in callers:
            caller.join()
    assert len(failed) <= CALLERS, failed
