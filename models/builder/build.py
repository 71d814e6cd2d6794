"""The model builder: `-m models.builder.build [MODEL]` makes /artifacts/<model>, or does nothing when it is current.

Without MODEL it also says what is served (serving.py): the variables MODEL (default efficientnet_lite0, with a GPU
openclip_vit_b32) and MODEL_REPOSITORY, unless a swap has chosen since. ACCELERATOR (cpu or gpu; default cpu) is
what the artefacts are for, ARTIFACTS (default /artifacts) where. `--force` builds in any case, e.g. to ask again for
weights that no hub could give. Exit 0: all is current. Exit 1: it is not, one line says why.
"""

import argparse
import fcntl
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace as with_
from pathlib import Path

from models.builder import serving
from models.builder.currency import build_key, inputs, why_stale
from models.builder.errors import BuildError
from models.builder.repository import Accelerator
from models.builder.spec import Spec

# Without a GPU a model that needs no hub and answers in milliseconds; with one the published study's.
DEFAULT_MODELS: dict[Accelerator, str] = {"cpu": "efficientnet_lite0", "gpu": "openclip_vit_b32"}


def say(text: str) -> None:
    print(f"models: {text}", flush=True)


def accelerator() -> Accelerator:
    """What the artefacts are for, by ACCELERATOR; cpu without it."""
    return "gpu" if os.environ.get("ACCELERATOR") == "gpu" else "cpu"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m models.builder.build", description="Make the artefacts of one model."
    )
    parser.add_argument("model", nargs="?")
    parser.add_argument("--force", action="store_true", help="build even when the artefacts are current")
    options = parser.parse_args(arguments)
    artifacts = Path(os.environ.get("ARTIFACTS", "/artifacts"))
    declared = {name: os.environ.get(name, "") for name in ("MODEL", "MODEL_REPOSITORY")}
    if declared["MODEL_REPOSITORY"] == os.devnull:  # Compose's default: what it mounts where there is none
        declared["MODEL_REPOSITORY"] = ""
    try:
        with locked(artifacts):
            if options.model:
                make_current(Spec.load(options.model), artifacts, force=options.force)
            else:
                serve(artifacts, declared, force=options.force)
    except BuildError as error:
        subject = options.model or declared["MODEL_REPOSITORY"] or declared["MODEL"] or DEFAULT_MODELS[accelerator()]
        print(f"models: error: {subject}: {error}", file=sys.stderr)
        return 1
    return 0


def serve(artifacts: Path, declared: dict[str, str], *, force: bool = False) -> None:
    """Say what is served: what a swap chose since the same was `declared`, else that. Raises BuildError."""
    before = serving.current(artifacts)
    if before and before.swapped and before.declared == declared and serving.whole(artifacts, before):
        chosen = before
        if serving.is_of_spec(artifacts, chosen.model):
            make_current(Spec.load(chosen.model), artifacts, force=force)
            # What is built beside a model differs between releases.
            chosen = with_(serving.of_spec(artifacts, chosen.model), swapped=True)
        say(f"{chosen.model} was swapped in: it stays until MODEL or MODEL_REPOSITORY changes")
    elif declared["MODEL_REPOSITORY"]:
        chosen = serving.of_repository(artifacts, serving.REPOSITORY, declared["MODEL"])
    else:
        model = declared["MODEL"] or DEFAULT_MODELS[accelerator()]
        make_current(Spec.load(model), artifacts, force=force)
        chosen = serving.of_spec(artifacts, model)
    with_(chosen, declared=declared).write(artifacts)
    say(f"serving {chosen.model}")


def make_current(spec: Spec, artifacts: Path, *, force: bool = False) -> None:
    """Build `artifacts`/<model> unless it is current. Raises BuildError; what was there before then stays."""
    started = time.monotonic()
    directory = artifacts / spec.name
    key = build_key(inputs(spec.name), accelerator=accelerator())
    reason = "--force" if force else why_stale(directory, key)
    if reason is None:
        say(f"{spec.name} is current ({time.monotonic() - started:.1f} s)")
        return
    say(f"building {spec.name}: {reason}")
    # PyTorch is imported here and not above: the check must not pay for it.
    from models.builder.export import export

    for left in artifacts.glob(f".{spec.name}.*"):  # of a build that was interrupted
        shutil.rmtree(left)
    work = Path(tempfile.mkdtemp(prefix=f".{spec.name}.", dir=artifacts))
    work.chmod(0o755)
    try:
        loaded = export(spec, key, accelerator(), work)
        replace(directory, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if loaded.weights == "random":
        say(f"WARNING: {spec.name} has RANDOM WEIGHTS: {loaded.source}")
        say("WARNING: its answers mean nothing; with the network there, build again with --force")
    say(f"{spec.name} is ready, {loaded.weights} weights ({time.monotonic() - started:.1f} s)")


def replace(directory: Path, new: Path) -> None:
    """Put `new` in the place of `directory`. Interrupted half way there is no `directory`, never half of one."""
    if directory.exists():
        old = new.with_name(f"{new.name}.old")
        directory.rename(old)
        new.rename(directory)
        shutil.rmtree(old)
    else:
        new.rename(directory)


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
