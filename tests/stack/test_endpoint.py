"""`scripts/bench endpoint` against a Triton that is not the stack's: another repository, other shapes, other types."""

import os
import subprocess

import msgspec
import pytest

from bench.result import Result
from chaos.docker import wait_until
from locustfiles.study_routes.endpoint import GRPC, HTTP
from tests.repository import ROOT
from tests.stack.onnx_models import make_repository
from tests.stack.runs import OUTPUT, bench
from tests.stack.test_triton_backend import address, serving, status


def test_a_foreign_server_is_measured_over_both_protocols(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Answers agree, every call succeeds and Triton counted it; throughput by callers, and both protocols' ratio. Where
    the time goes is explained, with Triton's own part of it."""
    folder = tmp_path_factory.mktemp("foreign")
    make_repository(folder)
    with serving({"/repository": folder}, "--env=MODEL_REPOSITORY=/repository") as name:
        http, grpc = (address(name, port) for port in (8000, 8001))
        wait_until(lambda: status(f"http://{http}/v2/models/variable_dims/ready") == 200, "the model", seconds=90)
        options = ("--batches", "1", "--concurrency", "1,2,4", "--blocks", "3", "--seconds", "0.2")
        code, said, run = bench("endpoint", f"http://{http}", "--grpc", grpc, "--model", "variable_dims", *options)
        command = [str(ROOT / "scripts" / "explain"), f"http://{http}", "variable_dims", "--grpc", grpc]
        explained = subprocess.check_output(command, env=os.environ | {"RESULTS": str(OUTPUT)}, text=True, timeout=60)
    assert code == 0, said
    assert run
    found = msgspec.json.decode((run / "result.json").read_bytes(), type=Result)
    assert {name: one.agrees for name, one in found.parity.items()} == {HTTP: True, GRPC: True}
    assert len(found.cells) == 8
    for cell in found.cells:
        assert not sum(visit.failures for visit in cell.visits), cell.id
        assert all(visit.server_requests == visit.requests for visit in cell.visits), cell.id
    assert {(knee.name, knee.by) for knee in found.analysis.knees} == {(HTTP, "users"), (GRPC, "users")}
    assert [one.kind for one in found.analysis.pooled] == ["protocol"]
    for words in ("HTTP, 1 caller:", "gRPC, 8 callers:", " queue ", " compute ", "ms over HTTP, "):
        assert words in explained, explained
    assert (run / "report.md").read_text().count("throughput") >= 2
