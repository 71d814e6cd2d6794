"""The containers as they run, not as they were written: user, capabilities, limits, ports."""

import os
import secrets
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from chaos.docker import containers, docker, service_of
from tests.clients import EDGE_PORT, HOST, LOCUST_PORT
from tests.conftest import services
from tests.repository import ROOT, certificate
from tests.stack.runs import bench

# 5557, where workers on other machines join, is on any free port unless LOCUST_MASTER_PORT says which.
PUBLISHED: dict[str, dict[int, int | None]] = {
    "edge": {18080: EDGE_PORT},
    "locust-master": {8089: LOCUST_PORT, 5557: None},
    "prometheus": {9090: int(os.environ.get("PROMETHEUS_PORT", "9090"))},
}


@pytest.fixture(scope="module", params=sorted(services()))
def running(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """The containers of a service."""
    found = containers(request.param)
    assert found, f"{request.param} is not running"
    return found


def test_what_the_kernel_says_of_process_1(running: list[dict[str, Any]]) -> None:
    """From the inside: it runs as 65532, no capability is effective, permitted or in reach, and none can be gained."""
    for found in running:
        status = docker("exec", found["Id"], "cat", "/proc/1/status")
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert fields["Uid"].split() == ["65532"] * 4
        assert {fields[key].strip("0") for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {""}
        assert fields["NoNewPrivs"] == "1"


def test_limits(running: list[dict[str, Any]]) -> None:
    """Memory and pids are bounded by the engine, and the root is read-only."""
    for found in running:
        host = found["HostConfig"]
        assert (host["ReadonlyRootfs"], host["Privileged"]) == (True, False)
        assert 0 < host["Memory"] <= 4 * 2**30
        assert 0 < host["PidsLimit"] <= 2048


@pytest.mark.parametrize("server", ["triton", "torchserve", "jpeg-http"])
def test_the_threads_that_compute_have_a_core_each(server: str) -> None:
    """Where a thread per core computes, as it does by default (decision 20)."""
    [found] = containers(server)
    seen = docker("exec", found["Id"], "sh", "-c", "grep -h Cpus_allowed_list: /proc/[0-9]*/task/*/status")
    bound = {cores for _, cores in map(str.split, seen.splitlines()) if cores.isdigit()}
    assert bound == set(map(str, os.sched_getaffinity(0)))


def test_the_artefacts_cannot_be_written(running: list[dict[str, Any]]) -> None:
    """A server that is taken over cannot change the model; the one volume that is written is in memory."""
    for found in running:
        for mount in found["Mounts"]:
            assert mount["RW"] is (mount["Destination"] == "/frames"), mount


def test_no_other_port_is_published(running: list[dict[str, Any]]) -> None:
    """On the address that was asked for, and on the port that was."""
    for found in running:
        wanted = PUBLISHED.get(service_of(found), {})
        bound = {
            int(inside.partition("/")[0]): (binding["HostIp"], int(binding["HostPort"]))
            for inside, bindings in found["NetworkSettings"]["Ports"].items()
            for binding in bindings or ()
        }
        assert bound.keys() == wanted.keys()
        for inside, (address, outside) in bound.items():
            assert address in (HOST, "0.0.0.0")
            assert wanted[inside] in (None, outside)


@pytest.mark.slow
def test_with_a_key_and_a_certificate_only_holders_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The edge and Locust are made anew with both: their own health checks, workers and the bench hold the key, over
    TLS too; others hear 401 or UNAUTHENTICATED. Which paths ask for it: tests/static/test_envoy.py."""
    made = ("compose", "up", "--detach", "--wait", "--no-deps", "edge", "locust-master", "locust-worker")
    few = ("--routes=onnx-http,onnx-grpc", "--batches=1", "--concurrency=2", "--blocks=1", "--seconds=0.3")
    tls = (*few, "--target", "https://edge:8080")
    try:
        with monkeypatch.context() as patch, TemporaryDirectory(dir=ROOT / "out") as here:
            files = certificate(Path(here))
            key, cert = secrets.token_hex(16), str(files / "cert.pem")
            changed = {"API_KEY": key, "TLS_CERT": cert, "TLS_KEY": str(files / "key.pem"), "TLS_CA": cert}
            for name, value in changed.items():
                patch.setenv(name, value)
            docker(*made)
            for asked in (few, tls):
                status, said, _ = bench("fiveway", *asked)
                assert status == 0, said
            patch.delenv("API_KEY")
            status, said, _ = bench("fiveway", *tls)
            assert (status, "HTTP 401" in said, "UNAUTHENTICATED" in said) == (1, True, True), said
            url = f"https://{HOST}:{EDGE_PORT}/v2"
            for header, wanted in ((f"x-api-key: {key}", "200"), ("x-api-key: no", "401")):
                curl = ("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--cacert", cert)
                assert subprocess.check_output([*curl, "-H", header, url], text=True) == wanted
    finally:
        docker(*made)
