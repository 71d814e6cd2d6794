"""scripts/native says what is missing, in one line, before it downloads anything; nothing here gets further.

What it asks of the machine answers as a test says: programs in a folder that comes first on the PATH.
"""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from tests.repository import ROOT

THERE = {"uname": "echo x86_64", "getconf": "echo glibc 2.41", "uv": "exit 1"}


def native(folder: Path, *arguments: str, programs: dict[str, str] | None = None, **variables: str) -> tuple[int, str]:
    """Exit status, and what it says on both streams."""
    for name, does in (THERE | (programs or {})).items():
        (folder / name).write_text(f"#!/bin/sh\n{does}\n")
        (folder / name).chmod(0o755)
    base = {"PATH": f"{folder}:{os.environ['PATH']}", "ACCELERATOR": "cpu", "MODEL_REPOSITORY": "/dev/null"}
    command = [str(ROOT / "scripts/native"), *arguments]
    done = subprocess.run(
        command, env=base | variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.returncode, done.stdout


NO_GPU = {"nvidia-smi": "exit 1"}


@pytest.mark.parametrize(
    ("arguments", "variables", "programs", "says"),
    [
        (["--routes"], {}, {}, "--routes wants names: --routes onnx-http,onnx-grpc"),
        (["--routes", "typed-grpc"], {}, {}, "typed-grpc does not run without Docker: choose from jpeg-http onnx-http"),
        (["--routes=onnx-http,edge"], {}, {}, "edge does not run without Docker: choose from jpeg-http onnx-http"),
        (["--target", "edge"], {}, {}, "--target is not for scripts/native: it calls the servers directly"),
        (["--results=/tmp"], {}, {}, "--results is not for scripts/native: it calls the servers directly"),
        ([], {"ACCELERATOR": "tpu"}, {}, "ACCELERATOR is tpu: set cpu or gpu"),
        ([], {"ACCELERATOR": "gpu"}, NO_GPU, "ACCELERATOR is gpu and nvidia-smi shows no GPU: rent one with a GPU"),
        ([], {"MODEL_REPOSITORY": "./mine"}, {}, "MODEL_REPOSITORY is for the stack: unset it, and choose a MODEL"),
        ([], {}, {"uname": "echo aarch64"}, "this is aarch64: Triton's build on PyPI is for x86-64 only"),
        ([], {}, {"getconf": "echo glibc 2.31"}, "glibc here is 2.31: Triton's build needs 2.35 or newer"),
    ],
)
def test_what_cannot_be_run_is_refused(
    arguments: list[str], variables: dict[str, str], programs: dict[str, str], says: str, tmp_path: Path
) -> None:
    """One line that says what to do, and exit status 1."""
    status, said = native(tmp_path, *arguments, programs=programs, **variables)
    assert (status, said.count("\n")) == (1, 1)
    assert said.startswith(f"fiveway: {says}")


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """Its own ports are looked at first: somebody else's server would be measured."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        status, said = native(tmp_path, "--dry-run", NATIVE_PORT=str(port))
    assert status == 1
    assert said.endswith(
        f"fiveway: port {port} is taken: end what listens there, or set NATIVE_PORT to the first of four free ones\n"
    )


def test_a_dry_run_says_what_will_not_be_measured(tmp_path: Path) -> None:
    """It ends before the first download, and a GPU that is left aside is named."""
    status, said = native(tmp_path, "--dry-run", "--quick", programs={"nvidia-smi": "exit 0"}, NATIVE_PORT="15000")
    assert status == 0
    assert "==> There is a GPU, and ACCELERATOR=cpu: ACCELERATOR=gpu would measure it\n" in said
    assert "==> Not measured: torchserve-*, typed-* and everything through the edge: they need Docker\n" in said
    assert said.endswith("device cpu, ports 15000 to 15003\n")
