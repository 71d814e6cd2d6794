"""A dead process behind a green port is found and healed without anyone's help; and told to stop, everything stops.

Runs after all other tests: here servers die.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.clients import CLIENTS
from tests.conftest import STACK, all_healthy
from tests.docker import container, containers, docker, inspect, service_of, wait_until

# From a check that fails for the third time (5 s apart, and each may wait for its own timeout) to a model that answers.
HEALED_S = 150
# What `docker compose stop` asks first: who is in front stops first.
STOP_ORDER = ("locust-worker", "locust-master", "edge", "typed-grpc", "jpeg-http", "torchserve", "triton")


@dataclass(frozen=True)
class Victim:
    """A process of a service, found by its command line, and the route that needs it."""

    service: str
    command: str
    signal: str
    client: str
    restarts: bool
    """Whether healing means a new container process; TorchServe replaces its worker by itself."""


VICTIMS = (
    Victim("triton", "[t]riton_python_backend_stub", "KILL", "onnx-http", restarts=True),
    Victim("triton", "[t]riton_python_backend_stub", "STOP", "onnx-grpc", restarts=True),
    Victim("torchserve", "[m]odel_service_worker", "KILL", "torchserve-http/raw", restarts=False),
    Victim("jpeg-http", "[g]ateways.jpeg_http$", "KILL", "jpeg-http/raw", restarts=True),
    Victim("jpeg-http", "[g]ateways.jpeg_http$", "STOP", "jpeg-http/raw", restarts=True),
    Victim("typed-grpc", "[g]ateways.typed_grpc$", "KILL", "typed-grpc/unary", restarts=True),
    Victim("edge", "^[e]nvoy ", "KILL", "typed-http", restarts=True),
)


@pytest.mark.timeout(HEALED_S + 60)
@pytest.mark.parametrize("victim", VICTIMS, ids=lambda victim: f"{victim.service}-{victim.signal}")
def test_a_dead_process_is_healed(victim: Victim, photo: bytes) -> None:
    """KILL takes it away, STOP leaves it there and silent: the route answers again, and the service is healthy."""
    ask = CLIENTS[victim.client]
    assert len(ask([photo])) == 1
    before = container(victim.service)
    signal(before["Id"], victim)
    if victim.restarts:
        wait_until(
            lambda: inspect(before["Id"])[0]["RestartCount"] > before["RestartCount"],
            f"{victim.service} restarted",
            seconds=HEALED_S,
        )
    wait_until(lambda: len(ask([photo])) == 1, f"{victim.client} answers again", seconds=HEALED_S)
    wait_until(all_healthy, "everything healthy again", seconds=HEALED_S)


def signal(identifier: str, victim: Victim) -> None:
    """Send it to every process whose command line matches. (The brackets keep the search from finding itself.)"""
    search = f"""
        found=
        for process in /proc/[0-9]*; do
            if tr '\\0' ' ' <"$process/cmdline" 2>/dev/null | sed 's/ $//' | grep -qE '{victim.command}'; then
                kill -{victim.signal} "${{process#/proc/}}" && found=1
            fi
        done
        [ -n "$found" ]"""
    docker("exec", identifier, "sh", "-c", search)


@pytest.fixture(scope="module")
def stopped() -> Iterator[dict[str, list[int]]]:
    """Every container stopped as `docker compose stop` does, with its exit status; all are started again afterwards."""
    found = sorted(containers(), key=lambda one: STOP_ORDER.index(service_of(one)))
    ids = [one["Id"] for one in found]
    for identifier in ids:
        docker("stop", identifier)
    statuses: dict[str, list[int]] = {}
    for one in inspect(*ids):
        statuses.setdefault(service_of(one), []).append(one["State"]["ExitCode"])
    docker("start", *reversed(ids))
    yield statuses
    wait_until(all_healthy, "everything healthy after a start", seconds=HEALED_S)


@pytest.mark.timeout(HEALED_S)
@pytest.mark.parametrize("service", sorted(STACK))
def test_a_stop_is_clean(stopped: dict[str, list[int]], service: str) -> None:
    """Told to stop, it ends by itself: 137 would mean that it was killed when its grace period ended."""
    assert 137 not in stopped[service]
