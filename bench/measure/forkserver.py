"""Forks a process group for each job: Locust is imported once, so a visit costs no start-up.

    python -m bench.measure.forkserver      jobs on stdin, the result of each on stdout, pickled: see launcher.py

The result of a job is a Visit, or how the routes agree, or the LoadError that says why there is no result. The server
ends when stdin ends, or by SIGTERM.
"""

import contextlib
import logging
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import gevent
import locust  # noqa: F401  patches the standard library: before what uses it
from gevent.monkey import get_original

from bench.measure import group, parity
from bench.measure.launcher import Agreement, Job, LoadError
from locustfiles import overlap

PARITY_S = 300.0

# gevent's own would start its loop in this process, which only forks.
fork, waitpid, sleep = get_original("os", "fork"), get_original("os", "waitpid"), get_original("time", "sleep")


def answer(job: Job | Agreement) -> Any:
    """Run one job; its result, or a LoadError."""
    if isinstance(job, Job):
        return isolated(lambda: group.visit(job), group.LIMIT_S + job.window.warm_s + job.window.seconds)
    return isolated(lambda: parity.check(*job), PARITY_S)


def isolated[T](work: Callable[[], T], limit_s: float) -> T | LoadError:
    """The result of a job that runs in its own process group, which is killed afterwards; or why there is no result."""
    with tempfile.TemporaryFile() as out:
        child = fork()
        if not child:
            code = 1
            try:
                os.dup2(2, 1)  # stdout is for results, and closed when the server is dead
                gevent.reinit()  # else all children would wait on one event queue
                _lead(0)
                pickle.dump(_done(work), out)
                out.flush()
                code = 0
            finally:
                os._exit(code)
        _lead(child)
        ended, status, limit = 0, 0, time.monotonic() + limit_s
        try:
            while not ended and time.monotonic() < limit:
                sleep(0.01)
                ended, status = waitpid(child, os.WNOHANG)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # the workers, and the leader when it is late
            if not ended:
                waitpid(child, 0)
        if not ended or status:
            return LoadError("the load's process group was killed" if ended else f"not done within {limit_s:g} s")
        out.seek(0)
        result: T | LoadError = pickle.load(out)
        return result


def _lead(pid: int) -> None:
    """Make a child the leader of a process group. Parent and child both do: neither may be ahead of it."""
    with contextlib.suppress(ProcessLookupError):
        os.setpgid(pid, pid)


def _done[T](work: Callable[[], T]) -> T | LoadError:
    try:
        return work()
    except LoadError as error:
        return error
    except Exception as error:
        logging.exception("a job failed")
        return LoadError(f"{type(error).__name__}: {error}")


def main() -> int:
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format="fiveway: %(message)s")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # Users of a load process must wait concurrently. A fork checks it, because the check opens connections.
    if isinstance(failed := isolated(overlap.check, PARITY_S), LoadError):
        print(f"fiveway: {failed}", file=sys.stderr)
        return 1
    with contextlib.suppress(EOFError):
        while True:
            pickle.dump(answer(pickle.load(sys.stdin.buffer)), sys.stdout.buffer)
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
