"""`scripts/bench endpoint` and `scripts/explain` against servers that are not the stack's: a Triton with another
repository, other shapes and other types, and MLServer. What explain says of other faults:
tests/unit/test_bench_explain.py."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from bench.result import Result
from chaos.docker import wait_until
from locustfiles.study_routes.endpoint import GRPC, HTTP
from tests.repository import ROOT
from tests.stack.onnx_models import make_repository
from tests.stack.runs import OUTPUT, bench
from tests.stack.test_triton_backend import address, serving, status

MLSERVER = os.environ.get("MLSERVER_IMAGE", "fiveway-mlserver:local")


def measured(container: str, model: str) -> tuple[Result, str, str]:
    """A run that ends well over both protocols, its report, and where the time of a call goes."""
    http, grpc = (address(container, port) for port in (8000, 8001))
    wait_until(lambda: status(f"http://{http}/v2/models/{model}/ready") == 200, "the model", seconds=90)
    options = ("--batches", "1", "--concurrency", "1,2,4", "--blocks", "3", "--seconds", "0.2")
    code, said, run = bench("endpoint", f"http://{http}", "--grpc", grpc, "--model", model, *options)
    assert code == 0, said
    assert run
    found = msgspec.json.decode((run / "result.json").read_bytes(), type=Result)
    assert {name: one.agrees for name, one in found.parity.items()} == {HTTP: True, GRPC: True}
    assert len(found.cells) == 8
    for cell in found.cells:
        assert not sum(visit.failures for visit in cell.visits), cell.id
    assert {(knee.name, knee.by) for knee in found.analysis.knees} == {(HTTP, "users"), (GRPC, "users")}
    assert [one.kind for one in found.analysis.pooled] == ["protocol"]
    command = [str(ROOT / "scripts" / "explain"), f"http://{http}", model, "--grpc", grpc]
    explained = subprocess.check_output(command, env=os.environ | {"RESULTS": str(OUTPUT)}, text=True, timeout=60)
    for words in ("HTTP, 1 caller:", "gRPC, 8 callers:", "ms over HTTP, "):
        assert words in explained, explained
    return found, (run / "report.md").read_text(), explained


def test_a_foreign_triton_is_measured_over_both_protocols(tmp_path: Path) -> None:
    """Answers agree, every call succeeds and Triton counted it; throughput by callers, and both protocols' ratio. Where
    the time goes is explained, with Triton's own part of it."""
    make_repository(tmp_path)
    with serving({"/repository": tmp_path}, "--env=MODEL_REPOSITORY=/repository") as name:
        found, report, explained = measured(name, "variable_dims")
    for cell in found.cells:
        assert all(visit.server_requests == visit.requests for visit in cell.visits), cell.id
    for words in (" queue ", " compute "):
        assert words in explained, explained
    assert report.count("throughput") >= 2


@pytest.mark.slow
def test_mlserver_is_measured_over_both_protocols(tmp_path: Path) -> None:
    """The same of a custom model on MLServer: tensors go as JSON over HTTP, as bytes over gRPC. It does not say where
    its time goes."""
    shutil.copy(Path(__file__).with_name("mlserver_model.py"), tmp_path)
    settings = {
        "name": "sums",
        "implementation": "mlserver_model.Sums",
        "inputs": [{"name": "matrix", "datatype": "FP32", "shape": [-1, 3]}],
        "outputs": [{"name": "sums", "datatype": "FP32", "shape": [-1, 1]}],
    }
    (tmp_path / "model-settings.json").write_text(json.dumps(settings))
    ports = ("--env=MLSERVER_HTTP_PORT=8000", "--env=MLSERVER_GRPC_PORT=8001")
    command = ("mlserver", "start", "/repository")
    with serving({"/repository": tmp_path}, *ports, command=command, image=MLSERVER) as name:
        found, report, explained = measured(name, "sums")
    assert "Over HTTP tensors were JSON" in report
    assert all(visit.server_requests is None for cell in found.cells for visit in cell.visits)
    assert " unknown " in explained, explained
    assert " compute " not in explained, explained
