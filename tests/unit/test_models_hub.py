"""A download is the file that the spec states, or a clear error, or a quick "no hub": against a real HTTP server."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from models.builder import hub
from models.builder.hub import BadDownload, Unreachable, fetch

CONTENT = bytes(range(256)) * 10_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Hub(BaseHTTPRequestHandler):
    """/good gives the file, /short stops half way, /silent never answers, the rest is refused."""

    over = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/silent":
            self.over.wait()
            return
        self.send_response(200 if self.path in ("/good", "/short") else 403)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT if self.path == "/good" else CONTENT[: len(CONTENT) // 2])

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    Hub.over.set()
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("digits", [8, 64])
def test_a_good_file_is_kept(address: str, tmp_path: Path, digits: int) -> None:
    fetch(f"{address}/good", SHA256[:digits], tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_another_file_is_an_error_and_not_random_weights(address: str, tmp_path: Path) -> None:
    with pytest.raises(BadDownload, match=f"has SHA-256 {SHA256}, its model.toml says 00000000"):
        fetch(f"{address}/good", "0" * 8, tmp_path / "file")


def test_a_broken_off_download_is_an_error_and_not_random_weights(address: str, tmp_path: Path) -> None:
    with pytest.raises(BadDownload, match=r"stopped \d+ bytes early: run this again"):
        fetch(f"{address}/short", SHA256, tmp_path / "file")


def test_a_refusal_is_no_hub(address: str, tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="403"):
        fetch(f"{address}/denied", SHA256, tmp_path / "file")


def test_nobody_listening_is_no_hub(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="refused"):
        fetch("http://127.0.0.1:9/file", SHA256, tmp_path / "file")


def test_silence_is_no_hub(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "SECONDS_TO_ANSWER", 0.2)
    with pytest.raises(Unreachable):
        fetch(f"{address}/silent", SHA256, tmp_path / "file")
