"""The running stack, seen from the Docker engine."""

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROJECT = os.environ.get("COMPOSE_PROJECT_NAME", "fiveway")


def docker(*arguments: str, timeout: float = 120, check: bool = True) -> str:
    """stdout of one docker command, run at the root of the repository."""
    done = subprocess.run(
        ["docker", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert not check or done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr or done.stdout}"
    return done.stdout


def containers(service: str = "") -> list[dict[str, Any]]:
    """Every running container of the stack, or of one service; one-off runs are left out."""
    filters = [f"label=com.docker.compose.project={PROJECT}", "label=com.docker.compose.oneoff=False"]
    if service:
        filters.append(f"label=com.docker.compose.service={service}")
    ids = docker("ps", "--quiet", *[word for one in filters for word in ("--filter", one)]).split()
    return inspect(*ids) if ids else []


def inspect(*ids: str) -> list[dict[str, Any]]:
    """What the engine knows of these containers, running or not."""
    found: list[dict[str, Any]] = json.loads(docker("inspect", *ids))
    return found


def container(service: str) -> dict[str, Any]:
    """The one running container of a service."""
    (found,) = containers(service)
    return found


def address_of(service: str) -> str:
    """Of its one container: see `address`."""
    return address(container(service))


def address(inspected: dict[str, Any]) -> str:
    """Of a container on one of its networks: the engine's host reaches it, nobody else outside does."""
    network, *_ = inspected["NetworkSettings"]["Networks"].values()
    return str(network["IPAddress"])


def service_of(inspected: dict[str, Any]) -> str:
    return str(inspected["Config"]["Labels"]["com.docker.compose.service"])


def health(inspected: dict[str, Any]) -> str:
    """healthy, unhealthy, starting, or none."""
    return str(inspected["State"].get("Health", {}).get("Status", "none"))


def signal(service: str, pattern: str, name: str) -> None:
    """Send the signal to every process of the service whose command line matches the pattern, an extended regular
    expression. Fails where none does. Write brackets around a letter, `[e]nvoy`: else the search finds itself."""
    search = f"""
        found=
        for process in /proc/[0-9]*; do
            if tr '\\0' ' ' <"$process/cmdline" 2>/dev/null | sed 's/ $//' | grep -qE '{pattern}'; then
                kill -{name} "${{process#/proc/}}" && found=1
            fi
        done
        [ -n "$found" ]"""
    docker("exec", container(service)["Id"], "sh", "-c", search)


def wait_until[T](ask: Callable[[], T | None], what: str, *, seconds: float, every: float = 0.5) -> T:
    """The first truthy answer; fails with `what` if none comes in time. An exception counts as no answer yet."""
    end = time.monotonic() + seconds
    last: object = None
    while True:
        try:
            if answer := ask():
                return answer
            last = None
        except Exception as error:
            last = error
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds:g} s{f' ({last!r})' if last else ''}")
        time.sleep(every)


def memory_mib() -> dict[str, float]:
    """Memory in use per service (the largest of its containers), in MiB, without the page cache."""
    units = {"KiB": 1 / 1024, "MiB": 1, "GiB": 1024}
    ids = {found["Id"]: service_of(found) for found in containers()}
    used: dict[str, float] = {}
    for line in docker("stats", "--no-stream", "--no-trunc", "--format", "{{.ID}} {{.MemUsage}}", *ids).splitlines():
        identifier, value = line.split()[:2]
        amount = float(value[:-3]) * units[value[-3:]]
        used[ids[identifier]] = max(used.get(ids[identifier], 0), amount)
    return used


def page_faults(service: str) -> int:
    """How often the processes of its one container took a page from the system since they began."""
    stats = docker("exec", container(service)["Id"], "sh", "-c", "cat /proc/[0-9]*/stat", check=False)
    assert stats, f"nothing is known of the processes of {service}"
    return sum(int(line.rpartition(")")[2].split()[7]) for line in stats.splitlines())


def descriptors() -> dict[str, int]:
    """Open descriptors per service (of all processes in its containers)."""
    found: dict[str, int] = {}
    for one in containers():
        count = docker("exec", one["Id"], "sh", "-c", "ls -d /proc/[0-9]*/fd/* 2>/dev/null | wc -l", check=False)
        found[service_of(one)] = found.get(service_of(one), 0) + int(count or 0)
    return found
