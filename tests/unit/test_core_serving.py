"""What is served, as files say it: known at start, or the server says what to do; and those that follow it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateways.core import following, serving
from gateways.core.following import Followed
from gateways.core.manifest import Manifest
from gateways.core.serving import NAME, Serving, ServingError
from tests.unit.upstream_servers import manifest, until, write

ONE = Serving("one", "one_trt", True, ("one", "one_trt"), {"MODEL": "", "MODEL_REPOSITORY": ""})
TWO = Serving("two", None, False, ("two",), {"MODEL": "", "MODEL_REPOSITORY": ""}, swapped=True)


@pytest.mark.parametrize("text", [None, "{", "[]", "{}", '{"schema": 2}', '{"schema": 1, "model": "one"}'])
def test_what_cannot_be_read_says_what_to_do(tmp_path: Path, text: str | None) -> None:
    """Absent, half, of another kind or of another schema."""
    if text is not None:
        (tmp_path / NAME).write_text(text)
    with pytest.raises(ServingError, match="run the `models` service"):
        Serving.load(tmp_path)


async def test_followers_hear_of_each_change_once_and_again_until_they_succeed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that cannot be read for a moment changes nothing. What failed is closed at once, what is left when its
    last user has gone."""
    monkeypatch.setattr(following, "POLL_S", 0.01)
    monkeypatch.setattr(following, "RETRY_S", 0.01)
    monkeypatch.setattr(serving, "FOLLOWED", tmp_path / "followed")
    heard: list[str] = []
    fails = [True]

    class Answerer:
        def __init__(self, serving: Serving) -> None:
            self.serving = serving

        async def ready(self, old: object) -> None:
            heard.append(f"ready {self.serving.model}")
            if self.serving == TWO and fails:
                fails.pop()
                raise RuntimeError("not yet")

        async def close(self) -> None:
            heard.append(f"close {self.serving.model}")

    ONE.write(tmp_path)
    async with Followed(tmp_path, Answerer) as followed:
        with followed.use() as first:
            TWO.write(tmp_path)
            await until(lambda: followed.now.serving == TWO)
            assert first.serving == ONE
            assert heard == ["ready one", "ready two", "close two", "ready two"]
        await until(lambda: (tmp_path / "followed").read_text() == "two")
        (tmp_path / NAME).write_text("{")
        caplog.clear()
        await until(lambda: "the old model stays" in caplog.text)
    assert heard[4:] == ["close one", "close two"]


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
