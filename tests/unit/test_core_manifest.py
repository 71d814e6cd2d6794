"""The manifest: what is served is known at start, or the server says what to do."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateways.core.manifest import Manifest, ManifestError
from tests.unit import tiny_model


def test_a_built_model_is_read(tmp_path: Path) -> None:
    """Fields, preprocessing and labels arrive as written."""
    manifest = tiny_model.build(tmp_path)
    assert (manifest.model, manifest.kind, manifest.weights) == ("tiny", "classifier", "random")
    assert manifest.preprocess.crop == tiny_model.SIDE
    assert manifest.labels == tuple(f"label {i}" for i in range(tiny_model.CLASSES))
    assert manifest.parity.min_cosine == 1.0


def test_an_embedding_model_has_no_labels(tmp_path: Path) -> None:
    """And needs no labels file."""
    assert tiny_model.build(tmp_path, "embedding").labels == ()


def test_absent_artefacts_say_what_to_do(tmp_path: Path) -> None:
    """The message names the file and the cure."""
    with pytest.raises(ManifestError, match=r"no artefacts of model 'nope'.*Run the `models` service"):
        Manifest.load(tmp_path, "nope")


def _other_schema(data: dict[str, Any]) -> None:
    data["schema"] = 2


def _no_classes(data: dict[str, Any]) -> None:
    del data["classes"]


def _more_classes(data: dict[str, Any]) -> None:
    data["classes"] += 1


@pytest.mark.parametrize("spoil", [_other_schema, _no_classes, _more_classes])
def test_a_manifest_that_does_not_fit_is_refused(tmp_path: Path, spoil: Callable[[dict[str, Any]], None]) -> None:
    """Another schema, a missing field, labels that do not match: each at start, with the cure."""
    path = tiny_model.build(tmp_path).directory / "manifest.json"
    data = json.loads(path.read_text())
    spoil(data)
    path.write_text(json.dumps(data))
    with pytest.raises(ManifestError, match="Run the `models` service again"):
        Manifest.load(tmp_path, "tiny")


def test_a_half_written_manifest_is_refused(tmp_path: Path) -> None:
    """Not JSON."""
    path = tiny_model.build(tmp_path).directory / "manifest.json"
    path.write_text(path.read_text()[:50])
    with pytest.raises(ManifestError, match="cannot be read"):
        Manifest.load(tmp_path, "tiny")
