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
    """/good gives the file, /short stops half way, /stuck waits there, /silent never answers, the rest is refused."""

    over = threading.Event()

    def do_GET(self) -> None:
        if self.path == "/silent":
            self.over.wait()
            return
        self.send_response(200 if self.path in ("/good", "/short", "/stuck") else 403)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        try:
            self.wfile.write(CONTENT if self.path == "/good" else CONTENT[: len(CONTENT) // 2])
        except OSError:  # whoever only asks whether the file is there hangs up
            return
        if self.path == "/stuck":
            self.over.wait()

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


@pytest.mark.parametrize(
    ("path", "digest", "says"),
    [
        ("/good", "0" * 8, f"(?=.*00000000)(?=.*{SHA256})"),
        ("/short", SHA256, "run this again"),
        ("/stuck", SHA256, "broke off"),
    ],
)
def test_another_file_is_an_error_and_not_random_weights(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, digest: str, says: str
) -> None:
    monkeypatch.setattr(hub, "SECONDS_TO_ANSWER", 2 if path == "/stuck" else 30)
    with pytest.raises(BadDownload, match=says):
        fetch(f"{address}{path}", digest, tmp_path / "file")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("url", "says"),
    [("{}/denied", "403"), ("{}/silent", "timed out|no answer"), ("http://127.0.0.1:9/file", "refused")],
)
def test_nothing_there_is_no_hub(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, says: str
) -> None:
    monkeypatch.setattr(hub, "SECONDS_TO_ANSWER", 0.2 if "silent" in url else 30)
    with pytest.raises(Unreachable, match=says):
        fetch(url.format(address), SHA256, tmp_path / "file")
