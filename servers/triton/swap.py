#!/usr/bin/env python3
"""Triton's part of scripts/swap: docker compose exec triton swap load|tidy

models   print what must be loaded at the start
load     load what serving.next.json names and wait until it answers; exit 1 with Triton's reason where it does not
tidy     unload all that serving.json does not name: the old model after a swap, the new one after a failed one
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gateways.core.serving import NEXT, Serving, ServingError
from servers.triton.health import load, ok, probe

ARTIFACTS = Path(os.environ.get("ARTIFACTS", "/artifacts"))
# Engines may be built while a model loads, and both models share the cores.
LOAD_S = 1800.0
ANSWER_S = 180.0
UNLOAD_S = 60.0
HELD = ("READY", "LOADING", "UNLOADING")
LOADER = Path("/tmp/swap.pid")


def print_models() -> None:
    print(*Serving.load(ARTIFACTS).models)


def load_next() -> None:
    serving = Serving.load(ARTIFACTS, NEXT)
    LOADER.write_text(str(os.getpid()))
    try:
        for model in serving.models:
            load(model, timeout=LOAD_S)
        for model in filter(None, (serving.model, serving.accelerated)):
            _answer(model)
    finally:
        LOADER.unlink(missing_ok=True)


def _answer(model: str) -> None:
    """Wait until it answers a real inference: under load the first ones may be slow."""
    end = time.monotonic() + ANSWER_S
    while True:
        try:
            return probe(f"/v2/models/{model}")
        except Exception as error:
            if time.monotonic() > end:
                raise RuntimeError(f"{model} is loaded but does not answer: {error}") from error
            time.sleep(1)


def tidy() -> None:
    """Requests at work are answered first; new ones are told that the model is unknown."""
    _stop_loader()
    keep = Serving.load(ARTIFACTS).models
    end = time.monotonic() + UNLOAD_S
    while extra := {entry["name"] for entry in _index() if entry.get("state") in HELD and entry["name"] not in keep}:
        for name in {entry["name"] for entry in _index() if entry.get("state") == "READY"} & extra:
            ok("POST", f"/v2/repository/models/{name}/unload", {})
        if time.monotonic() > end:
            raise RuntimeError(
                f"{', '.join(sorted(extra))} could not be unloaded yet: the next swap does, or a restart"
            )
        time.sleep(0.2)


def _stop_loader() -> None:
    """A `load` whose caller was interrupted goes on in this container."""
    try:
        os.kill(int(LOADER.read_text()), signal.SIGTERM)
    except (FileNotFoundError, ProcessLookupError):
        pass
    LOADER.unlink(missing_ok=True)


def _index() -> list[dict[str, str]]:
    found: list[dict[str, str]] = ok("POST", "/v2/repository/index", {})
    return found


def main(arguments: list[str]) -> int:
    steps: dict[str, Callable[[], None]] = {"models": print_models, "load": load_next, "tidy": tidy}
    if len(arguments) != 1 or arguments[0] not in steps:
        sys.exit(__doc__)
    try:
        steps[arguments[0]]()
    except (RuntimeError, OSError, ServingError) as error:
        reason = str(error).rpartition('{"error":"')[2].partition(r"\n")[0]  # without the traceback that follows
        print(f"triton: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
