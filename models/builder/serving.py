"""What is served: chosen at `up` from MODEL and MODEL_REPOSITORY, and by scripts/swap while the stack runs.

    python -m models.builder.serving next MODEL              make the artefacts of a spec ready to be swapped in
    python -m models.builder.serving next - [--model NAME]   the same for a model repository, as a tar on stdin
    python -m models.builder.serving commit                  what `next` made ready is served from now on

Triton serves one folder, /artifacts/repository: a symbolic link per model, to what the builder made, to the repository
that MODEL_REPOSITORY mounts at /repository, or to what a swap brought. /artifacts/mar links TorchServe's archives.
"""

import argparse
import os
import re
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from gateways.core.serving import NAME, NEXT, Serving, ServingError
from models.builder.errors import BuildError

REPOSITORY = Path("/repository")
BESIDE = ("_trt", "_jpeg", "_preprocess")
"""How models are called that stand beside another one."""
ALREADY_SERVED = 3
"""The exit code of `next` for what is served already."""


def model_names(repository: Path) -> list[str]:
    """The models of a Triton repository, by name. Raises BuildError where Triton could load none of it, or not all."""
    try:
        folders = sorted(path for path in repository.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError as error:
        reason = f"it must be a folder that user {os.getuid()} can read (chmod -R a+rX)"
        raise BuildError(f"the model repository cannot be read ({error.strerror}): {reason}") from error
    if not folders:
        raise BuildError(
            "the model repository is empty: it must hold one folder per model, <model>/<version>/model.onnx"
        )
    for folder in folders:
        _check(folder)
    return [folder.name for folder in folders]


def _check(folder: Path) -> None:
    """What can be said about one model without loading it."""
    config = folder / "config.pbtxt"
    try:
        text = config.read_text() if config.is_file() else ""
        versions = [path for path in folder.iterdir() if path.name.isdecimal() and path.is_dir()]
        files = [file for version in versions for file in version.iterdir()]
    except OSError as error:
        reason = f"{folder.name} cannot be read ({error.strerror}): make it readable for user {os.getuid()}"
        raise BuildError(f"{reason} (chmod -R a+rX)") from error
    if not text and not files:
        raise BuildError(
            f"{folder.name} is no model: it has neither a config.pbtxt nor a file in <version>/, e.g. 1/model.onnx"
        )
    if not versions:
        raise BuildError(f"{folder.name} has no version: put its file in {folder.name}/1/")
    named = re.search(r'^name\s*:\s*"([^"]*)"', text, re.MULTILINE)
    if named and named[1] != folder.name:
        raise BuildError(f'{folder.name}/config.pbtxt says name: "{named[1]}": it must be the name of its folder')


def choose(names: Iterable[str], wanted: str) -> tuple[str, str | None]:
    """The model that the routes serve, and its accelerated twin. `wanted` empty: the only one. Raises BuildError."""
    names = set(names)
    twins = {name for name in names for suffix in BESIDE if name.removesuffix(suffix) in names - {name}}
    if not wanted and len(names - twins) == 1:
        (wanted,) = names - twins
    if wanted not in names:
        why = f"there is no model {wanted}" if wanted else "the repository holds several models"
        raise BuildError(f"{why}: set MODEL (for a swap --model) to one of {', '.join(sorted(names))}")
    twin = f"{wanted}_trt"
    return wanted, twin if twin in names else None


def link(artifacts: Path, repository: Path, names: Iterable[str]) -> None:
    """Link models of `repository` into the one that Triton serves; links that lead nowhere any more are dropped."""
    folder = artifacts / "repository"
    folder.mkdir(exist_ok=True)
    for name in names:
        _link(folder / name, repository / name)
    for path in folder.iterdir():
        if not path.exists():
            path.unlink()


def _link(path: Path, target: Path) -> None:
    draft = path.with_name(f".{path.name}")
    draft.unlink(missing_ok=True)
    inside = target.is_relative_to(path.parent.parent)
    draft.symlink_to(os.path.relpath(target, path.parent) if inside else target)
    draft.replace(path)


def of_repository(artifacts: Path, repository: Path, wanted: str) -> Serving:
    """Serve all models of a repository; `wanted` is the one on the routes. Raises BuildError."""
    names = model_names(repository)
    model, accelerated = choose(names, wanted)
    link(artifacts, repository, names)
    return Serving(model, accelerated, images=False, models=tuple(names))


def of_spec(artifacts: Path, model: str) -> Serving:
    """Serve what the builder made for `model`."""
    directory = artifacts / model
    names = model_names(directory / "repository")
    model, accelerated = choose(names, model)
    link(artifacts, directory / "repository", names)
    archive = directory / "mar" / f"{model}.mar"
    if archive.exists():
        (artifacts / "mar").mkdir(exist_ok=True)
        _link(artifacts / "mar" / archive.name, archive)
    return Serving(model, accelerated, images=archive.exists(), models=tuple(names))


def is_of_spec(artifacts: Path, model: str) -> bool:
    """Whether what is served under this name was made by the builder."""
    return (artifacts / "repository" / model).resolve().is_relative_to((artifacts / model).resolve())


def current(artifacts: Path) -> Serving | None:
    """What is served now; None before the first choice, and where it cannot be read."""
    try:
        return Serving.load(artifacts)
    except ServingError:
        return None


def whole(artifacts: Path, serving: Serving) -> bool:
    """Whether all that it serves is still there."""
    return all((artifacts / "repository" / name).exists() for name in serving.models)


def must_be_new(names: Iterable[str], served: Serving) -> None:
    """Raise BuildError for a name that is loaded now: Triton would answer with the old model, or from half of each."""
    if taken := sorted(set(names) & set(served.models)):
        reason = "is being served: swap to another model first, or give the new one another name"
        raise BuildError(f"{', '.join(taken)} {reason}")


def receive(artifacts: Path, stream: BinaryIO, wanted: str, served: Serving) -> Serving:
    """Unpack a repository from a tar, for a swap. Raises BuildError; what was there before then stays."""
    work = Path(tempfile.mkdtemp(prefix=".received.", dir=artifacts))
    try:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            tar.extractall(work, filter="data")
        names = model_names(work)
        choose(names, wanted)
        must_be_new(names, served)
        received = artifacts / "received"
        received.mkdir(exist_ok=True)
        for name in names:
            shutil.rmtree(received / name, ignore_errors=True)
            (work / name).rename(received / name)
    except (tarfile.TarError, OSError) as error:
        raise BuildError(f"the model repository cannot be unpacked: {error}") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    model, accelerated = choose(names, wanted)
    link(artifacts, received, names)
    return Serving(model, accelerated, images=False, models=tuple(names))


def main(arguments: list[str]) -> int:
    from models.builder.build import locked, make_current
    from models.builder.spec import Spec

    parser = argparse.ArgumentParser(prog="python -m models.builder.serving", description="Choose what is served.")
    parser.add_argument("step", choices=["next", "commit"])
    parser.add_argument("source", nargs="?", default="")
    parser.add_argument("--model", default="")
    options = parser.parse_args(arguments)
    artifacts = Path(os.environ.get("ARTIFACTS", "/artifacts"))
    try:
        served = Serving.load(artifacts)
        with locked(artifacts):
            if options.step == "commit":
                (artifacts / NEXT).replace(artifacts / NAME)
                return 0
            if options.source == served.model and not options.model:
                return ALREADY_SERVED
            if options.source == "-":
                chosen = receive(artifacts, sys.stdin.buffer, options.model, served)
            else:
                make_current(Spec.load(options.source), artifacts)
                must_be_new(model_names(artifacts / options.source / "repository"), served)
                chosen = of_spec(artifacts, options.source)
            Serving(
                chosen.model, chosen.accelerated, chosen.images, chosen.models, served.declared, swapped=True
            ).write(artifacts, NEXT)
            print(chosen.model)
    except (BuildError, ServingError) as error:
        print(f"models: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
