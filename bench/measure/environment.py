"""What a result says about where it was measured: enough to refuse a comparison of unlike runs.

Three sources: the host (scripts/host-facts, in FIVEWAY_HOST), the running servers, and this container. A fact that
nobody can give is null: it never stops a run. With an edge elsewhere (`--target http://...`), of the servers only what
they say themselves is known; the local stack's facts are left out, since they are not those of what was measured.
"""

import hashlib
import json
import os
import platform
import re
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

from locustfiles import serving
from locustfiles.settings import direct_address, native

CLIENTS = (
    "locust",
    "gevent",
    "geventhttpclient",
    "grpcio",
    "hdrhistogram",
    "hpack",
    "hyperframe",
    "numpy",
    "protobuf",
    "tritonclient",
)
"""The libraries that a client's latency can depend on."""

OF_THE_STACK = ("accelerator", "devices", "envoy_config_sha256", "providers", "services")
"""The host's facts that describe the servers which run on it."""

OF_DOCKER = ("docker", "envoy_config_sha256", "providers", "services")
"""The host's facts about containers, which are not what is measured where the servers run without Docker."""

PATIENCE_S = 5
NODES = re.compile(r"^fiveway_(?:execution_provider_nodes|decoded_photos)\{(.*)\} ([1-9]\d*)", re.M)


def collect(options: Mapping[str, Any]) -> dict[str, Any]:
    """The `environment` of a result, see schema.json; `options["target"]` (one or several) says where the load goes."""
    host = _host()
    target = options.get("target") or "edge"
    targets = [target] if isinstance(target, str) else [str(one) for one in target]
    here = not all("://" in one for one in targets)
    if not here:
        host = {name: fact for name, fact in host.items() if name not in OF_THE_STACK}
    if native():
        host = {name: fact for name, fact in host.items() if name not in OF_DOCKER}
    return {
        "collected_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": host.get("commit"),
        "dirty": host.get("dirty"),
        "targets": targets,
        **machine(host),
        "client_limits": limits(),
        "accelerator": host.get("accelerator"),
        "device": _guarded(_device, host.get("devices")),
        "native": native(),
        "docker": host.get("docker"),
        "services": _guarded(_services, host.get("services")),
        "envoy": {
            "version": _envoy_version() if here and not native() else None,
            "config_sha256": host.get("envoy_config_sha256"),
        },
        "triton": _triton_version(f"http://{direct_address('triton:8000')}" if here else targets[0]),
        "model": _model(here),
        "providers": _guarded(_providers, host.get("providers")) or (_asked_providers() if here else None),
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in CLIENTS},
    }


def machine(host: Mapping[str, Any]) -> dict[str, Any]:
    """The machine of the load generator: the host's word first, then what this container sees of it."""
    cpu = host.get("cpu") or _first(r"^model name[^:]*: (.*)$", "/proc/cpuinfo")
    cores = host.get("cores") or os.cpu_count()
    total = _first(r"^MemTotal:\s+(\d+)", "/proc/meminfo")
    memory = host.get("memory_gib") or (round(int(total) / 2**20) if total else None)
    return {
        "machine": slug(cpu, cores, memory),
        "cpu": cpu,
        "cores": cores,
        "memory_gib": memory,
        "kernel": host.get("kernel") or platform.release(),
    }


def slug(cpu: str | None, cores: int | None, memory_gib: int | None) -> str:
    """A machine class as a folder name, as scripts/budgets makes it: AMD EPYC, 2 cores, 24 GiB -> amd-epyc-2c-24g."""
    text = f"{cpu or 'unknown'}-{cores or 0}c-{memory_gib or 0}g"
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def limits(root: Path = Path("/sys/fs/cgroup")) -> dict[str, float | int | str | None]:
    """This container's limits, in cores and bytes from cgroup v2 or v1, and its CPU set; null where there is none."""
    quota, _, period = _read(root / "cpu.max").partition(" ")
    if not quota:
        quota, period = _read(root / "cpu/cpu.cfs_quota_us"), _read(root / "cpu/cpu.cfs_period_us")
    memory = _read(root / "memory.max") or _read(root / "memory/memory.limit_in_bytes")
    return {
        "cpus": int(quota) / int(period) if quota.isdigit() and period.isdigit() else None,
        "cpuset": _cpuset(),
        # v1 writes "no limit" as the largest whole number of pages.
        "memory_bytes": int(memory) if memory.isdigit() and int(memory) < 2**62 else None,
    }


def _cpuset() -> str | None:
    """The cores that this process may use, `0,2`; null where those are all."""
    cores = os.sched_getaffinity(0)
    return None if len(cores) == os.cpu_count() else ",".join(str(core) for core in sorted(cores))


def _host() -> dict[str, Any]:
    """What scripts/host-facts printed; nothing when it was not run or was cut off."""
    return _json(os.environ.get("FIVEWAY_HOST", "")) or {}


def _guarded[T](make: Callable[[Any], T], facts: Any) -> T | None:
    """What is made of the host's facts; null when they have another form than scripts/host-facts gives them."""
    try:
        return make(facts)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _services(containers: Any) -> dict[str, dict[str, Any]] | None:
    """Service -> image id and limits of its containers; replicas are alike, so they are counted."""
    services: dict[str, dict[str, Any]] = {}
    for container in containers or ():
        known = services.setdefault(container["service"], {"replicas": 0})
        known["replicas"] += 1
        known["image"] = container["image"]
        known["cpus"] = container["nano_cpus"] / 1e9 or None
        known["cpuset"] = container.get("cpuset") or None
        known["memory_bytes"] = container["memory_bytes"] or None
        known["pids"] = container["pids"] if container["pids"] > 0 else None
    return services or None


def _device(devices: Any) -> dict[str, Any] | None:
    """The GPUs: their names, joined where they differ, and how many."""
    if not devices:
        return None
    names = " + ".join(dict.fromkeys(device["name"] for device in devices))
    return {"name": names, "driver": devices[0]["driver"], "count": len(devices)}


def _providers(rows: Any) -> dict[str, dict[str, int]] | None:
    """Model -> execution provider -> how many nodes of the graph it ran."""
    providers: dict[str, dict[str, int]] = {}
    for row in rows or ():
        providers.setdefault(row["model"], {})[row["provider"]] = int(row["nodes"])
    return providers or None


def _asked_providers() -> dict[str, dict[str, int]] | None:
    """The same from Triton's metrics, for a run without the host's facts."""
    labelled = [
        (dict(re.findall(r'(\w+)="([^"]*)"', labels)), nodes)
        for labels, nodes in NODES.findall(_get(f"http://{direct_address('triton:8002')}/metrics"))
    ]
    return _providers([label | {"nodes": nodes} for label, nodes in labelled if {"model", "provider"} <= set(label)])


def _envoy_version() -> str | None:
    """Of `<commit>/1.40.0/Clean/RELEASE/BoringSSL`, the version."""
    parts = str((_json(_get("http://edge:9901/server_info")) or {}).get("version", "")).split("/")
    return parts[1] if len(parts) > 1 else None


def _triton_version(address: str) -> str | None:
    version = (_json(_get(f"{address.rstrip('/')}/v2")) or {}).get("version")
    return str(version) if version else None


def _model(here: bool) -> dict[str, Any]:
    """From the manifest beside the artefacts, which somebody else's model repository has not: then what Triton says of
    its config. Only the name where the servers, elsewhere, have their own. Raises NothingServed.
    """
    now = serving.now()
    name = now.model
    manifest = (_json(_read(serving.artifacts() / name / "manifest.json")) if here else None) or {}
    files = manifest.get("files") or {}
    configs = [f"{file} {digest}\n" for file, digest in sorted(files.items()) if file.endswith("/config.pbtxt")]
    if here and not manifest:
        models = f"http://{direct_address('triton:8000')}/v2/models"
        configs = [_get(f"{models}/{quote(model)}/config") for model in (name, f"{name}_trt") if model in now.models]
    return {
        "name": name,
        "takes": "photos" if now.images else "tensors",
        "checksum": files.get(f"repository/{name}/1/model.onnx"),
        "config_sha256": hashlib.sha256("".join(configs).encode()).hexdigest() if any(configs) else None,
        "build_key": manifest.get("build_key"),
        "weights": manifest.get("weights"),
        "weights_source": manifest.get("weights_source"),
    }


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None


def _get(url: str) -> str:
    """The body of a page inside the network; empty when there is none."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=PATIENCE_S) as response:
            return str(response.read().decode())
    except (OSError, ValueError):
        return ""


def _json(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _first(pattern: str, path: str) -> str | None:
    found = re.search(pattern, _read(Path(path)), re.M)
    return found[1] if found else None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
