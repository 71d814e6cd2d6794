"""scripts/up refuses what cannot work with one clear line that says what to do, before it changes anything."""

import json
import os
import re
import socket
import subprocess

import pytest

from tests.repository import ROOT

GO_MOD = ROOT / "compose/toxiproxy/go.mod"


def on_a_bare_machine(shell: str, *options: str, image: str = "debian:trixie-slim") -> subprocess.CompletedProcess[str]:
    """Run `shell` in a fresh Debian that has no Docker, with this repository at /repo, read-only."""
    where = ("--rm", "--network=none", f"--volume={ROOT}:/repo:ro")
    command = ["docker", "run", *where, *options, image, "bash", "-c", shell]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("shell", "options", "says"),
    [
        ("/repo/scripts/up", ["--user=1000"], "needs root: run this as root"),
        ("/repo/scripts/up", ["--tmpfs=/var/lib/docker:size=1g"], "disk too small: /var/lib/docker has 1 GB free"),
        (". /repo/scripts/lib.sh; find_ca_bundle", ["--env=CA_BUNDLE=/no/such.pem"], "set CA_BUNDLE to a readable PEM"),
    ],
)
def test_refusals_are_one_line(shell: str, options: list[str], says: str) -> None:
    """One line on stderr, exit status 1, nothing on stdout."""
    # The disk is looked at where there is a Python, before anything is installed.
    done = on_a_bare_machine(shell, *options, image="fiveway-tests" if "disk" in says else "debian:trixie-slim")
    assert done.returncode == 1, done
    assert done.stdout == ""
    assert done.stderr.startswith("fiveway: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert says in done.stderr


@pytest.mark.parametrize("variable", ["EDGE_PORT", "LOCUST_PORT"])
def test_a_taken_port_is_named(variable: str) -> None:
    """A port that another program has is named, with the variable that moves ours."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        # Another project name: the running stack's own ports are not the question.
        ports = {"EDGE_PORT": "1", "LOCUST_PORT": "2", variable: port}
        about = os.environ | ports | {"COMPOSE_PROJECT_NAME": "fiveway-port-test"}
        command = [ROOT / "scripts/up"]
        done = subprocess.run(command, env=about, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done
    assert f"port {port} on 127.0.0.1 is taken by another program" in done.stderr
    assert f"{variable}=18080 scripts/up" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_image_is_listed_package_by_package() -> None:
    """Of Debian, of Python and of Go, each in the version of its lock; nothing half-written is left."""
    command = [str(ROOT / "scripts/sbom"), "fiveway-typed-grpc:local", "fiveway-distance:local"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list((ROOT / "out/sbom").glob("*.part")) == []
    found = {
        f"{package['name']} {package.get('versionInfo')}"
        for name in ("typed-grpc", "distance")
        for package in json.loads((ROOT / f"out/sbom/fiveway-{name}.json").read_text())["packages"]
    }
    lock = (ROOT / "requirements/typed-grpc.txt").read_text()
    (grpcio,) = re.findall(r"^grpcio==(\S+)", lock, re.M)
    (toxiproxy,) = re.findall(r"^\s*github.com/Shopify/toxiproxy/v2 (\S+)", GO_MOD.read_text(), re.M)
    assert {f"grpcio {grpcio}", f"github.com/Shopify/toxiproxy/v2 {toxiproxy}"} <= found
    assert any(one.startswith("libc6 ") for one in found)
