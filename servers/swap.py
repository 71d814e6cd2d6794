"""Shared by the parts of scripts/swap that run in Triton's and TorchServe's containers."""

import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping

PAUSE_S = 0.5


def main(server: str, about: str | None, steps: Mapping[str, Callable[[], object]]) -> int:
    """Run the step that the command line names; the exit code. A step that fails is one line on stderr."""
    parser = ArgumentParser(description=about, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=steps)
    step = parser.parse_args().step
    try:
        steps[step]()
    except (RuntimeError, OSError) as error:
        _, triton, reason = " ".join(str(error).split()).rpartition('{"error":"')
        if triton:  # the server's message, without its traceback
            reason = reason.partition(r"\n")[0]
        print(f"{server}: {reason}", file=sys.stderr)
        return 1
    return 0


def answers(model: str, probe: Callable[[], object], seconds: float) -> None:
    """Wait until a model that was loaded answers `probe`: under load the first answers may be slow."""
    end = time.monotonic() + seconds
    while True:
        try:
            probe()
            return
        except Exception as error:
            if time.monotonic() > end:
                raise RuntimeError(f"{model} is loaded but does not answer: {error}") from error
            time.sleep(PAUSE_S)
