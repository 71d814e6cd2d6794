"""When the builder works and when it rests."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from models.builder import build
from models.builder.__main__ import main
from models.builder.build import make_current
from models.builder.currency import ROOT, build_key, digests, inputs, why_stale
from models.builder.hub import Unreachable
from models.builder.sources import Origin
from models.builder.spec import BuildError, Spec

KEY = "k" * 64
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def artefacts(tmp_path: Path) -> Path:
    """A current folder: two files, one of them linked twice, and their manifest."""
    folder = tmp_path / "model"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.bin").write_bytes(b"a" * 100)
    (folder / "deep" / "b.bin").write_bytes(b"b" * 100)
    os.link(folder / "deep" / "b.bin", folder / "deep" / "twin.bin")
    write_manifest(folder, KEY, ["a.bin", "deep/b.bin", "deep/twin.bin"])
    return folder


def write_manifest(folder: Path, key: str, names: list[str]) -> None:
    data = {"build_key": key, "files": digests(folder, names)}
    (folder / "manifest.json").write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda folder: None, "None"),
        (lambda folder: (folder / "manifest.json").unlink(), "there are none yet"),
        (lambda folder: (folder / "deep" / "b.bin").unlink(), "deep/b.bin is absent"),
        (lambda folder: (folder / "a.bin").write_bytes(b"x" * 100), "a.bin is damaged"),
        (lambda folder: (folder / "manifest.json").write_text('{"build_key"'), "cannot be read"),
        (lambda folder: (folder / "manifest.json").write_text(json.dumps({"build_key": KEY})), "cannot be read"),
        (lambda folder: write_manifest(folder, "other", ["a.bin"]), "accelerator or its precision changed"),
    ],
)
def test_damaged_artefacts_are_stale_and_the_reason_says_where(
    artefacts: Path, damage: Callable[[Path], object], reason: str
) -> None:
    damage(artefacts)
    assert reason in str(why_stale(artefacts, KEY))


def test_the_key_follows_names_and_contents_and_not_order(tmp_path: Path) -> None:
    one, two, three = files = [tmp_path / name for name in ("one", "two", "three")]
    for file, text in zip(files, "122", strict=True):
        file.write_text(text)
    key = build_key([one, two], tmp_path)
    assert key == build_key([two, one], tmp_path)
    others = {"accelerator": "gpu"}, {"precision": "tf32"}
    assert key not in {build_key([one, two], tmp_path, **other) for other in others}  # type: ignore[arg-type]
    assert key != build_key([one, three], tmp_path)
    two.write_text("3")
    assert key != build_key([one, two], tmp_path)


def test_the_check_of_current_artefacts_imports_nothing_heavy_and_changes_nothing(tmp_path: Path) -> None:
    """It runs at every `up`: a process that has imported PyTorch or gRPC would cost seconds."""
    folder = tmp_path / "densenet161"
    folder.mkdir()
    (folder / "model.pt").write_bytes(b"model")
    write_manifest(folder, build_key(inputs("densenet161")), ["model.pt"])
    before = (folder / "manifest.json").stat().st_ctime_ns
    code = "import sys; from models.builder.__main__ import main\n"
    code += "status = main(['build', 'densenet161']); sys.exit(status or bool({'torch', 'grpc'} & set(sys.modules)))"
    environment = os.environ | {"ARTIFACTS": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "densenet161 is current" in done.stdout
    assert (folder / "manifest.json").stat().st_ctime_ns == before


@pytest.mark.parametrize(
    ("asked", "accelerator", "found"),
    [
        ("", "cpu", "fp32"),
        ("fp32", "cpu", "fp32"),
        ("tf32", "gpu", "tf32"),
        ("fp16", "gpu", "fp16"),
        ("fp16", "cpu", "PRECISION is fp16 and ACCELERATOR is cpu: without a GPU all engines compute in FP32"),
        ("FP16", "gpu", "PRECISION is FP16: set one of fp32, tf32, fp16"),
    ],
)
def test_a_precision_that_cannot_be_had_is_refused(
    asked: str, accelerator: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """In one line, also where a repository is served as it is, and before anything is built."""
    monkeypatch.setenv("PRECISION", asked)
    monkeypatch.setenv("ACCELERATOR", accelerator)
    if "PRECISION" not in found:
        assert build.precision() == found
        return
    monkeypatch.setenv("ARTIFACTS", str(tmp_path))
    monkeypatch.setenv("MODEL_REPOSITORY", "./mine")
    assert main(["build"]) == 1
    assert capsys.readouterr().err == f"models: error: {found}\n"
    assert not list(tmp_path.iterdir())


def test_random_weights_are_tried_again_when_the_hub_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until then the artefacts are current, and each start says loudly what they are. A build takes the place of the
    old one as a whole; one that fails leaves what serves."""
    made: list[str] = []

    def make(spec: Spec, key: str, accelerator: str, directory: Path, precision: str) -> Origin:
        found = Origin("real" if made else "random", "a test")
        (directory / f"{len(made)}.bin").touch()
        if len(made) == 2:
            raise BuildError("no")
        made.append(found.weights)
        data = {"build_key": key, "files": {}, "weights": found.weights}
        (directory / "manifest.json").write_text(json.dumps(data))
        return found

    nobody = Mock(side_effect=Unreachable("could not be fetched"))
    make_densenet = partial(make_current, Spec.load("densenet161"), tmp_path)
    monkeypatch.setattr("models.builder.export.export", make)
    monkeypatch.setattr(build, "reach", nobody)
    for _ in range(2):
        make_densenet()
        assert "densenet161 has RANDOM WEIGHTS" in capsys.readouterr().out
    assert made == ["random"]
    monkeypatch.setattr(build, "reach", lambda url: None)
    make_densenet()
    assert "the hub can be reached now" in capsys.readouterr().out
    monkeypatch.setattr(build, "reach", nobody)
    make_densenet()
    assert made == ["random", "real"]
    with pytest.raises(BuildError):
        make_densenet(force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["densenet161"]
    assert {path.name for path in (tmp_path / "densenet161").iterdir()} == {"1.bin", "manifest.json"}
