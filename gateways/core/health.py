"""Proof of life for Docker healthchecks, and the cure when it fails.

An open port or a readiness endpoint stays green over a dead worker, so a check is a real inference. It costs nothing
under load: where the server's success counter moved since the last check, that is the proof and no probe is sent.

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
from dataclasses import asdict, dataclass, replace
from pathlib import Path

# The smallest honest question: an 8 x 8 grey JPEG.
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


@dataclass(frozen=True)
class _State:
    """What one check leaves for the next, in /tmp (a tmpfs: gone when the container restarts)."""

    failures: int = 0
    progress: float | None = None
    answered: bool = False
    first_check: float = 0.0


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
    the server's count of successes. `heal` (default: end the server process) runs at the third failure in a row and at
    every second one after it. Failures before the first answer count only after START_GRACE_S: a start may be slow.
    """
    path = folder / f"health.{name}"
    state = _load(path)
    count = _read(progress)
    try:
        if count is not None and state.progress is not None and count > state.progress:
            print(f"{name}: answering ({count - state.progress:g} since the last check)")
        else:
            probe()
            count = _read(progress)
            print(f"{name}: answered a probe")
    except Exception as error:
        starting = not state.answered and time.time() - state.first_check < START_GRACE_S
        failures = 0 if starting else state.failures + 1
        _store(path, replace(state, failures=failures, progress=count))
        print(f"{name}: {'not ready yet' if starting else f'failure {failures}'}: {type(error).__name__}: {error}")
        if failures >= FAILURES_TO_HEAL and (failures - FAILURES_TO_HEAL) % 2 == 0:
            (heal or end_server)()
        return 1
    _store(path, replace(state, failures=0, progress=count, answered=True))
    return 0


def end_server() -> None:
    """End every child of PID 1 (the container's init): SIGTERM, then SIGKILL after STOP_GRACE_S."""
    print("ending the server so that the container restarts", flush=True)
    own = os.getpid()
    for sig in (signal.SIGTERM, signal.SIGKILL):
        for pid in _children_of_init():
            if pid != own:
                _kill(pid, sig)
        deadline = time.monotonic() + STOP_GRACE_S
        while _children_of_init() and time.monotonic() < deadline:
            time.sleep(0.1)


def request(
    method: str,
    port: int,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    timeout: float,
) -> bytes:
    """The body of a 200 of this container's own server. Raises RuntimeError on any other status."""
    status, answer = call(method, port, path, body, headers, timeout=timeout)
    if status != http.client.OK:
        raise RuntimeError(f"{method} {path} answered {status}: {answer[:MESSAGE].decode(errors='replace')}")
    return answer


def call(
    method: str,
    port: int,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    timeout: float,
) -> tuple[int, bytes]:
    """One HTTP call to this container's own server: status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _children_of_init() -> list[int]:
    """The pids whose parent is PID 1 and that still run (a zombie has ended)."""
    pids = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it ended while we looked
            continue
        if parent == "1" and state != "Z":
            pids.append(int(stat.parent.name))
    return pids


def _kill(pid: int, sig: signal.Signals) -> None:
    try:
        os.kill(pid, sig)
    except ProcessLookupError:
        pass


def _read(progress: Callable[[], float] | None) -> float | None:
    """The success counter; None where there is none or it cannot be read (then only a probe is a proof)."""
    try:
        return progress() if progress else None
    except Exception:
        return None


def _load(path: Path) -> _State:
    try:
        return _State(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return _State(first_check=time.time())


def _store(path: Path, state: _State) -> None:
    """Replace the file in one step: a check that Docker cuts off leaves no half-written state."""
    draft = path.with_suffix(path.suffix + ".new")
    draft.write_text(json.dumps(asdict(state)))
    draft.replace(path)
