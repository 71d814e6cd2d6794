"""The profile `peers` as it runs: other projects' servers beside the JPEG server, by the quick form of the study."""

import subprocess
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from chaos.docker import docker
from locustfiles.study_routes.peers import PEERS, ROWS
from tests.stack.runs import answered, finished, result

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


EVENTS = ("docker", "events", "--filter", "event=pause", "--filter", "event=unpause", "--format")
EVENT = '{{.Action}} {{index .Actor.Attributes "com.docker.compose.service"}}'


@pytest.fixture(scope="module")
def measured() -> Iterator[tuple[dict[str, Any], list[str]]]:
    """The result of the study, which builds and starts the peers, and who was paused and let run. They are taken away
    again."""
    with subprocess.Popen([*EVENTS, EVENT], stdout=subprocess.PIPE, text=True) as events:
        try:
            found = result(finished("peers", "--quick", "--blocks", "3", limit_s=800))
            events.terminate()
            yield found, events.communicate()[0].splitlines()
        finally:
            events.kill()
            docker("compose", "--profile", "peers", "rm", "--stop", "--force", *PEERS)


def test_all_answer_alike_with_equal_threads(measured: tuple[dict[str, Any], list[str]]) -> None:
    """Nothing fails, every peer gives the JPEG server's embedding of a photo, and has as many threads in all."""
    run = measured[0]
    assert {cell["name"] for _, cell, _ in answered(run)} == set(ROWS)
    assert {name: one for name, one in run["parity"].items() if not one["agrees"]} == {}
    engines = [run["environment"]["engines"][row.engine] for row in ROWS.values()]
    assert len({engine["threads"] * engine["instances"] for engine in engines}) == 1
    assert {engine["precision"] for engine in engines} == {"FP32"}


def test_those_that_were_not_measured_were_paused(measured: tuple[dict[str, Any], list[str]]) -> None:
    """Each of them, in every block; at the end all run."""
    counts = Counter(measured[1])
    assert min(counts[f"pause {peer}"] for peer in PEERS) >= 3
    assert {peer: counts[f"pause {peer}"] for peer in PEERS} == {peer: counts[f"unpause {peer}"] for peer in PEERS}
