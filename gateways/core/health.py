"""Docker health checks by a real inference, and the restart of a server that fails them.

A readiness endpoint stays green when a worker is dead, so a check is a real inference. Under load it costs nothing: if
the server's success counter has moved since the last check, no probe is sent.

Docker marks an unhealthy container but never restarts it. So after three failures in a row (the number at which Docker
says unhealthy) `watch` ends the server, the container exits, and `restart: unless-stopped` starts a fresh one.

Standard library only: a check starts a Python every few seconds.
"""

import http.client
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

# The smallest real request: an 8 x 8 grey JPEG.
PHOTO = bytes.fromhex(
    "ffd8ffe000104a46494600010100000100010000ffdb004300100b0c0e0c0a100e0d0e1211101318281a181616183123251d283a333d3c393338"
    "3740485c4e404457453738506d51575f626768673e4d71797064785c656763ffc0000b080008000801011100ffc4001400010000000000000000"
    "0000000000000000ffc40014100100000000000000000000000000000000ffda0008010100003f003fffd9"
)

FAILURES_TO_HEAL = 3
# Longer where a start builds engines first (compose/servers.gpu.yaml).
START_GRACE_S = float(os.environ.get("START_GRACE_S", "120"))
STOP_GRACE_S = 3.0
MESSAGE = 1000


@dataclass
class _State:
    """The state that one check keeps for the next, in /tmp (a tmpfs, so a restarted container begins without it)."""

    failures: int = 0
    progress: float | None = None
    answered: bool = False
    first_check: float = 0.0


class Refused(RuntimeError):
    """The server answered with another status than 200. The text has the status and the start of the body."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class ElsewhereError(RuntimeError):
    """This server answers, and one that it needs does not: it is left running, as a restart of it would not help."""


class DeadError(RuntimeError):
    """The server says that a process of it has died: it will not come back by itself, so it is healed at once."""


def watch(
    probe: Callable[[], object],
    name: str,
    *,
    progress: Callable[[], float] | None = None,
    heal: Callable[[], None] | None = None,
    folder: Path = Path("/tmp"),
) -> int:
    """Run one check and return the exit code for Docker: 0 healthy, 1 not; one line on stdout says why.

    `probe` runs one inference and raises when it fails; it must end by itself before Docker's timeout. `progress` reads
    the server's count of successes. If it cannot be read, a probe is sent. `heal` (default: end the server) runs at the
    third failure in a row and at every second one after it, unless that is an ElsewhereError. Failures before the first
    answer count only after START_GRACE_S: a start may be slow. DeadError counts as the third failure.
    """
    path = folder / f"health.{name}"
    try:
        state = _State(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        state = _State(first_check=time.time())
    before, state.progress = state.progress, _read(progress)
    healable = True
    try:
        ended = os.environ.get("ENDED")  # gateways/core/recently: a process has, so older answers prove nothing
        if not ended and before is not None and state.progress is not None and state.progress > before:
            print(f"{name}: answering ({state.progress - before:g} since the last check)")
        else:
            probe()
            state.progress = _read(progress)
            print(f"{name}: answered a probe")
        state.failures, state.answered = 0, True
    except Exception as error:
        starting = not state.answered and time.time() - state.first_check < START_GRACE_S
        healable = not isinstance(error, ElsewhereError)
        state.failures = 0 if starting else state.failures + 1
        if isinstance(error, DeadError) and not starting:
            state.failures = max(state.failures, FAILURES_TO_HEAL)
        said = "not ready yet" if starting else f"failure {state.failures}"
        print(f"{name}: {said}: {type(error).__name__}: {error}")
    # In one step, so that a check that Docker kills leaves no half-written state.
    draft = path.with_suffix(path.suffix + ".new")
    draft.write_text(json.dumps(asdict(state)))
    draft.replace(path)
    if healable and state.failures >= FAILURES_TO_HEAL and (state.failures - FAILURES_TO_HEAL) % 2 == 0:
        (heal or end_server)()
    return int(not state.answered or state.failures > 0)


def end_server() -> None:
    """End every process of this container but its init: SIGTERM, then SIGKILL after STOP_GRACE_S."""
    print("ending the server so that the container restarts", flush=True)
    os.kill(-1, signal.SIGTERM)  # all but process 1 and this one
    time.sleep(STOP_GRACE_S)  # the container, and this check, may end here
    os.kill(-1, signal.SIGKILL)


def request(
    method: str,
    port: int,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    timeout: float,
) -> bytes:
    """The body of a 200 of this container's own server. Raises Refused on any other status."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        answer = response.read()
    finally:
        connection.close()
    if response.status != http.client.OK:
        text = f"{method} {path} answered {response.status}: {answer[:MESSAGE].decode(errors='replace')}"
        raise Refused(response.status, text)
    return answer


def _read(progress: Callable[[], float] | None) -> float | None:
    try:
        return progress() if progress else None
    except Exception:
        return None
