"""Forks a process group for each job: Locust is imported once, so a visit costs no start-up.

    python -m bench.measure.forkserver      a job per line of stdin, its result per line of stdout, as JSON

`{"kind": "visit", ...}` gives a Visit, `{"kind": "parity", ...}` how the routes agree. Ends with stdin, or by SIGTERM.
"""

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import gevent
import locust  # noqa: F401  patches the standard library: before what uses it
from gevent.monkey import get_original

from bench.measure import parity
from bench.measure.group import LIMIT_S, GroupError, visit
from bench.measure.measured import Cell, Visit
from locustfiles import overlap

PARITY_S = 300.0

# gevent's own would start its loop in this process, which only forks.
fork, waitpid, sleep = get_original("os", "fork"), get_original("os", "waitpid"), get_original("time", "sleep")


def answer(job: Mapping[str, Any]) -> dict[str, Any]:
    """The result of one job."""
    if job["kind"] == "parity":
        cells = [Cell(**cell) for cell in job["cells"]]
        return isolated(lambda: parity.check(cells, job["host"]), PARITY_S)
    about = Visit(job["block"], job["position"], datetime.now(UTC).isoformat(timespec="seconds"))

    def measure() -> dict[str, Any]:
        try:
            visit(job, about)
        except GroupError as error:
            about.problem = str(error)
        return asdict(about)

    return asdict(about) | isolated(measure, LIMIT_S + job["warm_s"] + job["seconds"])


def isolated(work: Callable[[], dict[str, Any]], limit_s: float) -> dict[str, Any]:
    """Do it in a process group of its own, of which nothing is left after; {"problem": why} when there is no result."""
    reader, writer = os.pipe()
    child = fork()
    if not child:
        gevent.reinit()  # else all children would wait on one event queue
        os.setpgid(0, 0)
        os.close(reader)
        try:
            result = work()
        except Exception as error:
            logging.exception("a job failed")
            result = {"problem": f"{type(error).__name__}: {error}"}
        with os.fdopen(writer, "w") as out:
            json.dump(result, out)
        os._exit(0)
    os.close(writer)
    os.set_blocking(reader, False)
    ended, text, limit = False, b"", time.monotonic() + limit_s
    try:
        while not ended and time.monotonic() < limit:
            sleep(0.01)
            ended = waitpid(child, os.WNOHANG)[0] == child
            text += _what_is_in(reader)
    finally:
        os.close(reader)
        try:
            os.killpg(child, signal.SIGKILL)  # the workers, and the leader when it is late
        except ProcessLookupError:
            pass
        if not ended:
            waitpid(child, 0)
    if text:
        return dict(json.loads(text))
    return {"problem": "the load's process group was killed" if ended else f"not done within {limit_s:g} s"}


def _what_is_in(pipe: int) -> bytes:
    """All that can be read without waiting."""
    text = b""
    try:
        while piece := os.read(pipe, 65536):
            text += piece
    except BlockingIOError:
        pass
    return text


def prove_overlap() -> dict[str, Any]:
    """That the users of a load process wait side by side; it opens connections, so a fork does it."""
    overlap.check()
    return {"overlap": True}


def main() -> int:
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format="fiveway: %(message)s")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    proof = isolated(prove_overlap, PARITY_S)
    if "problem" in proof:
        print(f"fiveway: {proof['problem']}", file=sys.stderr)
        return 1
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
