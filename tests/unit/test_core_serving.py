"""The one file that says what is served."""

import asyncio
from pathlib import Path

import pytest

from gateways.core import serving
from gateways.core.serving import NAME, Serving, ServingError
from tests.unit.upstream_servers import until

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
    """A file that cannot be read for a moment changes nothing."""
    monkeypatch.setattr(serving, "POLL_S", 0.01)
    monkeypatch.setattr(serving, "RETRY_S", 0.01)
    heard: list[str] = []
    fails = [True]

    async def switch(choice: Serving) -> None:
        heard.append(choice.model)
        if choice.model == "two" and fails:
            fails.pop()
            raise RuntimeError("not yet")

    ONE.write(tmp_path)
    follower = asyncio.create_task(serving.follow(tmp_path, ONE, switch))
    TWO.write(tmp_path)
    await until(lambda: heard == ["two", "two"])
    (tmp_path / NAME).write_text("{")
    caplog.clear()
    await until(lambda: "the old model stays" in caplog.text)
    assert heard == ["two", "two"]
    ONE.write(tmp_path)
    await until(lambda: heard == ["two", "two", "one"])
    follower.cancel()
