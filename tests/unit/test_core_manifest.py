"""The manifest: what is served is known at start, or the server says what to do."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateways.core.manifest import Manifest
from gateways.core.serving import ServingError
from tests.unit.upstream_servers import manifest, write

SPOILED: dict[str, Callable[[dict[str, Any]], str]] = {
    "another schema": lambda data: json.dumps(data | {"schema": 2}),
    "a missing field": lambda data: json.dumps({name: value for name, value in data.items() if name != "classes"}),
    "labels that do not match": lambda data: json.dumps(data | {"classes": data["classes"] + 1}),
    "half a file": lambda data: json.dumps(data)[:50],
}


@pytest.mark.parametrize("case", SPOILED)
def test_a_manifest_that_does_not_fit_is_refused(tmp_path: Path, case: str) -> None:
    """At start, with the cure."""
    path = write(tmp_path, manifest()) / "manifest.json"
    path.write_text(SPOILED[case](json.loads(path.read_text())))
    with pytest.raises(ServingError, match="Run the `models` service again"):
        Manifest.load(tmp_path, "tiny")
    with pytest.raises(ServingError, match=r"'nope'.*Run the `models` service"):
        Manifest.load(tmp_path, "nope")
