"""What every container of ours must have, read from the Compose model with all defaults: no Docker engine is needed."""

import re
from typing import Any

import pytest

from tests.repository import ROOT, compose

PUBLISHED = {
    ("edge", "127.0.0.1", "8080", 8080),
    ("locust-master", "127.0.0.1", "8089", 8089),
    # For workers on other machines: any free port.
    ("locust-master", "127.0.0.1", "0", 5557),
}
EXPECTED = {
    "bench", "checks", "distance", "echo-grpc", "echo-http", "edge", "frames", "jpeg-http", "locust-master",
    "locust-worker", "models", "seldon-grpc", "seldon-http", "tests", "torchserve", "triton", "triton-dali",
    "typed-grpc",
}  # fmt: skip
# Run once and end: no health to ask for.
ONE_SHOTS = {"bench", "checks", "models", "tests"}
# Never part of a plain `up`: what only a script of its own runs, and the servers without a model.
PROFILES = {
    "bench": "bench",
    "checks": "tests",
    "distance": "transport",
    "echo-grpc": "transport",
    "echo-http": "transport",
    "frames": "transport",
    "seldon-grpc": "transport",
    "seldon-http": "transport",
    "tests": "tests",
    "triton-dali": "tests",
}
# What a container may write of the checkout: the bench its results.
WRITABLE = {("bench", "/results")}
# The test runner speaks to the Docker engine, so it is root.
ROOT_USERS = {"checks", "tests"}
# The stack is asked as a user on this machine would; what needs no stack is alone with its loopback.
NETWORK_MODES = {"checks": "none", "tests": "host"}

services = pytest.mark.parametrize("name", sorted(EXPECTED))


def service(name: str) -> dict[str, Any]:
    found: dict[str, Any] = compose()["services"][name]
    return found


def test_the_services_are_the_ones_we_know() -> None:
    """A new service is added to these rules on purpose."""
    assert set(compose()["services"]) == EXPECTED


@services
def test_limits(name: str) -> None:
    """Memory, CPU and pids are bounded."""
    limits = service(name)["deploy"]["resources"]["limits"]
    assert int(limits["memory"]) > 0
    assert float(limits["cpus"]) > 0
    assert int(limits["pids"]) > 0


@services
def test_hardening(name: str) -> None:
    """Non-root, read-only root, no capabilities, no new privileges, an init, nothing of the host's namespaces."""
    found = service(name)
    assert found["user"] == ("0:0" if name in ROOT_USERS else "65532:65532")
    assert found["read_only"] is True
    assert found["cap_drop"] == ["ALL"]
    assert found.get("cap_add", []) == (["DAC_OVERRIDE"] if name in ROOT_USERS else [])
    assert "no-new-privileges:true" in found["security_opt"]
    assert found["init"] is True
    assert not found.get("privileged")
    assert {"pid", "ipc", "userns_mode"}.isdisjoint(found)
    assert found.get("network_mode") == NETWORK_MODES.get(name)


@services
def test_health(name: str) -> None:
    """A long-running service says by itself whether it works, and not by an open port."""
    found = service(name)
    if name in ONE_SHOTS:
        assert found["restart"] == "no"
        return
    assert found["restart"] == "unless-stopped"
    check = found["healthcheck"]
    assert check["test"][0] in ("CMD", "CMD-SHELL"), "a healthcheck that is disabled is none"
    command = " ".join(check["test"])
    assert not re.search(r"\bnc\b|/dev/tcp|pgrep|pidof", command), "an open port or a living process is not health"
    assert "curl" not in command or re.search(r"curl .*(-f|--fail)", command), "curl without -f is green on errors"
    assert {"interval", "timeout", "retries", "start_period"} <= set(check)


@services
def test_stopping_is_bounded(name: str) -> None:
    """No container keeps a `down` waiting for more than ten seconds."""
    assert service(name)["stop_grace_period"] == "10s"


@services
def test_no_fixed_name_and_no_latest(name: str) -> None:
    """Two copies of the stack can run side by side; what is pulled is pinned; what is built is built here."""
    found = service(name)
    assert "container_name" not in found
    assert not found["image"].endswith(":latest")
    ours = {other["image"] for other in compose()["services"].values() if "build" in other}
    assert found["image"] in ours or re.search(r":[\w.-]+$|@sha256:", found["image"])


@services
def test_logs_are_bounded(name: str) -> None:
    """Logs cannot fill the disk."""
    assert {"max-size", "max-file"} <= set(service(name)["logging"]["options"])


def test_nothing_else_is_published() -> None:
    """Envoy, the Locust page and where its workers join, on the loopback address unless BIND_ADDRESS says otherwise."""
    published = {
        (name, port.get("host_ip"), port["published"], port["target"])
        for name, found in compose()["services"].items()
        for port in found.get("ports", [])
    }
    assert published == PUBLISHED


def test_servers_have_no_way_out() -> None:
    """What serves a model is on the internal network only; only Envoy joins both."""
    networks = {name: set(found.get("networks", {})) for name, found in compose()["services"].items()}
    assert compose()["networks"]["inside"]["internal"] is True
    for name in (
        "distance", "echo-grpc", "echo-http", "frames", "jpeg-http", "seldon-grpc", "seldon-http", "torchserve",
        "triton", "typed-grpc",
    ):  # fmt: skip
        assert networks[name] == {"inside"}, name


@services
def test_artefacts_have_one_writer(name: str) -> None:
    """The builder writes the artefacts; everybody else reads."""
    for mount in service(name).get("volumes", []):
        if mount["target"] == "/artifacts":
            assert mount.get("read_only", False) is (name != "models")
        free = mount["type"] == "volume" or name in ROOT_USERS or (name, mount["target"]) in WRITABLE
        assert free or mount.get("read_only"), "a bind mount is read-only"


def test_what_a_plain_up_leaves_out_is_in_a_profile() -> None:
    """`docker compose up` neither builds nor starts the test runner, the bench and the servers without a model."""
    profiles = {name: found["profiles"] for name, found in compose()["services"].items() if found.get("profiles")}
    assert profiles == {name: [profile] for name, profile in PROFILES.items()}


def test_start_order_follows_health() -> None:
    """Whoever waits for a service waits for its health, or for the end of a one-shot.

    Locust's workers are what makes its master healthy, so they only wait for its start.
    """
    for name, found in compose()["services"].items():
        for other, how in found.get("depends_on", {}).items():
            wanted = "service_completed_successfully" if other in ONE_SHOTS else "service_healthy"
            if (name, other) == ("locust-worker", "locust-master"):
                wanted = "service_started"
            assert how["condition"] == wanted, f"{name} -> {other}"


def test_every_target_and_base_image_is_pinned() -> None:
    """Each `FROM` names a stage of this file or an image with a tag that is not `latest`; each build target exists."""
    source = (ROOT / "Dockerfile").read_text()
    for name, default in re.findall(r"^ARG (\w+)=(\S+)", source, re.M):
        source = source.replace(f"${{{name}}}", default)
    stages: set[str] = set()
    for image, stage in re.findall(r"^FROM (\S+)(?: AS (\S+))?", source, re.M):
        assert image in stages or re.fullmatch(r"[\w./-]+:(?!latest)[\w.-]+(@sha256:\w+)?", image), image
        stages.add(stage)
    for accelerator in ("cpu", "gpu"):
        built = [found["build"] for found in compose(accelerator)["services"].values() if "build" in found]
        assert {build["target"] for build in built} <= stages


def test_no_dollar_is_left_unset() -> None:
    """With no .env and no environment every variable has a default: nothing renders as a blank."""
    for path in [ROOT / "compose.yaml", *sorted((ROOT / "compose").glob("*.yaml"))]:
        for line in path.read_text().splitlines():
            bare = re.findall(r"(?<!\$)\$(?:\{\w+\}|\w+)", line.split(" # ")[0])
            assert not bare, f"{path.relative_to(ROOT)}: {bare} has no default: write ${{NAME:-default}}"
