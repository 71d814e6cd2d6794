"""The profile `peers` as it runs: other projects' servers answer as the JPEG server does, measured beside it."""

import base64
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bench.measure.parity import MIN_COSINE_FP32, cosine
from chaos.docker import address_of, docker
from locustfiles.study_routes.peers import OURS, PEERS, ROWS
from tests.clients import TIMEOUT_S
from tests.stack.runs import answered, finished, result

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def measured() -> Iterator[dict[str, Any]]:
    """The study's quick form, which builds and starts the peers. They are taken away again."""
    try:
        yield result(finished("peers", "--quick", "--blocks", "3", limit_s=800))
    finally:
        docker("compose", "--profile", "peers", "rm", "--stop", "--force", *PEERS)


def embedding(service: str, photo: bytes) -> Any:
    """What it answers to a photo, by its own port."""
    url = f"http://{address_of(service)}:8000{ROWS[service].path}"
    body = json.dumps({"images": [base64.b64encode(photo).decode()]}).encode()
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
        (vector,) = json.load(response)["embeddings"]
    return np.array(vector)


@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_gives_the_jpeg_servers_embedding(peer: str, measured: dict[str, Any], photo: bytes) -> None:
    """Of the same photo, to the tolerance of every engine in FP32."""
    assert cosine(embedding(peer, photo), embedding(OURS, photo)) >= MIN_COSINE_FP32


def test_all_rows_are_measured_with_equal_threads(measured: dict[str, Any]) -> None:
    """Nothing fails, all answers agree, and each server has as many threads in all."""
    assert {cell["name"] for _, cell, _ in answered(measured)} == set(ROWS)
    assert {name: one for name, one in measured["parity"].items() if not one["agrees"]} == {}
    engines = [measured["environment"]["engines"][row.engine] for row in ROWS.values()]
    assert len({engine["threads"] * engine["instances"] for engine in engines}) == 1
    assert {engine["precision"] for engine in engines} == {"FP32"}
