"""When the builder works and when it rests."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from models.builder.build import locked, make_current, replace
from models.builder.currency import ROOT, build_key, digests, inputs, why_stale
from models.builder.spec import BuildError, Spec

KEY = "k" * 64


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
        (lambda folder: (folder / "manifest.json").write_text("[]"), "cannot be read"),
        (lambda folder: (folder / "manifest.json").write_text(json.dumps({"build_key": KEY})), "cannot be read"),
        (lambda folder: write_manifest(folder, "other", ["a.bin"]), "its sources or its accelerator changed"),
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
    assert key not in {build_key([one, two], tmp_path, accelerator="gpu"), build_key([one, three], tmp_path)}
    two.write_text("3")
    assert key != build_key([one, two], tmp_path)


def test_the_key_covers_spec_builder_handler_preprocessing_and_photos() -> None:
    """What is forgotten here is served stale."""
    names = {path.relative_to(ROOT).as_posix() for path in inputs("densenet161")}
    assert names >= {
        "models/densenet161/model.toml",
        "models/builder/export.py",
        "requirements/models.txt",
        "servers/torchserve/handler.py",
        "servers/triton/jpeg/model.py",
        "gateways/core/preprocess.py",
        "models/photos/otter_224x224.jpg",
    }
    assert not any("openclip" in name for name in names)


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


def test_a_volume_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="cannot be written"), locked(tmp_path / "absent"):
        pass


def test_a_new_folder_takes_the_place_of_the_old_one_whole(tmp_path: Path) -> None:
    for name in ("model", ".new"):
        (tmp_path / name / name).mkdir(parents=True)
    replace(tmp_path / "model", tmp_path / ".new")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["model", "model/.new"]


def test_a_failed_build_leaves_what_was_there_and_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Artefacts that serve are not thrown away for artefacts that cannot be made."""

    def fail(spec: Spec, key: str, accelerator: str, directory: Path) -> None:
        (directory / "half").touch()
        raise BuildError("no")

    monkeypatch.setattr("models.builder.export.export", fail)
    (tmp_path / "densenet161").mkdir()
    (tmp_path / "densenet161" / "old").touch()
    with pytest.raises(BuildError):
        make_current(Spec.load("densenet161"), tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["densenet161", "densenet161/old"]
