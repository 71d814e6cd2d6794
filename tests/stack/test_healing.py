"""A dead process behind a green port is found and healed without anyone's help; and told to stop, everything stops.

Runs after all other tests: here servers die.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients import CLIENTS
from tests.conftest import all_healthy
from tests.docker import PROJECT, container, containers, docker, inspect, service_of, wait_until

# From a check that fails for the third time (5 s apart, and each may wait for its own timeout) to a model that answers.
HEALED_S = 150
# What `docker compose stop` asks first: who is in front stops first.
STOP_ORDER = (
    "locust-worker", "locust-master", "distance", "edge", "typed-grpc", "jpeg-http", "torchserve", "triton",
    "echo-http", "echo-grpc", "seldon-http", "seldon-grpc", "frames",
)  # fmt: skip

UNHEALTHY = "health_status: unhealthy"
RESTARTED = "die"


@dataclass(frozen=True)
class Victim:
    """A process of a service, found by its command line, and the route that needs it."""

    service: str
    command: str
    client: str
    noticed: str = ""
    """What the engine must report before it is healed. Empty: the server may replace the process by itself."""


# The brackets keep the search from finding itself.
STUBS = Victim("triton", "[t]riton_python_backend_stub", "onnx-http", UNHEALTHY)
WORKER = Victim("torchserve", "[m]odel_service_worker", "torchserve-http/raw")
JPEG = Victim("jpeg-http", "[g]ateways.jpeg_http$", "jpeg-http/raw", RESTARTED)
TYPED = Victim("typed-grpc", "[g]ateways.typed_grpc$", "typed-grpc/unary", RESTARTED)
ENVOY = Victim("edge", "^[e]nvoy ", "typed-http", RESTARTED)
KILLED = (STUBS, WORKER, JPEG, TYPED, ENVOY)
FROZEN = (STUBS, WORKER, JPEG)


@contextmanager
def hit(signal: str, victims: Sequence[Victim], events: Path) -> Iterator[Path]:
    """Send the signal to all of them at once: each must heal by itself. The engine's events go to the file."""
    wait_until(all_healthy, "everything healthy", seconds=HEALED_S)
    line = '{{index .Actor.Attributes "com.docker.compose.service"}} {{.Status}}'
    only = ("--filter", f"label=com.docker.compose.project={PROJECT}")
    kinds = ("--filter", "event=die", "--filter", "event=health_status")
    with events.open("w") as file:
        watcher = subprocess.Popen(["docker", "events", *only, *kinds, "--format", line], stdout=file)
    try:
        for victim in victims:
            send(signal, victim)
        yield events
    finally:
        watcher.kill()
        watcher.wait()


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with hit("KILL", KILLED, tmp_path_factory.mktemp("killed") / "events") as events:
        yield events


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with hit("STOP", FROZEN, tmp_path_factory.mktemp("frozen") / "events") as events:
        yield events


def names(victim: Victim) -> str:
    return victim.service


@pytest.mark.timeout(2 * HEALED_S)
@pytest.mark.parametrize("victim", KILLED, ids=names)
def test_a_dead_process_is_healed(killed: Path, victim: Victim, photo: bytes) -> None:
    """A process that is gone: the engine sees it where nobody else would, and the route answers again."""
    healed(victim, killed, photo)


@pytest.mark.timeout(2 * HEALED_S)
@pytest.mark.parametrize("victim", FROZEN, ids=names)
def test_a_hung_process_is_healed(frozen: Path, victim: Victim, photo: bytes) -> None:
    """A process that is there and silent: the same."""
    healed(victim, frozen, photo)


def healed(victim: Victim, events: Path, photo: bytes) -> None:
    if victim.noticed:
        wanted = f"{victim.service} {victim.noticed}"
        wait_until(lambda: wanted in events.read_text().splitlines(), wanted, seconds=HEALED_S)
    wait_until(lambda: len(CLIENTS[victim.client]([photo])) == 1, f"{victim.client} answers again", seconds=HEALED_S)


def send(signal: str, victim: Victim) -> None:
    """Send the signal to every process of the service whose command line matches; fails when there is none."""
    search = f"""
        found=
        for process in /proc/[0-9]*; do
            if tr '\\0' ' ' <"$process/cmdline" 2>/dev/null | sed 's/ $//' | grep -qE '{victim.command}'; then
                kill -{signal} "${{process#/proc/}}" && found=1
            fi
        done
        [ -n "$found" ]"""
    docker("exec", container(victim.service)["Id"], "sh", "-c", search)


@pytest.fixture(scope="module")
def stopped() -> Iterator[dict[str, list[int]]]:
    """Every container stopped as `docker compose stop` does, with its exit status; all are started again afterwards."""
    wait_until(all_healthy, "everything healthy", seconds=HEALED_S)
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
@pytest.mark.parametrize("service", sorted(STOP_ORDER))
def test_a_stop_is_clean(stopped: dict[str, list[int]], service: str) -> None:
    """Told to stop, it ends by itself: 137 would mean that it was killed when its grace period ended."""
    assert 137 not in stopped[service]
