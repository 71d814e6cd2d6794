"""Which of other projects' servers run: in the study `peers` only the one that is measured. Some take a fifth of a core
while nobody asks them.

No container may pause another, so scripts/bench does it on the host. It is asked by two named pipes.
"""

import os
from pathlib import Path
from select import POLLIN

from gevent.monkey import get_original

from bench.measure.launcher import LoadError

PIPES = Path("/pauses")
"""Where scripts/bench mounts its pipes; else there is nothing to pause."""
LIMIT_MS = 30_000
ALL = "all"

poll = get_original("select", "poll")


def let_run(server: str) -> None:
    """Of these servers let only this Compose service run, or ALL. Raises LoadError."""
    if not PIPES.is_dir():
        return
    asked, answered = f"{server}\n".encode(), b""
    try:
        question = os.open(PIPES / "asked", os.O_WRONLY | os.O_NONBLOCK)
        answer = os.open(PIPES / "answered", os.O_RDONLY | os.O_NONBLOCK)
        os.write(question, asked)
        ready = poll()
        ready.register(answer, POLLIN)
        if ready.poll(LIMIT_MS):
            answered = os.read(answer, 4096)
        os.close(question)
        os.close(answer)
    except OSError as error:
        raise LoadError(f"the servers that are not measured cannot be paused: {error}") from error
    if answered != asked:
        raise LoadError("the servers that are not measured were not paused: the lines above say why")
