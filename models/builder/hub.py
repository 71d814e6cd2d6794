"""One download from a model hub, checked by its SHA-256. It gives up quickly if no hub can be reached."""

import os
import socket
import threading
from http.client import HTTPException
from pathlib import Path
from urllib.request import urlopen

from models.builder.spec import BuildError

SECONDS_TO_ANSWER = 5
CA_BUNDLE = Path("/run/secrets/ca")
"""The host's CA bundle where the host trusts a private CA; empty or absent elsewhere."""


class Unreachable(BuildError):
    """No hub gave the file."""


def fetch(url: str, sha256: str, path: Path) -> None:
    """Download `url` to `path`. `sha256` is the digest's hex or the start of it.

    Raises Unreachable without a good answer within SECONDS_TO_ANSWER: the build then goes on with random weights.
    Raises BuildError if an answer broke off or has another digest: the build then stops.
    """
    from torch.hub import download_url_to_file  # not above: `reach` must not pay for it

    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SECONDS_TO_ANSWER)  # the library sets none: a hub that falls silent would hold the build
    try:
        reach(url)
        download_url_to_file(url, str(path), sha256, progress=False)
    except (OSError, HTTPException) as error:
        raise BuildError(f"the download of {url} broke off ({error}): run this again") from error
    except RuntimeError as error:  # its "invalid hash value", with both of them
        raise BuildError(
            f"{url}: {error}: run this again; if that does not help, something between here and the hub answers in its "
            "place, or the file there is not the one of model.toml"
        ) from error
    finally:
        socket.setdefaulttimeout(before)


def reach(url: str) -> None:
    """Raise Unreachable unless `url` has a good answer. In a thread, because no timeout bounds a name look-up."""
    if CA_BUNDLE.is_file() and CA_BUNDLE.stat().st_size:  # a plain `up` hands in an empty one
        os.environ["SSL_CERT_FILE"] = str(CA_BUNDLE)
    outcome = [f"no answer within {SECONDS_TO_ANSWER} s"]

    def ask() -> None:
        try:
            urlopen(url).close()
            outcome.clear()
        except Exception as error:
            outcome[:] = [" ".join(str(error).split())]

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(SECONDS_TO_ANSWER)
    if outcome:
        raise Unreachable(f"{url} could not be fetched ({outcome[0]})")
