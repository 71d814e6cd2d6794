"""One download from a model hub, checked by its SHA-256, and quick to give up where no hub can be reached."""

import hashlib
import ssl
import threading
import urllib.request
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from models.builder.errors import BuildError

SECONDS_TO_ANSWER = 5
CA_BUNDLE = Path("/run/secrets/ca")
"""The host's CA bundle where the host trusts a private CA; empty or absent elsewhere."""


class Unreachable(Exception):
    """No hub gave the file. The message is the reason, in one line."""


class BadDownload(BuildError):
    """The hub is there, but what came is not the file."""


def fetch(url: str, sha256: str, path: Path) -> None:
    """Download `url` to `path`. `sha256` is the digest's hex or the start of it.

    Raises Unreachable when there is no good answer within SECONDS_TO_ANSWER; BadDownload when an answer began and broke
    off, or has another digest: that is no reason to go on without the weights.
    """
    digest = hashlib.sha256()
    with _open(url) as answer, path.open("wb") as file:
        try:
            while chunk := answer.read(1 << 20):
                digest.update(chunk)
                file.write(chunk)
        except (OSError, HTTPException) as error:
            raise BadDownload(f"the download of {url} broke off ({error}): run this again") from error
        if answer.length:  # bytes that were announced and did not come: http.client does not complain
            raise BadDownload(f"the download of {url} stopped {answer.length} bytes early: run this again")
    if not digest.hexdigest().startswith(sha256):
        raise BadDownload(
            f"{url} has SHA-256 {digest.hexdigest()}, its model.toml says {sha256}: something between here and the hub "
            "answers in its place, or the file there changed"
        )


def _open(url: str) -> HTTPResponse:
    """The answer to GET `url`. In a thread of its own, because no socket timeout bounds a name look-up."""
    context = ssl.create_default_context()
    if CA_BUNDLE.is_file() and CA_BUNDLE.stat().st_size:  # a plain `up` hands in an empty one
        context.load_verify_locations(CA_BUNDLE)
    outcome: list[HTTPResponse | Exception] = []

    def get() -> None:
        try:
            outcome.append(urllib.request.urlopen(url, timeout=SECONDS_TO_ANSWER, context=context))
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=get, daemon=True)
    thread.start()
    thread.join(SECONDS_TO_ANSWER)
    match outcome:
        case [Exception() as error]:
            raise Unreachable(" ".join(str(error).split())) from error
        case [HTTPResponse() as answer]:
            return answer
    raise Unreachable(f"no answer within {SECONDS_TO_ANSWER} s")
