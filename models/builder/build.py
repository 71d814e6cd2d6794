"""The artefacts of one model are made, unless they are current, by one builder at a time."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast, get_args

from models.builder.currency import Accelerator, Precision, build_key, built, inputs, why_stale
from models.builder.hub import Unreachable, reach
from models.builder.spec import BuildError, Spec


def say(text: str) -> None:
    print(f"models: {text}", flush=True)


def accelerator() -> Accelerator:
    """The accelerator that the artefacts are for, from ACCELERATOR; cpu if it is not set."""
    return "gpu" if os.environ.get("ACCELERATOR") == "gpu" else "cpu"


def precision() -> Precision:
    """What the engines compute in, from PRECISION; fp32 if it is not set. Raises BuildError."""
    known = get_args(Precision)
    asked = os.environ.get("PRECISION") or "fp32"
    if asked not in known:
        raise BuildError(f"PRECISION is {asked}: set one of {', '.join(known)}")
    if asked != "fp32" and accelerator() == "cpu":
        raise BuildError(f"PRECISION is {asked} and ACCELERATOR is cpu: without a GPU all engines compute in FP32")
    return cast(Precision, asked)


FULL_BYTES = 16 * 2**20
"""A build that fails with less than this left on its volume failed for that."""


def make_current(spec: Spec, artifacts: Path, *, force: bool = False) -> None:
    """Build `artifacts`/<model> unless it is current. Raises BuildError; what was there before then stays."""
    started = time.monotonic()
    directory = artifacts / spec.name
    key = build_key(inputs(spec.name), accelerator=accelerator(), precision=precision())
    reason = "--force" if force else why_stale(directory, key)
    if reason is None and not (reason := _hub_is_back(spec, directory)):
        say(f"{spec.name} is current ({time.monotonic() - started:.1f} s)")
        return
    say(f"building {spec.name}: {reason}")
    # PyTorch is imported here and not above: the check must not pay for it.
    from models.builder.export import export

    for left in artifacts.glob(f".{spec.name}.*"):  # left by an interrupted build
        shutil.rmtree(left)
    work = Path(tempfile.mkdtemp(prefix=f".{spec.name}.", dir=artifacts))
    work.chmod(0o755)
    try:
        loaded = export(spec, key, accelerator(), work, precision())
        # Interrupted half way there is no `directory`, never half of one.
        old = work.with_name(f"{work.name}.old")
        if directory.exists():
            directory.rename(old)
        work.rename(directory)
        shutil.rmtree(old, ignore_errors=True)
    except Exception as error:
        # Each library says it in words of its own, if at all.
        if shutil.disk_usage(artifacts).free < FULL_BYTES:
            raise BuildError(f"{artifacts} is full: free space on its disk, then start again") from error
        raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if loaded.weights == "random":
        _warn(spec, loaded.source)
    say(f"{spec.name} is ready, {loaded.weights} weights ({time.monotonic() - started:.1f} s)")


def _hub_is_back(spec: Spec, directory: Path) -> str | None:
    """Why a current model must be built again: its weights are random, and its hub answers now."""
    if built(directory).weights != "random" or not spec.weights or not spec.weights.url:
        return None
    try:
        reach(spec.weights.url)
    except Unreachable as reason:
        _warn(spec, str(reason))
        return None
    return "its weights are random, and the hub can be reached now"


def _warn(spec: Spec, why: str) -> None:
    say(f"WARNING: {spec.name} has RANDOM WEIGHTS: {why}")
    say("WARNING: its answers mean nothing. The next start tries the hub again")


@contextmanager
def locked(artifacts: Path) -> Iterator[None]:
    """One builder at a time on one volume. Raises BuildError when it cannot be written."""
    try:
        file = (artifacts / ".lock").open("w")
    except OSError as error:
        reason = f"{artifacts} cannot be written ({error.strerror}): it must be writable for user {os.getuid()}"
        raise BuildError(reason) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
