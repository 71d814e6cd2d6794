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
ONE = (STUBS,)
OTHERS = (WORKER, JPEG, TYPED, ENVOY)
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
            if victims is ONE:
                docker("exec", container(victim.service)["Id"], "rm", "-f", "/tmp/health.proof")
        yield events
    finally:
        watcher.kill()
        watcher.wait()


@pytest.mark.timeout(2 * HEALED_S)
@pytest.mark.parametrize(
    ("signal", "victims"),
    [
        pytest.param("KILL", ONE, id="one killed"),  # its last proof of life is made old: no waiting for that
        pytest.param("KILL", OTHERS, id="the others killed", marks=pytest.mark.slow),
        pytest.param("STOP", FROZEN, id="hung", marks=pytest.mark.slow),
    ],
)
def test_dead_and_hung_processes_are_healed(
    signal: str, victims: Sequence[Victim], tmp_path: Path, photo: bytes
) -> None:
    """Killed or hung processes: the engine notices both, and each route answers again."""
    with hit(signal, victims, tmp_path / "events") as events:
        for victim in victims:
            healed(victim, events, photo)


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


@pytest.mark.slow
@pytest.mark.timeout(HEALED_S + 120)
def test_a_stop_is_clean() -> None:
    """Told to stop, everything ends by itself: 137 would mean that it was killed when its grace period ended."""
    every = ("compose", "--profile", "transport")
    wait_until(all_healthy, "everything healthy", seconds=HEALED_S)
    ids = [one["Id"] for one in containers()]
    docker(*every, "stop")
    try:
        assert [service_of(one) for one in inspect(*ids) if one["State"]["ExitCode"] == 137] == []
    finally:
        docker(*every, "start")
        wait_until(all_healthy, "everything healthy after a start", seconds=HEALED_S)
