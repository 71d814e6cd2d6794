"""The one file that says what is served."""

from pathlib import Path

import pytest

from gateways.core import serving
from gateways.core.serving import NAME, Followed, Serving, ServingError
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
    """A file that cannot be read for a moment changes nothing; what is left is closed when its last user has gone."""
    monkeypatch.setattr(serving, "POLL_S", 0.01)
    monkeypatch.setattr(serving, "RETRY_S", 0.01)
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
            assert heard == ["ready one", "ready two", "ready two"]
        await until(lambda: (tmp_path / "followed").read_text() == "two")
        (tmp_path / NAME).write_text("{")
        caplog.clear()
        await until(lambda: "the old model stays" in caplog.text)
    assert heard == ["ready one", "ready two", "ready two", "close one", "close two"]
