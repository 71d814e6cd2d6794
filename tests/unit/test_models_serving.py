"""What is served: chosen from what was declared and what was swapped in, with reasons where a repository cannot be."""

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from gateways.core.serving import NEXT, Serving
from models.builder import build, serving
from models.builder.errors import BuildError
from models.builder.spec import Spec
from tests.repository import ROOT


@pytest.fixture
def artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An artefacts folder in which `building` takes no PyTorch, and a user's repository that is not there yet."""
    folder = tmp_path / "artifacts"
    folder.mkdir()
    monkeypatch.setattr(build, "make_current", make_current)
    monkeypatch.setattr(serving, "REPOSITORY", tmp_path / "repository")
    return folder


def make_current(spec: Spec, artifacts: Path, *, force: bool = False) -> None:
    """Artefacts of the builder's shape."""
    write_model(artifacts / spec.name / "repository", spec.name)
    write_model(artifacts / spec.name / "repository", f"{spec.name}_trt")
    (artifacts / spec.name / "mar").mkdir(exist_ok=True)
    (artifacts / spec.name / "mar" / f"{spec.name}.mar").touch()
    (artifacts / spec.name / "manifest.json").touch()


def write_model(repository: Path, name: str, config: str = "") -> None:
    (repository / name / "1").mkdir(parents=True, exist_ok=True)
    (repository / name / "1" / "model.onnx").write_bytes(b"graph")
    if config:
        (repository / name / "config.pbtxt").write_text(config)


def declared(model: str = "", repository: str = "") -> dict[str, str]:
    return {"MODEL": model, "MODEL_REPOSITORY": repository}


def linked(artifacts: Path) -> dict[str, str]:
    return {path.name: os.readlink(path) for path in sorted((artifacts / "repository").iterdir())}


def test_a_spec_is_served_with_its_twin_and_its_photos(artifacts: Path) -> None:
    """Both models are linked relative to the volume, TorchServe's archive too."""
    build.serve(artifacts, declared("densenet161"))
    found = Serving.load(artifacts)
    assert (found.model, found.accelerated, found.images) == ("densenet161", "densenet161_trt", True)
    assert linked(artifacts) == {
        name: f"../densenet161/repository/{name}" for name in ("densenet161", "densenet161_trt")
    }
    assert (artifacts / "mar" / "densenet161.mar").is_file()


def test_nothing_declared_is_the_default_model(artifacts: Path) -> None:
    """An empty variable is one that is not set."""
    build.serve(artifacts, declared())
    assert Serving.load(artifacts).model == build.DEFAULT_MODELS["cpu"]


def test_a_repository_is_served_as_it_is(artifacts: Path) -> None:
    """All its models are loaded; the routes serve its only one, and the photo routes none."""
    write_model(serving.REPOSITORY, "text")
    build.serve(artifacts, declared(repository="./mine"))
    assert Serving.load(artifacts) == Serving("text", None, False, ("text",), declared(repository="./mine"))
    assert linked(artifacts) == {"text": str(serving.REPOSITORY / "text")}


def test_a_swap_stays_until_something_else_is_declared(artifacts: Path) -> None:
    """`up` keeps what was swapped in; a changed variable counts again."""
    build.serve(artifacts, declared("efficientnet_lite0"))
    make_current(Spec.load("densenet161"), artifacts)
    swapped = serving.of_spec(artifacts, "densenet161")
    Serving(swapped.model, None, True, swapped.models, declared("efficientnet_lite0"), swapped=True).write(artifacts)
    build.serve(artifacts, declared("efficientnet_lite0"))
    assert Serving.load(artifacts).model == "densenet161"
    build.serve(artifacts, declared("openclip_vit_b32"))
    assert Serving.load(artifacts).model == "openclip_vit_b32"


def test_what_a_newer_builder_makes_beside_a_swapped_model_is_served(artifacts: Path) -> None:
    """An `up` after an update of ours loads it too; a repository that was swapped in stays as it is."""
    build.serve(artifacts, declared())
    make_current(Spec.load("densenet161"), artifacts)
    serving.link(artifacts, artifacts / "densenet161" / "repository", ["densenet161"])
    Serving("densenet161", None, True, ("densenet161",), declared(), swapped=True).write(artifacts)
    build.serve(artifacts, declared())
    found = Serving.load(artifacts)
    assert (found.models, found.accelerated, found.swapped) == (
        ("densenet161", "densenet161_trt"),
        "densenet161_trt",
        True,
    )
    write_model(artifacts / "received", "densenet161")
    serving.link(artifacts, artifacts / "received", ["densenet161"])
    received = Serving("densenet161", None, False, ("densenet161",), declared(), swapped=True)
    received.write(artifacts)
    build.serve(artifacts, declared())
    assert Serving.load(artifacts) == received


def test_a_swap_whose_files_are_gone_counts_no_more(artifacts: Path) -> None:
    """What is declared is served, and the link that leads nowhere is dropped."""
    write_model(artifacts / "received", "text")
    serving.link(artifacts, artifacts / "received", ["text"])
    Serving("text", None, False, ("text",), declared("densenet161"), swapped=True).write(artifacts)
    (artifacts / "received" / "text").rename(artifacts / "received" / "gone")
    build.serve(artifacts, declared("densenet161"))
    assert Serving.load(artifacts).model == "densenet161"
    assert "text" not in linked(artifacts)


@pytest.mark.parametrize(
    ("names", "wanted", "chosen"),
    [
        (["a"], "", ("a", None)),
        (["a", "a_trt"], "", ("a", "a_trt")),
        (["a", "a_jpeg", "a_preprocess"], "", ("a", None)),
        (["a_trt"], "", ("a_trt", None)),
        (["a", "b", "b_trt"], "b", ("b", "b_trt")),
    ],
)
def test_the_model_on_the_routes(names: list[str], wanted: str, chosen: tuple[str, str | None]) -> None:
    """The only one, or the one that is asked for; a twin is never the only one's rival."""
    assert serving.choose(names, wanted) == chosen


@pytest.mark.parametrize("wanted", ["", "c"])
def test_a_choice_that_is_left_open_lists_the_names(wanted: str) -> None:
    """The message is all that the user sees."""
    with pytest.raises(BuildError, match=r"to one of a, b$"):
        serving.choose(["a", "b"], wanted)


def test_broken_repositories_say_why(tmp_path: Path) -> None:
    """One line each: what is wrong and what to do."""
    says = {
        "absent": "cannot be read",
        "empty": "is empty: it must hold one folder per model",
        "no_files": "m is no model: it has neither a config.pbtxt nor a file",
        "no_version": "m has no version: put its file in m/1/",
        "other_name": 'm/config.pbtxt says name: "n": it must be the name of its folder',
    }
    for name in list(says)[1:]:
        (tmp_path / name).mkdir()
    for name in list(says)[2:]:
        (tmp_path / name / "m").mkdir()
    (tmp_path / "no_version" / "m" / "config.pbtxt").write_text('backend: "onnxruntime"\n')
    write_model(tmp_path / "other_name", "m", 'name: "n"\n')
    for name, text in says.items():
        with pytest.raises(BuildError, match=text):
            serving.model_names(tmp_path / name)


def next_of(artifacts: Path, *arguments: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"ARTIFACTS": str(artifacts), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "models.builder.serving", *arguments]
    done = subprocess.run(command, env=environment, cwd=artifacts, input=stdin, capture_output=True, check=False)
    return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())


def packed(repository: Path) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(repository, ".")
    return out.getvalue()


def test_a_received_repository_is_served_after_commit(artifacts: Path, tmp_path: Path) -> None:
    """`next` only prepares; what was declared goes with it."""
    Serving("old", None, True, ("old",), declared("old")).write(artifacts)
    write_model(tmp_path / "mine", "text")
    done = next_of(artifacts, "next", "-", stdin=packed(tmp_path / "mine"))
    assert (done.returncode, done.stdout) == (0, "text\n"), done.stderr
    assert Serving.load(artifacts).model == "old"
    assert next_of(artifacts, "commit").returncode == 0
    assert Serving.load(artifacts) == Serving("text", None, False, ("text",), declared("old"), swapped=True)
    assert linked(artifacts) == {"text": "../received/text"}
    assert not (artifacts / NEXT).exists()


def test_what_is_served_already_has_an_exit_code_of_its_own(artifacts: Path) -> None:
    """scripts/swap ends there."""
    Serving("densenet161", None, True, ("densenet161",)).write(artifacts)
    assert next_of(artifacts, "next", "densenet161").returncode == serving.ALREADY_SERVED


def test_what_cannot_be_next_is_one_line_and_changes_nothing(artifacts: Path, tmp_path: Path) -> None:
    """A name that is being served, bytes that are no tar, a path that leads out, a model that nobody knows."""
    Serving("text", None, False, ("text",)).write(artifacts)
    write_model(tmp_path / "mine", "text")
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("../evil"))
    for source, stdin, says in (
        ("-", packed(tmp_path / "mine"), "text is being served"),
        ("-", b"no tar", "cannot be unpacked"),
        ("-", out.getvalue(), "cannot be unpacked"),
        ("resnet", b"", "no such model"),
    ):
        done = next_of(artifacts, "next", source, stdin=stdin)
        assert done.returncode == 1
        assert says in done.stderr
        assert done.stderr.count("\n") == 1
    assert json.loads((artifacts / "serving.json").read_text())["model"] == "text"
    assert sorted(path.name for path in artifacts.iterdir()) == [".lock", "serving.json"]
