"""What only the host knows about a measurement, as one line of JSON: scripts/host-facts."""

import hashlib
import json
import os
import platform
import re
from typing import Any

from scripts.host import machine
from scripts.host.machine import ask

# One object per container, with the limits that the engine enforces (0: none).
CONTAINER = (
    '{"service":{{json (index .Config.Labels "com.docker.compose.service")}},"id":{{json .Id}},"image":{{json .Image}},'
    '"nano_cpus":{{.HostConfig.NanoCpus}},"cpuset":{{json .HostConfig.CpusetCpus}},'
    '"memory_bytes":{{.HostConfig.Memory}},"pids":{{with .HostConfig.PidsLimit}}{{.}}{{else}}0{{end}}}'
)
FOREIGN = ("torchserve", "litserve", "bentoml", "mlserver", "ray-serve", "onnxruntime")
"""Services of other projects with a model."""


def hardware() -> dict[str, Any]:
    """{"cpu": model name, "cores", "memory_gib"}; null where /proc does not say."""
    cpu = re.search(r"^model name[^:]*: (.*)$", machine.read("/proc/cpuinfo"), re.M)
    memory_gib = round(machine.memory_mib() / 2**10)
    return {"cpu": cpu[1] if cpu else None, "cores": os.cpu_count(), "memory_gib": memory_gib}


def services() -> list[dict[str, Any]] | None:
    """Every running container of the stack."""
    containers = (ask("docker", "compose", "ps", "--quiet") or "").split()
    said = ask("docker", "inspect", "--format", CONTAINER, *containers) if containers else None
    return [json.loads(line) for line in said.splitlines()] if said else None


def providers() -> list[dict[str, Any]] | None:
    """Per model and execution provider, the number of graph nodes that it ran, whatever the configuration asks for."""
    said = ask("docker", "compose", "exec", "-T", "triton", "providers") or ""
    found = re.findall(r"^(\S+) +\S+ +(\S+) +(\d+)$", said, re.M)
    return [{"model": model, "provider": provider, "nodes": int(nodes)} for model, provider, nodes in found] or None


def engines() -> dict[str, Any]:
    """Service -> what computes in it, of other projects' servers that run: code of this project inside writes it down,
    and nothing outside of the container can ask."""
    said = {name: ask("docker", "compose", "exec", "-T", name, "cat", "/tmp/engine.json") for name in FOREIGN}
    return {name: json.loads(text) for name, text in said.items() if text}


def tf32_override() -> str | None:
    """NVIDIA_TF32_OVERRIDE of Triton's container, empty where it is not set. Triton does not say if it uses TF32."""
    return ask("docker", "compose", "exec", "-T", "triton", "sh", "-c", 'echo "$NVIDIA_TF32_OVERRIDE"')


def devices() -> list[dict[str, str]] | None:
    """One object per GPU."""
    said = ask("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader") or ""
    return [{"name": name, "driver": driver} for name, driver in re.findall("^(.+), (.+)$", said, re.M)] or None


def envoy_config() -> str:
    """SHA-256 over what `sha256sum ./*.yaml ./*.lua` says."""
    folder = machine.ROOT / "compose/envoy"
    files = [*sorted(folder.glob("*.yaml")), *sorted(folder.glob("*.lua"))]
    lines = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  ./{file.name}\n" for file in files)
    return hashlib.sha256(lines.encode()).hexdigest()


def facts() -> dict[str, Any]:
    """Every fact; null if it is unknown (no git, no Docker, no GPU)."""
    # A run writes below results/, which does not change what is measured.
    changes = ask("git", "status", "--porcelain", "--", ".", ":!results")
    return {
        "commit": ask("git", "rev-parse", "HEAD"),
        "dirty": None if changes is None else bool(changes),
        **hardware(),
        "kernel": platform.release(),
        "docker": ask("docker", "version", "--format", "{{.Server.Version}}") or None,
        "accelerator": machine.accelerator(),
        "envoy_config_sha256": envoy_config(),
        "services": services(),
        "providers": providers(),
        "engines": engines(),
        "tf32_override": tf32_override(),
        "devices": devices(),
    }


if __name__ == "__main__":
    print(json.dumps(facts(), separators=(",", ":")))
