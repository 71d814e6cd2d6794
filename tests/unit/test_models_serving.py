"""What is served: chosen from what was declared and what was swapped in, with reasons where a repository cannot be."""

import io
import json
import os
import tarfile
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateways.core.serving import Serving
from models.builder import __main__ as command
from models.builder import serving
from models.builder.spec import BuildError, Spec


@pytest.fixture
def artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An artefacts folder in which `building` takes no PyTorch, and a user's repository that is not there yet."""
    folder = tmp_path / "artifacts"
    folder.mkdir()
    monkeypatch.setattr(serving, "make_current", make_current)
    monkeypatch.setattr(serving, "REPOSITORY", tmp_path / "repository")
    monkeypatch.setenv("ARTIFACTS", str(folder))
    return folder


def make_current(spec: Spec, artifacts: Path, *, force: bool = False) -> None:
    """Artefacts of the builder's shape."""
    for name in (spec.name, f"{spec.name}_trt"):
        write_model(artifacts / spec.name / "repository", name)
    (artifacts / spec.name / "mar").mkdir(exist_ok=True)
    (artifacts / spec.name / "mar" / f"{spec.name}.mar").touch()


def write_model(repository: Path, name: str) -> None:
    (repository / name / "1").mkdir(parents=True, exist_ok=True)
    (repository / name / "1" / "model.onnx").write_bytes(b"graph")


def declared(model: str = "", repository: str = "") -> dict[str, str]:
    return {"MODEL": model, "MODEL_REPOSITORY": repository}


serve = partial(serving.serve, default="efficientnet_lite0")


def linked(artifacts: Path) -> dict[str, str]:
    return {path.name: os.readlink(path) for path in sorted((artifacts / "repository").iterdir())}


def test_a_repository_is_served_as_it_is(artifacts: Path) -> None:
    """All its models are loaded; the routes serve its only one, and the photo routes none."""
    write_model(serving.REPOSITORY, "text")
    serve(artifacts, declared(repository="./mine"))
    assert Serving.load(artifacts) == Serving("text", None, False, ("text",), declared(repository="./mine"))
    assert linked(artifacts) == {"text": str(serving.REPOSITORY / "text")}


def test_a_swap_stays_until_something_else_is_declared(artifacts: Path) -> None:
    """An `up` also loads what a newer builder makes beside it; a changed variable counts again."""
    serve(artifacts, declared("efficientnet_lite0"))
    make_current(Spec.load("densenet161"), artifacts)
    serving.link(artifacts, artifacts / "densenet161" / "repository", ["densenet161"])
    swapped = Serving("densenet161", None, True, ("densenet161",), declared("efficientnet_lite0"), swapped=True)
    swapped.write(artifacts)
    serve(artifacts, declared("efficientnet_lite0"))
    both = ("densenet161", "densenet161_trt")
    assert Serving.load(artifacts) == replace(swapped, accelerated=both[1], models=both)
    serve(artifacts, declared("openclip_vit_b32"))
    assert Serving.load(artifacts).model == "openclip_vit_b32"


def test_a_received_swap_stays_as_it_is_until_its_files_are_gone(artifacts: Path) -> None:
    """Then what is declared is served, and the link that leads nowhere is dropped."""
    write_model(artifacts / "received", "text")
    serving.link(artifacts, artifacts / "received", ["text"])
    received = Serving("text", None, False, ("text",), declared("densenet161"), swapped=True)
    received.write(artifacts)
    serve(artifacts, declared("densenet161"))
    assert Serving.load(artifacts) == received
    (artifacts / "received" / "text").rename(artifacts / "received" / "gone")
    serve(artifacts, declared("densenet161"))
    assert Serving.load(artifacts).model == "densenet161"
    assert "text" not in linked(artifacts)


@pytest.mark.parametrize(
    ("names", "wanted", "chosen"),
    [
        ("a", "", ("a", None)),
        ("a a_trt", "", ("a", "a_trt")),
        ("a a_jpeg a_preprocess", "", ("a", None)),
        ("a_trt", "", ("a_trt", None)),
        ("a b b_trt", "b", ("b", "b_trt")),
        ("a b", "", None),
        ("a b", "c", None),
    ],
)
def test_the_model_on_the_routes(names: str, wanted: str, chosen: tuple[str, str | None] | None) -> None:
    """The only model, or the named one; its accelerated twin does not count. An open choice lists all names."""
    with nullcontext() if chosen else pytest.raises(BuildError, match=r"to one of a, b$"):
        assert serving.choose(names.split(), wanted) == chosen


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (None, "cannot be read"),
        ({"README": ""}, "is empty"),
        ({"m/README": ""}, "m is not a model: it has neither a config.pbtxt nor a file"),
        ({"m/config.pbtxt": 'backend: "onnxruntime"'}, "m has no version: put its file in m/1/"),
        ({"m/1/model.onnx": "", "m/config.pbtxt": 'name: "n"'}, 'm/config.pbtxt says name: "n"'),
        ({"m/1/model.onnx": "", "m/config.pbtxt": "max_batch_size: many"}, "m/config.pbtxt.*line 1:.*many"),
        ({"m/1/model.onnx": "", "m/config.pbtxt": 'name: "m" # ours\nof_tomorrow { deep: 1 }'}, ""),
    ],
)
def test_a_broken_repository_says_why(tmp_path: Path, files: dict[str, str] | None, says: str) -> None:
    """One line each: what is wrong and what to do. What only a newer Triton can know is Triton's to refuse."""
    for name, text in (files or {}).items():
        (tmp_path / "of" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "of" / name).write_text(text)
    with pytest.raises(BuildError, match=says) if says else nullcontext():
        assert serving.model_names(tmp_path / "of") == ["m"]


def packed(repository: Path, name: str = ".") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(repository, name)
    return out.getvalue()


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str, stdin: bytes = b"") -> int:
    """The exit code of the builder's command."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
    return command.main(list(arguments))


@pytest.mark.parametrize(
    ("source", "tar", "status", "says"),
    [
        ("text", b"", command.ALREADY_SERVED, ""),
        ("-", packed(Path(__file__), "text/1/model.onnx"), 1, "text is being served"),
        ("-", b"no tar", 1, "cannot be unpacked"),
        ("-", packed(Path(__file__), "../evil"), 1, "cannot be unpacked"),
        ("resnet", b"", 1, "no such model"),
    ],
)
def test_what_cannot_be_next_changes_nothing(
    artifacts: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, source: str, tar: bytes, status: int, says: str
) -> None:
    """What is served already has an exit code of its own, where scripts/swap ends; the rest is one line."""
    Serving("text", None, False, ("text",)).write(artifacts)
    assert run(monkeypatch, "next", source, stdin=tar) == status
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == (status == 1)
    assert json.loads((artifacts / "serving.json").read_text())["model"] == "text"
    assert sorted(path.name for path in artifacts.iterdir()) == [".lock", "serving.json"]


def test_the_command_serves_what_the_environment_declares(artifacts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable counts as not set; without a repository Compose mounts /dev/null."""
    for name, value in declared("", os.devnull).items():
        monkeypatch.setenv(name, value)
    for accelerator, model in command.DEFAULT_MODELS.items():
        monkeypatch.setenv("ACCELERATOR", accelerator)
        assert run(monkeypatch, "build") == 0
        assert Serving.load(artifacts).model == model
