"""The environment of a run, from the host, the servers and this container; unknown facts are null."""

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.measure import environment
from bench.result import Environment
from tests.repository import ROOT
from tests.unit.tiny_artifacts import declare


def test_a_machine_has_the_name_that_budgets_gives_it() -> None:
    """The name is a folder's: no slash and no space can get into it."""
    assert environment.slug("Intel(R) Xeon(R) Processor", 2, 24) == "intel-r-xeon-r-processor-2c-24g"
    assert environment.slug(None, None, None) == "unknown-0c-0g"
    assert environment.slug("../../etc", 1, 1) == "etc-1c-1g"


def test_limits_are_read_from_both_kinds_of_cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """cgroup v2 and v1 say the same in other files; no limit is null, and so is a CPU set of all cores."""
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    files = {
        "v2/cpu.max": "150000 100000", "v2/memory.max": "1073741824", "none/cpu.max": "max 100000",
        "none/memory.max": "max", "v1/cpu/cpu.cfs_quota_us": "200000", "v1/cpu/cpu.cfs_period_us": "100000",
        "v1/memory/memory.limit_in_bytes": "9223372036854771712",
    }  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    unlimited = {"cpus": None, "cpuset": None, "memory_bytes": None}
    assert environment.limits(tmp_path / "v2") == {"cpus": 1.5, "cpuset": None, "memory_bytes": 1 << 30}
    assert environment.limits(tmp_path / "v1") == unlimited | {"cpus": 2.0}
    assert environment.limits(tmp_path / "none") == unlimited
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 1})
    assert environment.limits(tmp_path / "nowhere") == {"cpus": None, "cpuset": "1,3", "memory_bytes": None}


def container(service: str, image: str, **limits: object) -> dict[str, Any]:
    """As host-facts tells of it."""
    return {"service": service, "image": image, "nano_cpus": 0, "cpuset": "", "memory_bytes": 0, "pids": 0} | limits


HOST: dict[str, Any] = {
    "commit": "abc", "dirty": True, "cpu": "AMD EPYC", "cores": 8, "memory_gib": 32, "kernel": "6.1", "docker": "26",
    "accelerator": "gpu", "envoy_config_sha256": "dd",
    "services": [
        container("triton", "sha256:1", nano_cpus=1_500_000_000, cpuset="0", pids=512),
        *[container("locust-worker", "sha256:2", memory_bytes=1 << 30)] * 2,
    ],
    "providers": [
        {"model": "m", "provider": "TensorrtExecutionProvider", "nodes": 3},
        {"model": "m", "provider": "CUDAExecutionProvider", "nodes": 2},
    ],
    "engines": {"torchserve": {"device": "cpu", "precision": "FP32", "threads": 1}},
    "devices": [{"name": "A100", "driver": "550.54"}, {"name": "A100", "driver": "550.54"}],
}  # fmt: skip


A100 = {"name": "A100", "driver": "550.54", "count": 2}
MANIFEST = {
    "weights": "random", "weights_source": "seed", "build_key": "k",
    "files": {"repository/m/1/model.onnx": "ff", "repository/m/config.pbtxt": "01"},
}  # fmt: skip
PAGES = {
    "http://edge:9901/server_info": '{"version": "9e55/1.40.0/Clean/RELEASE/BoringSSL"}',
    "http://triton:8000/v2": '{"name": "triton", "version": "2.51.0"}',
    "http://127.0.0.1:18000/v2": '{"version": "2.50.0"}',
    "http://127.0.0.1:18002/metrics":
        'fiveway_execution_provider_nodes{model="m",provider="CUDAExecutionProvider",version="1"} 57\n'
        'fiveway_decoded_photos{model="m_preprocess",provider="DALI",version="1"} 16\n'
        'fiveway_decoded_photos{model="m_preprocess",provider="Pillow",version="1"} 0\n',
    "http://triton:8002/metrics": 'fiveway_compute_threads{model="m",version="1"} 2\n',
    "http://triton:8000/v2/models/m/config": '{"instance_group": [{"count": 1, "kind": "KIND_CPU"}]}',
    "http://jpeg-http:8000/served": '{"photos": {"device": "cpu", "precision": "FP32", "threads": 2, "labels": []}}',
}  # fmt: skip


Collect = Callable[..., dict[str, Any]]


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Collect:
    """What collect() says of a built model `m`, which fits into a result whatever it is."""
    declare(tmp_path, "m")
    (tmp_path / "m").mkdir()
    (tmp_path / "m/manifest.json").write_text(json.dumps(MANIFEST))
    monkeypatch.setenv("ARTIFACTS", str(tmp_path))

    def collect(*targets: str, host: Mapping[str, Any] = HOST, pages: Mapping[str, str] = PAGES) -> dict[str, Any]:
        monkeypatch.setattr(environment, "_get", lambda url: pages.get(url, ""))
        monkeypatch.setenv("FIVEWAY_HOST", json.dumps(host))
        found = environment.collect(targets)
        msgspec.convert(found, Environment)
        return found

    return collect


def test_missing_facts_are_null(collected: Collect, tmp_path: Path) -> None:
    """Silence of the host, the servers and the artefacts does not stop a run."""
    (tmp_path / "m/manifest.json").unlink()
    found = collected("edge", host={"commit": None}, pages={})
    for name in ("commit", "services", "providers", "device", "triton"):
        assert found[name] is None
    assert found["engines"] == {}
    assert {value for name, value in found["model"].items() if name not in ("name", "takes")} == {None}
    assert found["cores"]


def test_traces_are_on_where_something_sends_them(collected: Collect, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the edge here, which counts what it sends only with them; without Docker by the setting of the servers."""
    on = PAGES | {"http://edge:9901/stats?filter=^tracing.opentelemetry": "tracing.opentelemetry.spans_sent: 0\n"}
    assert [collected("edge", pages=pages)["traces"] for pages in (PAGES, on)] == [False, True]
    assert not collected("https://elsewhere", pages=on)["traces"]
    monkeypatch.setenv("DIRECT_ADDRESSES", "triton:8000=127.0.0.1:18000")
    assert not collected("direct", pages=on)["traces"]
    monkeypatch.setenv("OTLP_ENDPOINT", "http://127.0.0.1:4318")
    assert collected("direct", pages={})["traces"]


def test_every_source_ends_up_in_its_field(collected: Collect) -> None:
    """The host, the servers and the artefacts."""
    found = collected("edge", "direct")
    assert found["targets"] == ["edge", "direct"]
    assert (found["machine"], found["triton"]) == ("amd-epyc-8c-32g", "2.51.0")
    assert found["envoy"] == {"version": "1.40.0", "config_sha256": "dd"}
    assert found["device"] == A100
    assert found["providers"] == {"m": {"TensorrtExecutionProvider": 3, "CUDAExecutionProvider": 2}}
    assert found["services"]["triton"] == {
        "replicas": 1, "image": "sha256:1", "cpus": 1.5, "cpuset": "0", "memory_bytes": None, "pids": 512,
    }  # fmt: skip
    assert found["services"]["locust-worker"]["replicas"] == 2
    assert len(found["model"].pop("config_sha256")) == 64
    built = {name: MANIFEST[name] for name in ("weights", "weights_source", "build_key")}
    assert found["model"] == {"name": "m", "takes": "photos", "checksum": "ff"} | built
    assert found["versions"]["locust"]
    onnx = {"library": "ONNX Runtime", "device": "cpu", "precision": "FP32", "threads": 2, "instances": 1}
    torch = onnx | {"library": "PyTorch"}
    assert found["engines"] == {"onnx": onnx, "jpeg-http": torch, "torchserve": torch | {"threads": 1}}


TENSORRT = {"name": "tensorrt", "parameters": {"precision_mode": "FP32"}}


@pytest.mark.parametrize(
    ("accelerators", "graph", "override", "library", "precision"),
    [
        ([], "", "", "ONNX Runtime", "FP32 with TF32"),
        ([], "", None, "ONNX Runtime", "FP32 with TF32"),
        ([], "", "0", "ONNX Runtime", "FP32"),
        ([TENSORRT], "", "", "ONNX Runtime with tensorrt", "FP32 with TF32"),
        ([TENSORRT], "", "0", "ONNX Runtime with tensorrt", "FP32"),
        ([TENSORRT | {"parameters": {"precision_mode": "FP16"}}], "", "0", "ONNX Runtime with tensorrt", "FP16"),
        ([], "FP16", "", "ONNX Runtime", "FP16"),
    ],
)
def test_a_gpu_computes_in_what_its_graph_and_nvidias_libraries_say(
    accelerators: list[dict[str, Any]],
    graph: str,
    override: str | None,
    library: str,
    precision: str,
    collected: Collect,
) -> None:
    """TF32 is their default, which the variable of Triton's container may forbid. Threads of the CPU say nothing
    there."""
    about: dict[str, Any] = {"instance_group": [{"count": 2, "kind": "KIND_GPU"}]}
    about["optimization"] = {"execution_accelerators": {"gpu_execution_accelerator": accelerators}}
    about["parameters"] = {"precision": {"string_value": graph}} if graph else {}
    pages = PAGES | {"http://triton:8000/v2/models/m/config": json.dumps(about)}
    found = collected("edge", host=HOST | {"tf32_override": override}, pages=pages)["engines"]["onnx"]
    said = {"library": library, "device": "cuda", "precision": precision, "threads": None, "instances": 2}
    assert found == said


ANYWHERE: dict[str, Any] = {
    "services": None, "envoy": {"version": None, "config_sha256": None}, "machine": "amd-epyc-8c-32g", "commit": "abc",
}  # fmt: skip
"""None of our containers was measured; the client's machine is still ours."""


def test_without_docker_triton_says_what_ran_the_models(collected: Collect, monkeypatch: pytest.MonkeyPatch) -> None:
    """No container beside it is named."""
    monkeypatch.setenv("DIRECT_ADDRESSES", "triton:8000=127.0.0.1:18000 triton:8002=127.0.0.1:18002")
    found = collected("direct")
    wanted = ANYWHERE | {"native": True, "docker": None, "triton": "2.50.0", "device": A100}
    wanted |= {"providers": {"m": {"CUDAExecutionProvider": 57}, "m_preprocess": {"DALI": 16}}}
    assert {name: found[name] for name in wanted} == wanted


def test_nothing_local_passes_for_an_edge_elsewhere(collected: Collect) -> None:
    """What was measured there cannot be known here."""
    found = collected("http://10.0.0.7:8080")
    wanted = ANYWHERE | dict.fromkeys(["accelerator", "device", "providers", "triton"])
    assert {name: found[name] for name in wanted} == wanted


def host_facts(tmp_path: Path, **programs: str) -> dict[str, Any]:
    """What scripts/host-facts prints where git, docker and nvidia-smi are these shell lines."""
    for name in ("git", "docker", "nvidia-smi"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{programs.get(name.replace('-', '_'), 'exit 1')}\n")
        program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    about = {"PATH": path, "ACCELERATOR": "cpu"}
    done = subprocess.run([ROOT / "scripts/host-facts"], env=about, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def test_host_facts_are_null_where_nothing_can_be_asked(tmp_path: Path) -> None:
    """No git, no Docker, no GPU: still one line of JSON and exit status 0."""
    facts = host_facts(tmp_path)
    for name in ("commit", "dirty", "docker", "services", "providers", "devices"):
        assert facts[name] is None
    assert facts["cores"] >= 1
    assert len(facts["envoy_config_sha256"]) == 64


def test_host_facts_are_what_git_docker_and_nvidia_smi_say(tmp_path: Path) -> None:
    """Services with image and limits, providers per model, devices with driver; a quote in an answer stays JSON."""
    running = '{"service":"triton","image":"sha256:1","nano_cpus":2000000000,"memory_bytes":1,"pids":2}'
    facts = host_facts(
        tmp_path,
        git='case "$1" in rev-parse) echo abc ;; status) echo " M x" ;; esac',
        docker=f"""case "$*" in
*"ps --quiet") echo c1 ;;
inspect*c1) echo '{running}' ;;
*"triton sh -c"*) echo 0 ;;
*"triton providers") printf 'MODEL VERSION PROVIDER NODES\\nm 1 CPUExecutionProvider 57\\n' ;;
version*) printf '%s' 'a "b" \\c' ;;
esac""",
        nvidia_smi="echo 'NVIDIA A100-SXM4-80GB, 550.54.15'",
    )
    told = [facts[name] for name in ("commit", "dirty", "docker", "accelerator")]
    assert told == ["abc", True, 'a "b" \\c', "cpu"]
    assert facts["services"] == [json.loads(running)]
    assert facts["providers"] == [{"model": "m", "provider": "CPUExecutionProvider", "nodes": 57}]
    assert facts["devices"] == [{"name": "NVIDIA A100-SXM4-80GB", "driver": "550.54.15"}]
    assert facts["tf32_override"] == "0"
