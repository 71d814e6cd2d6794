"""What a visit asks scripts/bench, which pauses servers. The pausing itself: tests/stack/test_peers.py."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.measure import pauses
from bench.measure.launcher import LoadError


@pytest.fixture
def pipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """The host's ends: what is asked, and where it answers."""
    monkeypatch.setattr(pauses, "PIPES", tmp_path)
    for name in ("asked", "answered"):
        os.mkfifo(tmp_path / name)
    ends = os.open(tmp_path / "asked", os.O_RDWR), os.open(tmp_path / "answered", os.O_RDWR)
    yield ends
    for end in ends:
        os.close(end)


@pytest.mark.parametrize(
    ("answered", "why"), [(b"litserve\n", ""), (b"failed\n", "were not paused"), (b"", "were not")]
)
def test_it_waits_until_the_others_are_paused(
    answered: bytes, why: str, pipes: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that cannot be paused is an error, and so is a host that says nothing."""
    monkeypatch.setattr(pauses, "LIMIT_MS", 5000 if answered else 1)
    asked: list[bytes] = []

    def host() -> None:
        asked.append(os.read(pipes[0], 64))
        os.write(pipes[1], answered)

    thread = threading.Thread(target=host)
    thread.start()
    if why:
        with pytest.raises(LoadError, match=why):
            pauses.let_run("litserve")
    else:
        pauses.let_run("litserve")
    thread.join()
    assert asked == [b"litserve\n"]


def test_without_a_host_to_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other studies have no pipes. Where nobody holds their other ends, that is said instead of waiting for ever."""
    monkeypatch.setattr(pauses, "PIPES", tmp_path / "none")
    pauses.let_run("litserve")
    monkeypatch.setattr(pauses, "PIPES", tmp_path)
    os.mkfifo(tmp_path / "asked")
    with pytest.raises(LoadError, match="cannot be paused"):
        pauses.let_run("litserve")
