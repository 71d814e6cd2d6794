"""`docker compose up --scale triton=2`: replicas share the calls of one connection."""

import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http

from chaos.docker import address, containers, docker, wait_until
from tests.clients import EDGE, MODEL, tensor
from tests.conftest import all_healthy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
CALLS = 200


def scale(replicas: int) -> None:
    up = ("compose", "up", "--detach", "--wait", "--no-deps", "--no-recreate")
    docker(*up, "--scale", f"triton={replicas}", "triton")


@pytest.fixture(autouse=True)
def two() -> Iterator[None]:
    """Two Tritons that the edge knows of."""
    scale(2)
    wait_until(lambda: all(shared(tritonclient.http, 4)), "both are asked", seconds=60)
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


def shared(library: Any, calls: int) -> list[int]:
    """How many of so many calls on one connection each Triton answered."""
    before, image = answered(), tensor(library, "image", np.zeros((1, 3, 224, 224), np.float32))
    with library.InferenceServerClient(EDGE) as client:
        for _ in range(calls):
            client.infer(MODEL, [image])
    return [after - then for after, then in zip(answered(), before, strict=True)]


@pytest.mark.parametrize("library", [tritonclient.http, tritonclient.grpc], ids=["http", "grpc"])
def test_each_answers_half(library: Any) -> None:
    """Within a tenth; health checks are among them."""
    one, other = shared(library, CALLS)
    assert 0.9 < one / other < 1.1, (one, other)
