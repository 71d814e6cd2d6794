"""What a run leaves behind: files that are whole or not there, a schema that refuses, facts about where it was made."""

import copy
import csv
import errno
import functools
import io
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from bench.analysis.analysis import analyse
from bench.measure import environment
from bench.measure.measured import Run, from_json
from bench.report import plots, results
from bench.report.results import ResultError
from tests.repository import ROOT
from tests.unit.bench_runs import change, synthetic_run
from tests.unit.tiny_artifacts import declare

SERVICE = {"replicas": 1, "image": "sha256:0123", "cpus": 2.0, "memory_bytes": 3 << 30, "pids": 512}
ENVIRONMENT: dict[str, Any] = {
    "collected_at": "2026-01-02T03:04:05+00:00",
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "dirty": False,
    "targets": ["edge"],
    "machine": "synthetic-cpu-2c-24g",
    "cpu": "Synthetic CPU",
    "cores": 2,
    "memory_gib": 24,
    "kernel": "6.1.0",
    "client_limits": {"cpus": 2.0, "memory_bytes": 1 << 30},
    "accelerator": "cpu",
    "device": None,
    "docker": "26.1.5",
    "services": {"edge": SERVICE, "triton": SERVICE},
    "envoy": {"version": "1.40.0", "config_sha256": "aa" * 32},
    "triton": "2.51.0",
    "model": {
        "name": "efficientnet_lite0", "checksum": "bb" * 32, "config_sha256": "dd" * 32,
        "build_key": "cc" * 32, "weights": "real",
        "weights_source": "a wheel",
    },
    "providers": {
        "efficientnet_lite0": {"CPUExecutionProvider": 57}, "efficientnet_lite0_trt": {"OpenVINOExecutionProvider": 1},
    },
    "versions": {"python": "3.13.5", "locust": "2.47.0", "grpcio": "1.85.1"},
}  # fmt: skip
FILES = {"result.json", "cells.csv", "report.md", "report.html"}


def made(**options: Any) -> Run:
    """A synthetic run with an environment as collect() gives it; few calls, so that many can be made."""
    defaults: dict[str, Any] = {"calls": 40, "batches": (1, 8), "users": (1, 8)}
    run = synthetic_run(**defaults | options)
    run.environment = copy.deepcopy(ENVIRONMENT)
    return run


@functools.cache
def _text() -> str:
    run = made()
    return json.dumps(run.as_json() | {"analysis": analyse(run)})


def result(**options: Any) -> dict[str, Any]:
    """A whole result, free to be changed."""
    if not options:
        return dict(json.loads(_text()))
    run = made(**options)
    return dict(json.loads(json.dumps(run.as_json() | {"analysis": analyse(run)})))


def edited(path: str, value: object) -> dict[str, Any]:
    """A result with one place changed, like `cells/0/batch`; the value `...` removes it."""
    changed = result()
    *way, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    place: Any = changed
    for part in way:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return changed


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time of a write: where the plots do not matter they are empty."""
    monkeypatch.setattr(plots, "_svg", lambda *_: "<svg></svg>")


def test_the_schema_is_a_schema() -> None:
    """schema.json follows its own meta-schema, so a slip in it cannot let everything pass."""
    text = (ROOT / "bench/report/schema.json").read_text()
    jsonschema.Draft202012Validator.check_schema(json.loads(text))


def test_what_was_written_can_be_loaded(tmp_path: Path) -> None:
    """The run that load() gives back, from the folder or the file, is the one that write() got."""
    run = made()
    folder = tmp_path / "2026-01-02" / "synthetic"
    results.write(folder, run, analyse(run))
    assert {path.name for path in folder.iterdir()} == FILES
    for path in (folder, folder / "result.json"):
        loaded = results.load(path)
        assert from_json(loaded) == run
        assert loaded["analysis"]["cells"]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    "options",
    [
        {"blocks": 1, "method": "published", "policy": "published"},
        {"study": "aa", "names": {"A": "onnx-http", "B": "onnx-http"}},
        {"names": ["jpeg-http"], "batches": (1,), "users": ()},
        {"rate": 50.0, "users": ()},
        {"calls": 0, "batches": (1,), "users": ()},
        {"target": "http://10.0.0.7:8080"},
    ],
    ids=["published", "aa", "one-cell", "open-loop", "nothing-measured", "elsewhere"],
)
def test_every_kind_of_run_can_be_kept(tmp_path: Path, options: dict[str, Any]) -> None:
    """A study, a method or a run that measured little follows the schema too, and has all four files."""
    run = made(**options)
    results.write(tmp_path, run, analyse(run))
    assert {path.name for path in tmp_path.iterdir()} == FILES
    results.load(tmp_path)


@pytest.mark.usefixtures("undrawn")
def test_an_interrupted_run_can_be_kept(tmp_path: Path) -> None:
    """Cells that were never visited, and visits that measured nothing, are part of the result."""
    run = made(blocks=2)
    run.ended = "interrupted (Ctrl-C)"
    run.cells = [(cell, visits if number < 4 else []) for number, (cell, visits) in enumerate(run.cells)]
    run.cells[0][1][0].problem = "the route did not answer"
    results.write(tmp_path, run, analyse(run))
    assert results.load(tmp_path)["ended"] == "interrupted (Ctrl-C)"
    assert "the route did not answer" in (tmp_path / "report.md").read_text()


@pytest.mark.usefixtures("undrawn")
def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is one line that says what to do; the older files are the same, and no half file is left over."""
    run = made()
    results.write(tmp_path, run, analyse(run))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    run.ended = "a later save"
    with pytest.raises(
        ResultError, match=r"result\.json cannot be written \(No space left on device\): make room"
    ) as caught:
        results.write(tmp_path, run, analyse(run))
    assert "\n" not in str(caught.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    """A file where the folder should be is named."""
    (tmp_path / "taken").write_text("")
    run = made(batches=(1,), users=())
    with pytest.raises(ResultError, match="taken"):
        results.write(tmp_path / "taken" / "run", run, analyse(run))


def test_what_was_measured_is_kept_even_when_no_report_can_be_made(tmp_path: Path) -> None:
    """result.json comes first: an analysis that lacks a field costs the views only."""
    run = made(batches=(1,), users=())
    analysis = analyse(run)
    del analysis["cells"][0]["split"]
    with pytest.raises(ResultError, match="is written, but no report can be made of it"):
        results.write(tmp_path, run, analysis)
    assert {path.name for path in tmp_path.iterdir()} == {"result.json"}


@pytest.mark.usefixtures("undrawn")
def test_numbers_that_are_not_finite_become_null(tmp_path: Path) -> None:
    """JSON has no infinity: a reader in another language must not stumble."""
    run = made(batches=(1,), users=())
    analysis = analyse(run)
    analysis["cells"][0]["calls_per_execution"] = float("inf")
    analysis["cells"][0]["connections"] = float("nan")
    results.write(tmp_path, run, analysis)
    cell = results.load(tmp_path)["analysis"]["cells"][0]
    assert cell["calls_per_execution"] is None
    assert cell["connections"] is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "names no schema"),
        ("{}", "names no schema"),
        ('{"schema": 0}', "schema 0, this version reads 1"),
        (
            '{"schema": 2, "environment": {"commit": "abc"}}',
            "schema 2, this version reads 1: use the version at commit abc",
        ),
        ('{"schema": 2, "environment": "text"}', "schema 2, this version reads 1"),
        ('{"schema": 1, "kind": "budgets"}', "not a result of schema 1"),
        ("\x00\xff", "is not JSON"),
    ],
)
def test_a_file_that_is_no_result_is_refused_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    """Damaged, older, newer or something else: the line names the file and what is wrong."""
    file = tmp_path / "result.json"
    file.write_text(content)
    with pytest.raises(ResultError, match=message) as caught:
        results.load(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """A binary file is not JSON."""
    (tmp_path / "result.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ResultError, match="is not JSON"):
        results.load(tmp_path)


def test_a_missing_result_says_what_to_give(tmp_path: Path) -> None:
    """A folder without result.json and a path that is nowhere are told apart from a broken file."""
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ResultError, match="is absent: give the folder of a run"):
            results.load(path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("analysis/cells/0/p50_ms", ...),
        ("analysis/cells/0/p50_ms", 8.4),
        ("analysis/ratios/0/verdict", "better"),
        ("analysis/hypotheses", ...),
        ("analysis", ...),
        ("environment/commit", ...),
        ("environment/surprise", 1),
        ("environment/model/weights", "maybe"),
        ("cells/0/batch", "1"),
        ("cells/0/policy", "warm"),
        ("cells/0/visits/0/requests", -1),
        ("cells/0/visits/0/latency", ...),
        ("parity/jpeg-http/agrees", "yes"),
        ("surprise", 1),
    ],
)
def test_the_schema_is_strict(path: str, value: object) -> None:
    """A field that is absent, unknown or of another type is refused, and its place is named."""
    with pytest.raises(ResultError, match="not a result of schema 1: ") as caught:
        results.check(edited(path, value))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("path", ["analysis/cells/0/id", "analysis/ratios/0/a"])
def test_an_analysis_of_other_cells_is_refused(path: str) -> None:
    """The analysis must speak of the cells that the result has."""
    with pytest.raises(ResultError, match="analyse it again"):
        results.check(edited(path, "nowhere/b1/c1/pooled/edge/224x224"))


def test_cells_csv_has_a_row_per_cell_and_its_numbers() -> None:
    """Intervals are three columns, the parts of the split one each, marks are words."""
    made_result = result()
    made_result["analysis"]["cells"][0] |= {"marks": ["busy", "few"], "split": {"compute": 1.5, "client encode": 0.25}}
    rows = list(csv.DictReader(io.StringIO(results.cells_csv(made_result))))
    assert [row["id"] for row in rows] == [cell["id"] for cell in made_result["cells"]]
    p50 = made_result["analysis"]["cells"][0]["p50_ms"]
    for name in ("value", "low", "high"):
        assert float(rows[0]["p50_ms" if name == "value" else f"p50_ms_{name}"]) == pytest.approx(p50[name], rel=1e-5)
    assert rows[0]["split_compute_ms"] == "1.5"
    assert rows[0]["split_client_encode_ms"] == "0.25"
    assert rows[0]["marks"] == "busy; few"
    assert rows[0]["p99_ms"] == ""


def test_the_readme_table_has_the_numbers_and_their_origin() -> None:
    """Every route, batch and number of callers, with machine, model, weights, providers, date and path."""
    made_result = result()
    text = results.table(made_result, "results/2026-01-02/synthetic-cpu-2c-24g/fiveway-030405")
    for word in (
        "2026-01-02", "synthetic-cpu-2c-24g", "no GPU", "efficientnet_lite0 with real weights", "CPUExecutionProvider",
        "OpenVINOExecutionProvider", "95 %", "fiveway-030405", "batch 8", "8 callers",
    ):  # fmt: skip
        assert word in text
    cell = made_result["analysis"]["cells"][0]
    assert f"| jpeg-http | {results.bracketed(cell['p50_ms'])} |" in text
    # A route in backticks at the start of a row would be a row of the README's route table.
    assert "| `" not in text


def test_a_marked_cell_is_marked_in_the_readme() -> None:
    """A number on which no verdict may rest does not look like the others."""
    run = change(made(), lambda cell: cell.name == "trt-grpc", lambda visit: setattr(visit, "client_cpu", 0.9))
    marked = json.loads(json.dumps(run.as_json() | {"analysis": analyse(run)}))
    lines = results.table(marked).splitlines()
    assert all("†" in line for line in lines if line.startswith("| trt-grpc"))
    assert not any("†" in line for line in lines if line.startswith("| onnx-http"))


def test_the_readme_is_updated_between_its_markers() -> None:
    """What is around the markers stays, what was between them goes, and doing it twice changes nothing."""
    readme = f"before\n\n{results.BEGIN}\nold\n{results.END}\n\nafter\n"
    once = results.update_readme(readme, result())
    assert once.startswith(f"before\n\n{results.BEGIN}\nMeasured 2026-01-02")
    assert once.endswith(f"\n{results.END}\n\nafter\n")
    assert "old" not in once
    assert results.update_readme(once, result()) == once


@pytest.mark.parametrize(
    "readme",
    ["", results.BEGIN, f"{results.END}\n{results.BEGIN}", f"{results.BEGIN}\n{results.END}" * 2],
    ids=["none", "half", "reversed", "twice"],
)
def test_a_readme_without_its_markers_is_refused(readme: str) -> None:
    """Nothing is written into a README at a guess."""
    with pytest.raises(ResultError, match="needs one line"):
        results.update_readme(readme, result())


@pytest.mark.parametrize(
    ("value", "text"),
    [(8.4, "8.40"), (59.24, "59.2"), (1974.2, "1,974"), (0.0123, "0.0123"), (999.7, "1,000"), (0, "0"), (None, "–")],
)
def test_numbers_have_three_digits(value: float | None, text: str) -> None:
    """More would be noise, fewer would hide differences."""
    assert results.digits(value) == text


@pytest.mark.parametrize(
    ("cpu", "cores", "memory", "name"),
    [
        ("AMD EPYC", 2, 24, "amd-epyc-2c-24g"),
        ("Intel(R) Xeon(R) Processor", 2, 24, "intel-r-xeon-r-processor-2c-24g"),
        (None, None, None, "unknown-0c-0g"),
        ("../../etc", 1, 1, "etc-1c-1g"),
    ],
)
def test_a_machine_has_the_name_that_budgets_gives_it(cpu: str | None, cores: int, memory: int, name: str) -> None:
    """The name is a folder's: no slash and no space can get into it."""
    assert environment.slug(cpu, cores, memory) == name


def test_limits_are_read_from_both_kinds_of_cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """cgroup v2 and v1 say the same in other files; no limit is null, and so is a CPU set of all cores."""
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    v2, v1, none = tmp_path / "v2", tmp_path / "v1", tmp_path / "none"
    for folder in (v2, v1 / "cpu", v1 / "memory", none):
        folder.mkdir(parents=True)
    (v2 / "cpu.max").write_text("150000 100000\n")
    (v2 / "memory.max").write_text("1073741824\n")
    (v1 / "cpu/cpu.cfs_quota_us").write_text("200000\n")
    (v1 / "cpu/cpu.cfs_period_us").write_text("100000\n")
    (v1 / "memory/memory.limit_in_bytes").write_text("9223372036854771712\n")
    (none / "cpu.max").write_text("max 100000\n")
    (none / "memory.max").write_text("max\n")
    assert environment.limits(v2) == {"cpus": 1.5, "cpuset": None, "memory_bytes": 1 << 30}
    assert environment.limits(v1) == {"cpus": 2.0, "cpuset": None, "memory_bytes": None}
    assert environment.limits(none) == {"cpus": None, "cpuset": None, "memory_bytes": None}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 1})
    assert environment.limits(tmp_path / "nowhere") == {"cpus": None, "cpuset": "1,3", "memory_bytes": None}


def follows_the_schema(found: dict[str, Any]) -> None:
    """Whatever collect() gives fits into a result."""
    results.check(result() | {"environment": found})


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No server answers, no artefacts, no word from the host."""
    monkeypatch.setattr(environment, "_get", lambda url: "")
    declare(tmp_path)
    monkeypatch.setenv("ARTIFACTS", str(tmp_path))
    monkeypatch.delenv("FIVEWAY_HOST", raising=False)


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize(
    "host", ["", "{", "[]", '{"services": 7, "providers": [{}], "devices": "x"}', '{"commit": null}']
)
def test_missing_facts_are_null(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    """Neither silence nor nonsense from the host stops a run."""
    monkeypatch.setenv("FIVEWAY_HOST", host)
    found = environment.collect({})
    follows_the_schema(found)
    for name in ("commit", "services", "providers", "device", "triton"):
        assert found[name] is None
    assert found["model"] == {
        "name": "tiny", "takes": "photos", "checksum": None, "config_sha256": None,
        "build_key": None, "weights": None, "weights_source": None,
    }  # fmt: skip
    assert found["cores"]


HOST: dict[str, Any] = {
    "commit": "abc", "dirty": True, "cpu": "AMD EPYC", "cores": 8, "memory_gib": 32, "kernel": "6.1", "docker": "26",
    "accelerator": "gpu", "envoy_config_sha256": "dd",
    "services": [
        {
            "service": "triton", "image": "sha256:1", "nano_cpus": 1_500_000_000, "cpuset": "0", "memory_bytes": 0,
            "pids": 512,
        },
        {"service": "locust-worker", "image": "sha256:2", "nano_cpus": 0, "memory_bytes": 1 << 30, "pids": 0},
        {"service": "locust-worker", "image": "sha256:2", "nano_cpus": 0, "memory_bytes": 1 << 30, "pids": 0},
    ],
    "providers": [
        {"model": "m", "provider": "TensorrtExecutionProvider", "nodes": 3},
        {"model": "m", "provider": "CUDAExecutionProvider", "nodes": 2},
    ],
    "devices": [{"name": "A100", "driver": "550.54"}, {"name": "A100", "driver": "550.54"}],
}  # fmt: skip


@pytest.mark.usefixtures("silent")
def test_without_docker_the_servers_are_asked_and_no_container_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stack that runs beside it is not what was measured: what really ran the models is Triton's own word."""
    pages = {
        "http://127.0.0.1:18000/v2": '{"version": "2.51.0"}',
        "http://127.0.0.1:18000/v2/models/tiny/config": "{}",
        "http://127.0.0.1:18000/v2/models/tiny_trt/config": "{}",
        "http://127.0.0.1:18002/metrics":
            'fiveway_execution_provider_nodes{model="m",provider="CUDAExecutionProvider",version="1"} 57\n'
            'fiveway_decoded_photos{model="m_preprocess",provider="DALI",version="1"} 16\n'
            'fiveway_decoded_photos{model="m_preprocess",provider="Pillow",version="1"} 0\n',
    }  # fmt: skip
    monkeypatch.setattr(environment, "_get", pages.__getitem__)
    monkeypatch.setenv("FIVEWAY_HOST", json.dumps(HOST))
    monkeypatch.setenv("DIRECT_ADDRESSES", "triton:8000=127.0.0.1:18000 triton:8002=127.0.0.1:18002")
    found = environment.collect({"target": ["direct"]})
    follows_the_schema(found)
    assert found["native"]
    assert (found["docker"], found["services"], found["envoy"]) == (
        None,
        None,
        {"version": None, "config_sha256": None},
    )
    assert found["triton"] == "2.51.0"
    assert found["providers"] == {"m": {"CUDAExecutionProvider": 57}, "m_preprocess": {"DALI": 16}}
    assert found["device"] == {"name": "A100", "driver": "550.54", "count": 2}


@pytest.mark.usefixtures("silent")
def test_the_environment_has_what_the_host_the_servers_and_the_artefacts_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every source ends up in its field."""
    pages = {
        "http://edge:9901/server_info": '{"version": "9e55/1.40.0/Clean/RELEASE/BoringSSL"}',
        "http://triton:8000/v2": '{"name": "triton", "version": "2.51.0"}',
    }
    monkeypatch.setattr(environment, "_get", lambda url: pages.get(url, ""))
    monkeypatch.setenv("FIVEWAY_HOST", json.dumps(HOST))
    declare(tmp_path, "m")
    (tmp_path / "m").mkdir()
    files = {"repository/m/1/model.onnx": "ff", "repository/m/config.pbtxt": "01"}
    manifest = {"weights": "random", "weights_source": "seed", "build_key": "k", "files": files}
    (tmp_path / "m/manifest.json").write_text(json.dumps(manifest))
    found = environment.collect({"target": ["edge", "direct"]})
    follows_the_schema(found)
    assert found["targets"] == ["edge", "direct"]
    assert found["machine"] == "amd-epyc-8c-32g"
    assert found["envoy"] == {"version": "1.40.0", "config_sha256": "dd"}
    assert found["triton"] == "2.51.0"
    assert found["device"] == {"name": "A100", "driver": "550.54", "count": 2}
    assert found["providers"] == {"m": {"TensorrtExecutionProvider": 3, "CUDAExecutionProvider": 2}}
    assert found["services"]["triton"] == {
        "replicas": 1, "image": "sha256:1", "cpus": 1.5, "cpuset": "0", "memory_bytes": None, "pids": 512,
    }  # fmt: skip
    assert found["services"]["locust-worker"]["replicas"] == 2
    config = found["model"].pop("config_sha256")
    assert len(config) == 64
    assert found["model"] == {
        "name": "m", "takes": "photos", "checksum": "ff", "build_key": "k", "weights": "random",
        "weights_source": "seed",
    }  # fmt: skip
    assert found["versions"]["locust"]


@pytest.mark.usefixtures("silent")
def test_facts_of_the_local_stack_are_not_those_of_an_edge_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a target elsewhere nothing local passes for what was measured; the client's machine is still ours."""
    monkeypatch.setenv("FIVEWAY_HOST", json.dumps(HOST))
    found = environment.collect({"target": ["http://10.0.0.7:8080"]})
    follows_the_schema(found)
    for name in ("accelerator", "device", "services", "providers"):
        assert found[name] is None
    assert found["envoy"] == {"version": None, "config_sha256": None}
    assert found["machine"] == "amd-epyc-8c-32g"
    assert found["commit"] == "abc"


@pytest.mark.usefixtures("silent")
def test_providers_are_asked_of_triton_where_the_host_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run without scripts/host-facts still names what really ran."""
    metrics = (
        "# TYPE fiveway_execution_provider_nodes gauge\n"
        'fiveway_execution_provider_nodes{model="m",provider="CPUExecutionProvider",version="1"} 57\n'
    )
    monkeypatch.setattr(environment, "_get", lambda url: metrics if url.endswith("/metrics") else "")
    assert environment.collect({})["providers"] == {"m": {"CPUExecutionProvider": 57}}


def host_facts(tmp_path: Path, **programs: str) -> dict[str, Any]:
    """What scripts/host-facts prints where git, docker and nvidia-smi are these shell lines."""
    for name in ("git", "docker", "nvidia-smi"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{programs.get(name.replace('-', '_'), 'exit 1')}\n")
        program.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [ROOT / "scripts/host-facts"],
        env={"PATH": path, "ACCELERATOR": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
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
    container = '{"service":"triton","image":"sha256:1","nano_cpus":2000000000,"memory_bytes":1,"pids":2}'
    facts = host_facts(
        tmp_path,
        git='case "$1" in rev-parse) echo abc ;; status) echo " M x" ;; esac',
        docker=f"""case "$*" in
*"ps --quiet") echo c1 ;;
inspect*c1) echo '{container}' ;;
*"triton providers") printf 'MODEL VERSION PROVIDER NODES\\nm 1 CPUExecutionProvider 57\\n' ;;
version*) printf '%s' 'a "b" \\c' ;;
esac""",
        nvidia_smi="echo 'NVIDIA A100-SXM4-80GB, 550.54.15'",
    )
    assert facts["commit"] == "abc"
    assert facts["dirty"] is True
    assert facts["docker"] == 'a "b" \\c'
    assert facts["services"] == [json.loads(container)]
    assert facts["providers"] == [{"model": "m", "provider": "CPUExecutionProvider", "nodes": 57}]
    assert facts["devices"] == [{"name": "NVIDIA A100-SXM4-80GB", "driver": "550.54.15"}]
    assert facts["accelerator"] == "cpu"
