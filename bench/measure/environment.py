"""The environment in which a result was measured, complete enough to refuse a comparison of unlike runs.

Three sources: the host (scripts/host-facts, in FIVEWAY_HOST), the running servers, and this container. An unknown fact
is null, and never stops a run. With an edge elsewhere (`--target http://...`) only the servers' own facts are recorded,
because the local stack is not what was measured.
"""

import hashlib
import json
import os
import platform
import re
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bench.measure.measured import now
from locustfiles import serving
from locustfiles.clients import CallError
from locustfiles.settings import direct_address, edge_address, native

CLIENTS = (
    "locust", "gevent", "geventhttpclient", "grpcio", "hdrhistogram", "hpack", "hyperframe", "numpy", "protobuf",
    "tritonclient",
)  # fmt: skip
"""The libraries that a client's latency can depend on."""

OF_THE_STACK = (
    "accelerator", "devices", "engines", "envoy_config_sha256", "providers", "services", "tf32_override",
)  # fmt: skip
"""The host's facts that describe the servers which run on it."""

OF_DOCKER = ("docker", "engines", "envoy_config_sha256", "providers", "services", "tf32_override")
"""The host's facts about containers, left out if the servers run without Docker."""

PATIENCE_S = 5
THREADS = re.compile(r"^fiveway_compute_threads\{(.*)\} (\d+)", re.M)
NODES = re.compile(r"^fiveway_(?:execution_provider_nodes|decoded_photos)\{(.*)\} ([1-9]\d*)", re.M)


def collect(targets: Sequence[str]) -> dict[str, Any]:
    """The `environment` of a result (bench/result.py); `targets` say where the load goes. Raises NothingServed."""
    here = not all("://" in one for one in targets)
    hidden = [*(() if here else OF_THE_STACK), *(OF_DOCKER if native() else ())]
    # Empty where scripts/host-facts was not run.
    facts = json.loads(os.environ.get("FIVEWAY_HOST") or "{}")
    host = {name: fact for name, fact in facts.items() if name not in hidden}
    return {
        "collected_at": now(),
        **{name: host.get(name) for name in ("commit", "dirty", "accelerator", "docker")},
        "targets": list(targets),
        **machine(host),
        "client_limits": limits(),
        "device": _device(host.get("devices")),
        "native": native(),
        "services": _services(host.get("services")),
        "envoy": {
            "version": _envoy_version() if here and not native() else None,
            "config_sha256": host.get("envoy_config_sha256"),
        },
        "traces": _traced(here),
        "triton": _json(_get(f"{_triton(8000)}/v2")).get("version") if here else _version_at(targets[0]),
        "model": _model(here),
        "providers": _providers(host.get("providers") or (_asked_providers() if here else [])),
        "engines": _engines(host) if here else None,
        "versions": {"python": platform.python_version()} | {name: metadata.version(name) for name in CLIENTS},
    }


def machine(host: Mapping[str, Any]) -> dict[str, Any]:
    """The machine of the load generator: as the host says, else as this container sees it."""
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
    cores = os.sched_getaffinity(0)
    memory = _read(root / "memory.max") or _read(root / "memory/memory.limit_in_bytes")
    return {
        "cpus": int(quota) / int(period) if quota.isdigit() and period.isdigit() else None,
        "cpuset": None if len(cores) == os.cpu_count() else ",".join(map(str, sorted(cores))),
        # v1 writes "no limit" as the largest whole number of pages.
        "memory_bytes": int(memory) if memory.isdigit() and int(memory) < 2**62 else None,
    }


def _services(containers: Iterable[Mapping[str, Any]] | None) -> dict[str, dict[str, Any]] | None:
    """Service -> image id and limits of its containers; replicas are alike, so they are counted."""
    services: dict[str, dict[str, Any]] = {}
    for container in containers or ():
        about = {
            "image": container["image"],
            "cpus": container["nano_cpus"] / 1e9 or None,
            "cpuset": container["cpuset"] or None,
            "memory_bytes": container["memory_bytes"] or None,
            "pids": container["pids"] if container["pids"] > 0 else None,
        }
        services.setdefault(container["service"], {"replicas": 0, **about})["replicas"] += 1
    return services or None


def _device(devices: Sequence[Mapping[str, str]] | None) -> dict[str, Any] | None:
    """The GPUs: their names, joined where they differ, and how many."""
    if not devices:
        return None
    names = " + ".join(dict.fromkeys(device["name"] for device in devices))
    return {"name": names, "driver": devices[0]["driver"], "count": len(devices)}


def _providers(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]] | None:
    """Model -> execution provider -> how many nodes of the graph it ran."""
    providers: dict[str, dict[str, int]] = {}
    for row in rows:
        providers.setdefault(row["model"], {})[row["provider"]] = int(row["nodes"])
    return providers or None


def _asked_providers() -> list[dict[str, str]]:
    """The rows of host-facts from Triton's metrics, for a run without them."""
    lines = NODES.findall(_get(f"{_triton(8002)}/metrics"))
    labelled = [dict(re.findall(r'(\w+)="([^"]*)"', labels)) | {"nodes": nodes} for labels, nodes in lines]
    return [row for row in labelled if {"model", "provider"} <= row.keys()]


def _engines(host: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Engine (Route.engine) -> what computes there, of those that say so."""
    served = serving.now()
    override = os.environ.get("NVIDIA_TF32_OVERRIDE") if native() else host.get("tf32_override")
    torch = {"library": "PyTorch", "instances": 1}
    said = _json(_get(f"http://{direct_address('jpeg-http:8000')}/served")).get("photos") or {}
    found = {name: said[name] for name in ("device", "precision", "threads") if name in said}
    engines = {"jpeg-http": found and torch | found}
    engines |= {name: torch | dict(about) for name, about in (host.get("engines") or {}).items()}
    for engine, suffix in (("onnx", ""), ("trt", "_trt")):
        if f"{served.model}{suffix}" in served.models:
            engines[engine] = _triton_engine(f"{served.model}{suffix}", tf32=override != "0")
    return {name: about for name, about in engines.items() if about}


def _triton_engine(model: str, *, tf32: bool) -> dict[str, Any]:
    """What computes a model in Triton: by its configuration, and by the threads that our backend exports. {} if Triton
    has no such model. `tf32`: NVIDIA's libraries may use TF32. The CUDA provider and TensorRT then do."""
    config = _json(_get(f"{_triton(8000)}/v2/models/{quote(model)}/config"))
    if not (groups := config.get("instance_group")):
        return {}
    device = "cuda" if groups[0]["kind"] == "KIND_GPU" else "cpu"
    kind = "gpu" if device == "cuda" else "cpu"
    accelerators = config.get("optimization", {}).get("execution_accelerators", {}).get(f"{kind}_execution_accelerator")
    modes = [one.get("parameters", {}).get("precision_mode", "FP32") for one in accelerators or ()]
    modes.append(config.get("parameters", {}).get("precision", {}).get("string_value"))  # of the graph
    precision = "FP16" if "FP16" in modes else "FP32 with TF32" if device == "cuda" and tf32 else "FP32"
    gauges = THREADS.findall(_get(f"{_triton(8002)}/metrics")) if device == "cpu" else ()
    threads = {dict(re.findall(r'(\w+)="([^"]*)"', labels)).get("model"): int(count) for labels, count in gauges}
    return {
        "library": " with ".join(["ONNX Runtime", *(one["name"] for one in accelerators or ())]),
        "device": device,
        "precision": precision,
        "threads": threads.get(model),
        "instances": sum(group["count"] for group in groups),
    }


def _triton(port: int) -> str:
    return f"http://{direct_address(f'triton:{port}')}"


def _envoy_version() -> str | None:
    """Of `<commit>/1.40.0/Clean/RELEASE/BoringSSL`, the version."""
    parts = str(_json(_get("http://edge:9901/server_info")).get("version", "")).split("/")
    return parts[1] if len(parts) > 1 else None


def _traced(here: bool) -> bool:
    """Whether requests make spans: without Docker by the servers' setting, which is ours; else Envoy has the sender's
    counts."""
    if native():
        return bool(os.environ.get("OTLP_ENDPOINT"))
    return here and bool(_get("http://edge:9901/stats?filter=^tracing.opentelemetry").strip())


def _model(here: bool) -> dict[str, Any]:
    """Read from the manifest beside the artefacts. A user's own model repository has none: then from Triton's
    configuration of the model. For servers elsewhere only the name is known. Raises NothingServed.
    """
    served = serving.now()
    name = served.model
    manifest = _json(_read(serving.artifacts() / name / "manifest.json")) if here else {}
    files = manifest.get("files") or {}
    configs = [f"{file} {digest}\n" for file, digest in sorted(files.items()) if file.endswith("/config.pbtxt")]
    if here and not manifest:
        asked = [model for model in (name, f"{name}_trt") if model in served.models]
        configs = [_get(f"{_triton(8000)}/v2/models/{quote(model)}/config") for model in asked]
    return {
        "name": name,
        "takes": "photos" if served.images else "tensors",
        "checksum": files.get(f"repository/{name}/1/model.onnx"),
        "config_sha256": hashlib.sha256("".join(configs).encode()).hexdigest() if any(configs) else None,
        **{fact: manifest.get(fact) for fact in ("build_key", "weights", "weights_source")},
    }


def _get(url: str) -> str:
    """The body of a page inside the network; empty when there is none."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=PATIENCE_S) as response:
            return str(response.read().decode())
    except (OSError, ValueError):
        return ""


def _version_at(edge: str) -> str | None:
    """Triton's version behind an edge elsewhere."""
    try:
        return str(serving.get_json(edge_address(edge), "/v2")["version"])
    except (CallError, ValueError, LookupError):
        return None


def _json(text: str) -> dict[str, Any]:
    """The JSON object in a text; an empty one if the text holds no object."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _first(pattern: str, path: str) -> str | None:
    found = re.search(pattern, _read(Path(path)), re.M)
    return found[1] if found else None


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
