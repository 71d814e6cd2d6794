"""`scripts/bench endpoint` and `scripts/explain` against a Triton that is not the stack's: another repository, other
shapes, other types. What explain says of other faults: tests/unit/test_bench_explain.py."""

import multiprocessing
import os
import subprocess
from multiprocessing.connection import Connection

import msgspec
import pytest

from bench.explain import causes
from bench.result import Result
from chaos.docker import wait_until
from locustfiles.study_routes.endpoint import GRPC, HTTP
from tests.repository import ROOT
from tests.stack.onnx_models import make_repository
from tests.stack.runs import OUTPUT, bench
from tests.stack.test_triton_backend import address, serving, status
from tests.unit.test_bench_explain import Fault, looks_at, server


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


def serve_apart(fault: Fault, pipe: Connection) -> None:
    """Serve until the other end says so, after the address was sent there."""
    with server(fault) as address:
        pipe.send(address)
        pipe.recv()


@pytest.mark.parametrize(("numbers", "compute_s", "limited"), [(5_000, 0.0, True), (1, 0.02, False)])
def test_a_client_that_is_the_limit_is_named(numbers: int, compute_s: float, limited: bool) -> None:
    """Eight callers of one process that read JSON all the time, of a server in another; and none where they wait. Here,
    because it asks for two cores that nothing else wants; one time in three is enough, because they may be wanted."""
    fault = Fault(extensions=(), shape=(numbers,), outputs=numbers, compute_s=compute_s)
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    apart = multiprocessing.get_context("spawn").Process(target=serve_apart, args=(fault, theirs))
    apart.start()
    try:
        address = ours.recv()
        said = [causes(*looks_at(address, fault), None) for _ in range(3 if limited else 1)]
    finally:
        ours.send("end")
        apart.join()
    assert any("its own limit" in text for texts in said for text in texts) == limited, said
