"""scripts/native says what is missing, in one line, before it downloads anything; nothing here gets further."""

import platform
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import commands
from scripts.host import machine, native
from scripts.host.machine import Refusal, Usage


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that could: x86-64, a new glibc, room, no GPU, nothing that listens, no settings."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "libc_ver", lambda: ("glibc", "2.41"))
    monkeypatch.setattr(machine, "free_gb", lambda _: 100)
    monkeypatch.setattr(machine, "listens", lambda _, port: port == 1)
    monkeypatch.setattr(machine, "ENV", tmp_path / ".env")
    monkeypatch.setattr(native, "NATIVE", tmp_path / "native")
    monkeypatch.setattr(native, "ask", lambda *_: None)
    for name in ("ACCELERATOR", "MODEL_REPOSITORY", "NATIVE_PORT", "PRECISION"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--routes"], "--routes: expected one argument"),
        (["--routes", "typed-grpc"], "typed-grpc does not run without Docker: choose from jpeg-http"),
        (["--routes=onnx-http,edge"], "edge does not run without Docker"),
        (["--target", "edge"], "--target is not for scripts/native"),
        (["--results=/tmp"], "--results is not for scripts/native"),
        (["--quik"], "unknown option --quik: choose from --dry-run --routes --quick"),
    ],
)
def test_a_call_that_cannot_be_meant(words: list[str], says: str) -> None:
    """Exit status 2, with what to choose from."""
    with pytest.raises(Usage, match=says):
        native.arguments(words)


def test_options_go_on_to_the_bench() -> None:
    """Those that the bench has, with their values; routes are also looked at here."""
    words = ["--quick", "--routes", "onnx-http,trt-grpc", "--blocks", "3", "--seconds=2"]
    assert native.arguments(words) == (False, ["onnx-http", "trt-grpc"], ["--quick", "--blocks", "3", "--seconds=2"])
    fiveway = commands.parsers()[1]["fiveway"]
    options = {option for action in fiveway._actions for option in action.option_strings} - {"-h", "--help"}
    assert options == {*native.PASSED, *native.ANSWERED, "--routes"}


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("ACCELERATOR", "tpu", "ACCELERATOR is tpu"),
        ("ACCELERATOR", "gpu", "nvidia-smi shows no GPU"),
        ("PRECISION", "fp16", "precision fp16 without a GPU"),
        ("MODEL_REPOSITORY", "./mine", "unset it, and choose a MODEL"),
        ("NATIVE_PORT", "0", "port 1 is taken"),
        ("machine", "aarch64", "this is aarch64"),
        ("libc_ver", ("glibc", "2.31"), "glibc here is 2.31"),
        ("libc_ver", ("", ""), "glibc here is 0"),
        ("free_gb", 3, "3 GB are free here"),
    ],
)
def test_what_cannot_be_run_is_refused(name: str, value: Any, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that says what to do, before anything is made."""
    if name.isupper():
        monkeypatch.setenv(name, value)
    else:
        monkeypatch.setattr(machine if name == "free_gb" else platform, name, lambda *_: value)
    monkeypatch.setattr(sys, "argv", ["native"])
    with pytest.raises(Refusal, match=says):
        native.main()
    assert not native.NATIVE.exists()


def test_a_dry_run_says_what_will_not_be_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends before the first download, and a GPU that is left aside is named."""
    monkeypatch.setattr(native, "ask", lambda *_: "NVIDIA L4")
    monkeypatch.setattr(sys, "argv", ["native", "--dry-run", "--quick"])
    assert native.main() == 0
    said = capsys.readouterr().out
    assert "ACCELERATOR=gpu would measure it" in said
    assert "Not measured: torchserve-*, typed-*" in said
    assert "Device cpu, ports 18000 to 18003" in said
    assert not native.NATIVE.exists()


@pytest.mark.parametrize(
    ("route", "ended", "says"),
    [
        ("jpeg-http", True, "the last line"),
        ("jpeg-http", False, ""),
        ("onnx-http", False, ""),
        ("trt-grpc", False, "CUDA failure 35"),
        ("trt-grpc", True, "it ended"),
    ],
)
def test_why_a_route_does_not_answer(
    route: str, ended: bool, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the words of its server's log: why a model failed to load, or the last line of a server that has ended."""
    (tmp_path / "jpeg-http.log").write_text("first\nthe last line\n")
    (tmp_path / "triton.log").write_text(
        "E failed to load 'm_trt' version 1: Internal: x CUDA failure 35\\n more\nit ended\n"
    )
    monkeypatch.setattr(native, "LOGS", tmp_path)
    assert native.cause(route, "m", ended) == says


def test_a_server_runs_as_long_as_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is waited for until it listens, ended with all that it started, and its output is in its log."""
    monkeypatch.undo()
    monkeypatch.setattr(native, "LOGS", tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as free, socket.create_server(("127.0.0.1", 0)) as other:
        port, silent = free.getsockname()[1], other.getsockname()[1]
    serve = f"echo begins; {sys.executable} -m http.server --bind 127.0.0.1 $PORT & wait"
    with native.server("web", ["sh", "-c", serve], PORT=str(port)) as process:
        native.wait_for(process, port)
        assert process.poll() is None
        assert machine.listens("127.0.0.1", port)
    assert process.poll() is not None
    assert (tmp_path / "web.log").read_text().startswith("begins")
    with native.server("ends", ["false"]) as process:
        native.wait_for(process, silent)  # does not wait for what has ended
    assert process.poll() == 1
