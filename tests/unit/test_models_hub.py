"""A download is the file that the spec states, or a clear error, or a quick "no hub": against a real HTTP server."""

import hashlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.builder import hub
from models.builder.hub import Unreachable, fetch
from models.builder.spec import BuildError
from tests.unit.locust_servers import Reply, answering

CONTENT = bytes(range(256)) * 10_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """/good gives the file, /short stops half way, /stuck waits there, /silent never answers, the rest is refused."""
    over = threading.Event()

    def answer(_: str, path: str, *__: object) -> Reply:
        if path == "/silent":
            over.wait()
        status = 200 if path in ("/good", "/short", "/stuck") else 403
        body = CONTENT if path == "/good" else CONTENT[: len(CONTENT) // 2]
        after = "keep-alive" if path == "/stuck" else "close"
        return status, body, {"content-length": str(len(CONTENT)), "connection": after}

    with answering(answer) as port:
        yield f"http://127.0.0.1:{port}"
        over.set()


@pytest.mark.parametrize("digits", [8, 64])
def test_a_good_file_is_kept(address: str, tmp_path: Path, digits: int) -> None:
    fetch(f"{address}/good", SHA256[:digits], tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("url", "digest", "seconds", "error", "says"),
    [
        # Another file is an error, and not random weights.
        ("{}/good", "0" * 8, 30, BuildError, f"(?=.*00000000)(?=.*{SHA256})"),
        ("{}/short", SHA256, 30, BuildError, "again"),
        ("{}/stuck", SHA256, 2, BuildError, "broke off"),
        # An empty address means that there is no hub.
        ("{}/denied", SHA256, 30, Unreachable, "403"),
        ("{}/silent", SHA256, 0.2, Unreachable, "timed out|no answer"),
        ("http://127.0.0.1:9/file", SHA256, 30, Unreachable, "refused"),
    ],
)
def test_a_download_that_fails(
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    digest: str,
    seconds: float,
    error: type[Exception],
    says: str,
) -> None:
    """It leaves no file."""
    monkeypatch.setattr(hub, "SECONDS_TO_ANSWER", seconds)
    with pytest.raises(BuildError, match=says) as raised:
        fetch(url.format(address), digest, tmp_path / "file")
    assert type(raised.value) is error
    assert not list(tmp_path.iterdir())
