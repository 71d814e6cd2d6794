"""The profile `peers` as it runs: other projects' servers beside the JPEG server, by the quick form of the study."""

from collections.abc import Iterator
from typing import Any

import pytest

from chaos.docker import docker
from locustfiles.study_routes.peers import PEERS, ROWS
from tests.stack.runs import answered, finished, result

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def measured() -> Iterator[dict[str, Any]]:
    """The result of the study, which builds and starts the peers. They are taken away again."""
    try:
        yield result(finished("peers", "--quick", "--blocks", "3", limit_s=800))
    finally:
        docker("compose", "--profile", "peers", "rm", "--stop", "--force", *PEERS)


def test_all_answer_alike_with_equal_threads(measured: dict[str, Any]) -> None:
    """Nothing fails, every peer gives the JPEG server's embedding of a photo, and has as many threads in all."""
    assert {cell["name"] for _, cell, _ in answered(measured)} == set(ROWS)
    assert {name: one for name, one in measured["parity"].items() if not one["agrees"]} == {}
    engines = [measured["environment"]["engines"][row.engine] for row in ROWS.values()]
    assert len({engine["threads"] * engine["instances"] for engine in engines}) == 1
    assert {engine["precision"] for engine in engines} == {"FP32"}
