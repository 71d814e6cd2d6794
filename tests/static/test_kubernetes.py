"""kubernetes/ says what Compose says, value by value: what is compared is what `kubectl apply -k` would send."""

import functools
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.repository import ROOT, compose

Json = dict[str, Any]

# docs/kubernetes.md says so: the profiles that are not there, and what a pod cannot mount.
PROFILES = {"grafana", "metrics", "peers", "tests", "transport"}
LEFT_OUT = {"/app/results", "/frames", "/host/cgroup"}
# Ports that no route of Envoy leads to: metrics, Envoy's own, Locust's.
OTHER_PORTS = {"triton": (8002,), "edge": (8080, 9901, 18080), "locust-master": (8089, 5557)} | dict.fromkeys(
    ("jpeg-http", "typed-grpc"), (9464,)
)
SERVICES = sorted(name for name, one in compose()["services"].items() if not PROFILES & set(one.get("profiles", [])))
COMPONENTS = {"cpu": ["autoscale", "bench"], "gpu": ["autoscale", "bench", "gpu"]}
UNITS = {"k": 2**10, "m": 2**20, "g": 2**30}

accelerators = pytest.mark.parametrize("accelerator", COMPONENTS)
services = pytest.mark.parametrize("name", SERVICES)


@functools.cache
def objects(accelerator: str = "cpu") -> list[Json]:
    """The base with all that can be put over it, as a user's own overlay has them."""
    with tempfile.TemporaryDirectory() as folder:
        near = os.path.relpath(ROOT / "kubernetes", folder)
        overlay = {"resources": [f"{near}/base"], "components": [f"{near}/{one}" for one in COMPONENTS[accelerator]]}
        Path(folder, "kustomization.yaml").write_text(yaml.safe_dump(overlay))
        done = subprocess.run(["kustomize", "build", folder], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return list(yaml.safe_load_all(done.stdout))


def of_kind(*kinds: str, accelerator: str = "cpu") -> dict[str, Json]:
    """Objects by name."""
    return {one["metadata"]["name"]: one for one in objects(accelerator) if one["kind"] in kinds}


def pod(name: str, accelerator: str = "cpu") -> Json:
    found: Json = of_kind("Deployment", "Job", accelerator=accelerator)[name]["spec"]["template"]["spec"]
    return found


def main(name: str, accelerator: str = "cpu") -> Json:
    """The one container of its pod."""
    (found,) = pod(name, accelerator)["containers"]
    assert found["name"] == "main"
    return dict(found)


def size(text: str) -> int:
    """Bytes of `256m` and of `256Mi`."""
    number, unit = re.fullmatch(r"(\d+)([a-z]?)i?", text.lower()).groups()  # type: ignore[union-attr]
    return int(number) * UNITS.get(unit, 1)


def seconds(duration: str) -> int:
    """Compose's `1m0s` and `10s`."""
    minutes, rest = re.fullmatch(r"(?:(\d+)m)?(?:(\d+)s)?", duration).groups()  # type: ignore[union-attr]
    return 60 * int(minutes or 0) + int(rest or 0)


def started(target: str, instruction: str) -> list[str]:
    """ENTRYPOINT or CMD of a stage of the Dockerfile; [] where it has none."""
    stage = re.findall(rf"^FROM \S+ AS {target}$(.*?)(?=^FROM |\Z)", (ROOT / "Dockerfile").read_text(), re.M | re.S)[0]
    return [word for line in re.findall(rf"^{instruction} (\[.*\])", stage, re.M)[-1:] for word in json.loads(line)]


@accelerators
def test_the_api_takes_it(accelerator: str) -> None:
    """Every object fits the API's schema, with no field that it does not know, in the namespace that goes with it."""
    for one in objects(accelerator):
        kubernetes_validate.validate(one, "1.34", strict=True)
        assert one["kind"] == "Namespace" or one["metadata"]["namespace"] == "fiveway"


def test_every_service_is_there() -> None:
    """Of Compose's services all but the tests' and the profile `transport`; the one-shots are Jobs."""
    once = {name for name in SERVICES if compose()["services"][name]["restart"] == "no"}
    assert set(of_kind("Job")) == once
    assert set(of_kind("Deployment")) == set(SERVICES) - once
    assert all(pod(name).get("restartPolicy", "Always") == ("Never" if name in once else "Always") for name in SERVICES)


@accelerators
@services
def test_what_runs(name: str, accelerator: str) -> None:
    """Image, command, replicas and environment."""
    wanted, found = compose(accelerator)["services"][name], main(name, accelerator)
    image = wanted["image"]
    assert found["image"] == (image if ":" in image else f"{image}:latest")
    target = wanted.get("build", {}).get("target") or name.partition("-")[0]  # a worker has the master's image
    command = started(target, "ENTRYPOINT") + (wanted.get("command") or started(target, "CMD"))
    if name == "bench":  # scripts/bench gives it; here it is wrapped, to leave its result in the log
        command = [*found["args"][:4], "python", "-m", "bench", "fiveway"]
    assert found["args"] == command
    assert found["command"][-2:] == ['rm -rf /tmp/* /var/tmp/*; exec "$@"', "sh"]
    replicas = of_kind("Deployment", "Job", accelerator=accelerator)[name]["spec"].get("replicas", 1)
    assert replicas == wanted["deploy"].get("replicas", 1)

    (settings,) = (one["data"] for one in objects(accelerator) if one["kind"] == "ConfigMap")
    environment = settings | {one["name"]: one.get("value", "") for one in found.get("env", [])}
    assert environment == {key: value for key, value in wanted["environment"].items() if value is not None}
    for one in found.get("env", []):
        key = {"name": "secrets", "key": one["name"].lower(), "optional": True}
        assert "value" in one or one["valueFrom"] == {"secretKeyRef": key}


@accelerators
@services
def test_limits(name: str, accelerator: str) -> None:
    """Memory and GPUs. A request stands beside each limit of memory, or the limit would be the request."""
    resources = compose(accelerator)["services"][name]["deploy"]["resources"]
    found = main(name, accelerator)["resources"]
    assert float(resources["limits"].get("cpus", 0)) == 0
    devices = resources.get("reservations", {}).get("devices", [])
    limits = dict(found["limits"])
    assert size(limits.pop("memory")) == int(resources["limits"]["memory"])
    assert limits == ({"nvidia.com/gpu": sum(one["count"] for one in devices)} if devices else {})
    assert 0 < size(found["requests"]["memory"]) < size(found["limits"]["memory"])
    assert set(found["requests"]) == {"cpu", "memory"}


@accelerators
@services
def test_health(name: str, accelerator: str) -> None:
    """The readiness probe is the health check; a rollout waits for as long as a start may take."""
    check = compose(accelerator)["services"][name].get("healthcheck")
    found = main(name, accelerator)
    assert "livenessProbe" not in found  # the check restarts what is dead: docs/kubernetes.md
    assert found.get("readinessProbe") == (
        check
        and {
            "exec": {"command": check["test"][1:]},
            "periodSeconds": seconds(check["interval"]),
            "timeoutSeconds": seconds(check["timeout"]),
            "failureThreshold": check["retries"],
        }
    )
    if check:
        deployment = of_kind("Deployment", accelerator=accelerator)[name]["spec"]
        assert deployment.get("progressDeadlineSeconds", 600) >= seconds(check["start_period"])


@accelerators
@services
def test_security(name: str, accelerator: str) -> None:
    """User, root file system, capabilities, privileges, init, and the time to stop."""
    wanted, found = compose(accelerator)["services"][name], pod(name, accelerator)
    context, user = found["securityContext"], int(wanted["user"].partition(":")[0])
    assert wanted["user"] == f"{context['runAsUser']}:{context['runAsGroup']}" == f"{user}:{context['fsGroup']}"
    assert (context["runAsNonRoot"], context["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
    for container in found["containers"] + found.get("initContainers", []):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": "no-new-privileges:true" not in wanted["security_opt"],
            "readOnlyRootFilesystem": wanted["read_only"],
            "capabilities": {"drop": wanted["cap_drop"]},
        }
    assert found["shareProcessNamespace"] is wanted["init"]
    assert found["terminationGracePeriodSeconds"] == seconds(wanted["stop_grace_period"])
    assert (found["automountServiceAccountToken"], found["enableServiceLinks"]) == (False, False)
    # The API has none: Triton's start sets the stack, memlock is the node's.
    assert set(wanted.get("ulimits") or {}) <= {"memlock"}


@accelerators
@services
def test_mounts(name: str, accelerator: str) -> None:
    """Memory with its size, volumes with who may write, secrets by name."""
    wanted, found = compose(accelerator)["services"][name], pod(name, accelerator)
    volumes = {one["name"]: one for one in found["volumes"]}
    memory, disks, secrets = {}, {}, set()
    for mount in main(name, accelerator)["volumeMounts"]:
        volume = volumes[mount["name"]]
        if volume.get("emptyDir", {}).get("medium") == "Memory":
            memory[mount["mountPath"]] = size(volume["emptyDir"]["sizeLimit"])
        elif "secret" in volume:
            assert (mount["mountPath"], volume["secret"]["optional"]) == ("/run/secrets", True)
            secrets = {one["path"] for one in volume["secret"]["items"] if one["path"] == one["key"]}
        else:
            disks[mount["mountPath"]] = mount.get("readOnly", False)
    tmpfs = dict(one.split(":mode=1777,size=") for one in wanted["tmpfs"])
    shm = {"/dev/shm": int(wanted["shm_size"])} if "shm_size" in wanted else {}
    assert memory == {path: size(text) for path, text in tmpfs.items()} | shm
    kept = {one["target"]: one.get("read_only", False) for one in wanted.get("volumes", [])}
    assert disks == {path: only for path, only in kept.items() if path not in LEFT_OUT}
    # The bench's own builder needs what `models` does.
    assert secrets == {one["source"] for one in wanted.get("secrets", [])} | ({"ca"} if name == "bench" else set())
    # Whoever reads what the builder makes waits for it.
    if disks.get("/artifacts"):
        assert [one["name"] for one in found["initContainers"]] == ["models" if name == "bench" else "wait"]


@services
def test_networks(name: str) -> None:
    """The labels that the network policies go by are Compose's networks."""
    labels = of_kind("Deployment", "Job")[name]["spec"]["template"]["metadata"]["labels"]
    assert labels == {"app": name, **dict.fromkeys(compose()["services"][name]["networks"], "yes")}


def test_names_and_ports() -> None:
    """Every address in envoy.yaml is a headless Service, and no Service has a port more than that and OTHER_PORTS."""
    clusters = yaml.safe_load((ROOT / "compose/envoy/envoy.yaml").read_text())["static_resources"]["clusters"]
    text = json.dumps(clusters)
    asked = {(host, int(port)) for host, port in re.findall(r'"address": "([a-z-]+)", "port_value": (\d+)', text)}
    found = of_kind("Service")
    there = {(name, port["port"]) for name, one in found.items() for port in one["spec"]["ports"]}
    others = {(name, port) for name, ports in OTHER_PORTS.items() for port in ports}
    assert there == others | {(host, port) for host, port in asked if host in SERVICES}
    assert all(one["spec"]["selector"] == {"app": name} for name, one in found.items())
    assert {name for name, one in found.items() if one["spec"].get("clusterIP") != "None"} == {"edge"}
