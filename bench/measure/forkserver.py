"""Forks a process group for each job: Locust is imported once, so a visit costs no start-up.

    python -m bench.measure.forkserver      jobs on stdin, their results on stdout, pickled: see launcher.py

The result of a job is a Visit, or how the routes agree, or the LoadError that says why there is no result. The server
ends when stdin ends, or by SIGTERM.

The groups of jobs with several windows that come together are all there at once. They get ready one after the other,
and then take turns: one round in this order, the next in the reverse order. Only the group whose turn it is does
anything.
"""

import contextlib
import logging
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import IO, Any

import gevent
import locust  # noqa: F401  patches the standard library: before what uses it
from gevent.monkey import get_original

from bench.measure import group, parity
from bench.measure.launcher import Agreement, Job, LoadError
from locustfiles import overlap

PARITY_S = 300.0

# gevent's own would start its loop in this process, which only forks.
fork, waitpid, poll = get_original("os", "fork"), get_original("os", "waitpid"), get_original("select", "poll")

TURN, OVER = b"t", b"o"


def answer(asked: list[Job] | Agreement) -> Any:
    """The results of the jobs, each a Visit or a LoadError; or how routes agree."""
    if not isinstance(asked, list):
        return isolated([lambda _: parity.check(*asked)], 0, PARITY_S)[0]
    limit_s = group.LIMIT_S + max(job.window.warm_s + job.window.seconds for job in asked)
    works, rounds = [partial(group.visit, job) for job in asked], max(job.window.rounds for job in asked)
    if rounds == 1:  # nothing to take turns at: nobody's connection waits until its server closes it
        return [isolated([work], 1, limit_s)[0] for work in works]
    return isolated(works, rounds, limit_s)


def isolated[T](works: Sequence[Callable[[Iterator[None]], T]], rounds: int, limit_s: float) -> list[T | LoadError]:
    """The result of each work, or the LoadError that says why it has none. Each runs in a process group of its own,
    which is killed afterwards.

    A work gets an iterator, and goes on at each step when it is its turn. No turn may take longer than `limit_s`, nor
    what comes before the first and after the last.
    """
    children: list[_Child[T]] = []
    with contextlib.ExitStack() as stack:
        for work in works:
            out = stack.enter_context(tempfile.TemporaryFile())
            children.append(stack.enter_context(contextlib.closing(_Child(work, limit_s, out))))
            children[-1].wait()
        for number in range(rounds):
            for child in children[:: -1 if number % 2 else 1]:
                child.tell(TURN)
                child.wait()
        for child in children:
            child.tell(OVER)
        return [child.result() for child in children]


class _Child[T]:
    """A process group that does one work."""

    def __init__(self, work: Callable[[Iterator[None]], T], limit_s: float, out: IO[bytes]) -> None:
        self._limit_s, self._out = limit_s, out
        self._ended, self._why = False, ""
        ready, told = os.pipe(), os.pipe()
        self._pid = fork()
        if not self._pid:
            code = 1
            try:
                os.dup2(2, 1)  # stdout is for results, and closed when the server is dead
                gevent.reinit()  # else all children would wait on one event queue
                _lead(0)
                pickle.dump(_done(work, _turns(ready[1], told[0])), out)
                out.flush()
                code = 0
            finally:
                os._exit(code)
        _lead(self._pid)
        os.close(ready[1])
        os.close(told[0])
        self._ready, self._told = ready[0], told[1]

    def wait(self) -> None:
        """Until it waits for its turn, or has ended."""
        limit = time.monotonic() + self._limit_s
        ready = poll()
        ready.register(self._ready)
        while not self._ended:
            # Its load processes have the pipe too: that it ended does not close it.
            if ready.poll(10) and os.read(self._ready, 1):
                return
            ended, status = waitpid(self._pid, os.WNOHANG)
            self._ended = bool(ended)
            late = not ended and time.monotonic() > limit
            if status or late:
                self._why = f"not done within {self._limit_s:g} s" if late else "the load's process group was killed"
            if ended or late:
                self.kill()

    def tell(self, what: bytes) -> None:
        if not self._ended:
            os.write(self._told, what)

    def result(self) -> T | LoadError:
        self.wait()
        if self._why:
            return LoadError(self._why)
        self._out.seek(0)
        result: T | LoadError = pickle.load(self._out)
        return result

    def kill(self) -> None:
        """End the whole group: the load processes, and the leader when it is late."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        if not self._ended:
            waitpid(self._pid, 0)
            self._ended = True

    def close(self) -> None:
        self.kill()
        os.close(self._ready)
        os.close(self._told)


def _turns(ready: int, told: int) -> Iterator[None]:
    """In the child: says that it is ready, and goes on when it is its turn, until all turns are over.

    It waits without gevent: nothing else in its process goes on meanwhile.
    """
    while os.write(ready, b".") and os.read(told, 1) == TURN:
        yield


def _lead(pid: int) -> None:
    """Make a child the leader of a process group. Parent and child both do: neither may be ahead of it."""
    with contextlib.suppress(ProcessLookupError):
        os.setpgid(pid, pid)


def _done[T](work: Callable[[Iterator[None]], T], turns: Iterator[None]) -> T | LoadError:
    try:
        return work(turns)
    except LoadError as error:
        return error
    except Exception as error:
        logging.exception("a job failed")
        return LoadError(f"{type(error).__name__}: {error}")


def main() -> int:
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format="fiveway: %(message)s")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # Users of a load process must wait concurrently. A fork checks it, because the check opens connections.
    if isinstance(failed := isolated([lambda _: overlap.check()], 0, PARITY_S)[0], LoadError):
        print(f"fiveway: {failed}", file=sys.stderr)
        return 1
    with contextlib.suppress(EOFError):
        while True:
            pickle.dump(answer(pickle.load(sys.stdin.buffer)), sys.stdout.buffer)
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
