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
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from gateways.core.serving import NEXT, Serving
from servers import swap
from servers.triton.health import end_processes, index, load, ok, probe

# Engines may be built while a model loads, and both models share the cores.
LOAD_S = 1800.0
ANSWER_S = 180.0
UNLOAD_S = 60.0
END_S = 20.0
HELD = ("READY", "LOADING", "UNLOADING")
LOADER = Path("/tmp/swap.pid")


def print_models() -> None:
    print(*Serving.load().models)


def load_next() -> None:
    serving = Serving.load(name=NEXT)
    LOADER.write_text(str(os.getpid()))
    try:
        for model in serving.models:
            load(model, timeout=LOAD_S)
        for model in filter(None, (serving.model, serving.accelerated)):
            swap.answers(model, partial(probe, f"/v2/models/{model}"), ANSWER_S)
    finally:
        LOADER.unlink(missing_ok=True)


def tidy() -> None:
    """Requests in progress are answered first; new ones get "unknown model"."""
    _stop_loader()
    unload_all_but(Serving.load().models)


def unload_all_but(keep: Sequence[str], patience: float = UNLOAD_S) -> None:
    """A model whose process has not ended after `patience` seconds is ended: Triton waits for it without a limit.

    A process hangs, for one, in a library's clean-up at its exit. Raises RuntimeError when that did not help either.
    """
    begun = time.monotonic()
    while extra := {
        entry["name"]: entry["state"] for entry in index() if entry.get("state") in HELD and entry["name"] not in keep
    }:
        for name in (name for name, state in extra.items() if state == "READY"):
            ok("POST", f"/v2/repository/models/{name}/unload", {})
        waited = time.monotonic() - begun
        if waited > patience + END_S:
            held = ", ".join(f"{name} ({state})" for name, state in sorted(extra.items()))
            raise RuntimeError(f"could not be unloaded yet: {held}: the next swap does, or a restart")
        if waited > patience:
            for name in extra:
                end_processes(name)
        time.sleep(0.2)


def _stop_loader() -> None:
    """A `load` whose caller was interrupted goes on in this container."""
    try:
        os.kill(int(LOADER.read_text()), signal.SIGTERM)
    except (FileNotFoundError, ProcessLookupError):
        pass
    LOADER.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(swap.main("triton", __doc__, {"models": print_models, "load": load_next, "tidy": tidy}))
