"""What all our containers must have, read from the Compose model with all defaults: no Docker engine is needed."""

import re
from typing import Any

import pytest
import yaml

from tests.repository import ROOT, compose

# Run once and end: no health to ask for.
ONE_SHOTS = {"bench", "checks", "models", "tests"}
# Files whose services are never part of a plain `up`: each in the profile of the file's name.
PROFILES = {"bench", "peers", "tests", "transport"}
# What a container may write of the checkout: the bench its results.
WRITABLE = {("bench", "/results")}
# The test runner speaks to the Docker engine, so it is root.
ROOT_USERS = {"checks", "tests"}
# The stack is asked as a user on this machine would; what needs no stack is alone with its loopback.
NETWORK_MODES = {"checks": "none", "tests": "host"}
# Triton's shared memory may be joined; the bench does it for the study shm alone (scripts/bench).
IPC = {"triton": "shareable", "triton-dali": "shareable", "triton-gpu": "shareable", "bench": "private"}
SERVICES: dict[str, dict[str, Any]] = compose()["services"]

services = pytest.mark.parametrize("name", sorted(SERVICES))


def declared(*files: str) -> set[str]:
    """The services of these files in compose/, by their names without .yaml."""
    return {name for file in files for name in yaml.safe_load((ROOT / f"compose/{file}.yaml").read_text())["services"]}


@services
def test_policy(name: str) -> None:
    """Non-root, read-only root, no capabilities, an init, nothing of the host's namespaces; bounded in all it takes."""
    found = SERVICES[name]
    wanted = {
        "user": "0:0" if name in ROOT_USERS else "65532:65532",
        "read_only": True,
        "cap_drop": ["ALL"],
        "cap_add": ["CHOWN", "DAC_OVERRIDE"] if name in ROOT_USERS else None,
        "security_opt": ["no-new-privileges:true"],
        "init": True,
        "network_mode": NETWORK_MODES.get(name),
        "ipc": IPC.get(name),
        "stop_grace_period": "10s",  # no container keeps a `down` waiting
    }
    assert {key: found.get(key) for key in wanted} == wanted
    assert {"privileged", "pid", "userns_mode"}.isdisjoint(found)
    limits = found["deploy"]["resources"]["limits"]
    assert int(limits["memory"]) > 0
    assert limits["pids"] > 0
    assert float(limits.get("cpus", 0)) == 0  # CPUS: by default all that the machine has
    assert {"max-size", "max-file"} <= set(found["logging"]["options"])


@services
def test_health(name: str) -> None:
    """A long-running service says by itself whether it works, and not by an open port."""
    found = SERVICES[name]
    if name in ONE_SHOTS:
        assert found["restart"] == "no"
        return
    assert found["restart"] == "unless-stopped"
    check = found["healthcheck"]
    assert check["test"][0] in ("CMD", "CMD-SHELL"), "the health check is disabled"
    command = " ".join(check["test"])
    assert not re.search(r"\bnc\b|/dev/tcp|pgrep|pidof", command), "an open port or a living process is not health"
    assert "curl" not in command or re.search(r"curl .*(-f|--fail)", command), "curl without -f is green on errors"
    assert {"interval", "timeout", "retries", "start_period"} <= set(check)


@services
def test_no_fixed_name_and_no_latest(name: str) -> None:
    """Two copies of the stack can run side by side; what is pulled is pinned; what is built is built here."""
    found = SERVICES[name]
    assert "container_name" not in found
    assert not found["image"].endswith(":latest")
    ours = {other["image"] for other in SERVICES.values() if "build" in other}
    assert found["image"] in ours or re.search(r":[\w.-]+$|@sha256:", found["image"])


def test_ports_are_on_the_loopback_address() -> None:
    """Unless BIND_ADDRESS says otherwise. Which ports: tests/stack/test_hardening.py."""
    published = {(name, port["host_ip"]) for name, found in SERVICES.items() for port in found.get("ports", [])}
    assert published == {(name, "127.0.0.1") for name in ("edge", "grafana", "locust-master", "prometheus")}


def test_servers_have_no_way_out() -> None:
    """What serves is on the internal network only; only Envoy, the load and the one-shots join others."""
    assert compose()["networks"]["inside"]["internal"] is True
    for name in declared("gateways", "peers", "servers", "transport") - ONE_SHOTS:
        assert set(SERVICES[name]["networks"]) == {"inside"}, name


@services
def test_artefacts_have_one_writer(name: str) -> None:
    """The builder writes the artefacts; everybody else reads."""
    for mount in SERVICES[name].get("volumes", []):
        if mount["target"] == "/artifacts":
            assert mount.get("read_only", False) is (name != "models")
        free = mount["type"] == "volume" or name in ROOT_USERS or (name, mount["target"]) in WRITABLE
        assert free or mount.get("read_only"), "a bind mount is read-only"


def test_what_a_plain_up_leaves_out_is_in_a_profile() -> None:
    """`docker compose up` neither builds nor starts the test runner, the bench, metrics, and servers without a
    model."""
    profiles = {name: found["profiles"] for name, found in SERVICES.items() if found.get("profiles")}
    wanted = {name: [file] for file in PROFILES for name in declared(file)}
    assert profiles == wanted | {"grafana": ["grafana"], "prometheus": ["metrics", "grafana"]}


def test_start_order_follows_health() -> None:
    """Whoever waits for a service waits for its health, or for the end of a one-shot.

    Two wait for a start alone: the edge begins beside the servers, and Locust's workers make its master healthy.
    """
    for name, found in SERVICES.items():
        for other, how in found.get("depends_on", {}).items():
            wanted = "service_completed_successfully" if other in ONE_SHOTS else "service_healthy"
            if name in ("edge", "locust-worker"):
                wanted = "service_started"
            assert how["condition"] == wanted, f"{name} -> {other}"


def test_every_target_and_base_image_is_pinned() -> None:
    """Each `FROM` names a stage of this file or an image with a tag that is not `latest`; each build target exists."""
    source = (ROOT / "Dockerfile").read_text()
    for name, default in reversed(re.findall(r"^ARG (\w+)=(\S+)", source, re.M)):  # one may use those above it
        source = source.replace(f"${{{name}}}", default)
    stages = {"scratch"}
    for image, stage in re.findall(r"^FROM (\S+)(?: AS (\S+))?", source, re.M):
        assert image in stages or re.fullmatch(r"[\w./-]+:(?!latest)[\w.-]+(@sha256:\w+)?", image), image
        stages.add(stage)
    for accelerator in ("cpu", "gpu"):
        built = [found["build"] for found in compose(accelerator)["services"].values() if "build" in found]
        assert {build["target"] for build in built} <= stages
