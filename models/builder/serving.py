"""What is served: chosen at `up` from MODEL and MODEL_REPOSITORY, and by scripts/swap while the stack runs.

Triton serves one folder, /artifacts/repository: a symbolic link per model, to what the builder made, to the repository
that MODEL_REPOSITORY mounts at /repository, or to what a swap brought. /artifacts/mar links TorchServe's archives.
"""

import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from gateways.core.serving import NEXT, Serving, ServingError
from models.builder.build import make_current, say
from models.builder.spec import BuildError, Spec

REPOSITORY = Path("/repository")
BESIDE = ("_trt", "_jpeg", "_preprocess")
"""Name suffixes of companion models."""


def serve(artifacts: Path, declared: dict[str, str], default: str, *, force: bool = False) -> None:
    """Choose what is served: the last swap's model if `declared` has not changed since, else `declared`. Raises
    BuildError."""
    linked = artifacts / "repository"
    try:
        chosen = Serving.load(artifacts)
        stays = chosen.swapped and chosen.declared == declared and all((linked / n).exists() for n in chosen.models)
    except ServingError:  # the first choice
        stays = False
    if stays:
        if (linked / chosen.model).resolve().is_relative_to((artifacts / chosen.model).resolve()):  # made here
            make_current(Spec.load(chosen.model), artifacts, force=force)
            # A new release may build other companion models.
            chosen = replace(of_spec(artifacts, chosen.model), swapped=True)
        say(f"{chosen.model} was swapped in: it stays until MODEL or MODEL_REPOSITORY changes")
    elif declared["MODEL_REPOSITORY"]:
        chosen = chosen_of(artifacts, REPOSITORY, model_names(REPOSITORY), declared["MODEL"])
    else:
        model = declared["MODEL"] or default
        make_current(Spec.load(model), artifacts, force=force)
        chosen = of_spec(artifacts, model)
    replace(chosen, declared=declared).write(artifacts)
    say(f"serving {chosen.model}")


def prepare(artifacts: Path, source: str, wanted: str) -> str:
    """Make a spec ready to be swapped in, or for `-` the repository on stdin; its model, "" where it is served already.

    `wanted` is the one to serve of a repository that holds several. Raises BuildError and ServingError.
    """
    served = Serving.load(artifacts)
    if source == served.model and not wanted:
        return ""
    if source == "-":
        chosen = receive(artifacts, sys.stdin.buffer, wanted, served)
    else:
        make_current(Spec.load(source), artifacts)
        must_be_new(made(artifacts, source), served)
        chosen = of_spec(artifacts, source)
    replace(chosen, declared=served.declared, swapped=True).write(artifacts, NEXT)
    return chosen.model


def model_names(repository: Path) -> list[str]:
    """The models of a Triton repository, by name. Raises BuildError where Triton could load none of it, or not all."""
    folder = repository
    try:
        folders = sorted(path for path in repository.iterdir() if path.is_dir() and not path.name.startswith("."))
        if not folders:
            raise BuildError("the model repository is empty: it must hold folders <model>/<version>/model.onnx")
        for folder in folders:
            _check(folder)
    except OSError as error:
        what = "the model repository" if folder == repository else folder.name
        can = f"user {os.getuid()} must be able to read it (chmod -R a+rX)"
        raise BuildError(f"{what} cannot be read ({error.strerror}): {can}") from error
    return [folder.name for folder in folders]


def _check(folder: Path) -> None:
    """Check one model without loading it."""
    config = folder / "config.pbtxt"
    text = config.read_text() if config.is_file() else ""
    versions = [path for path in folder.iterdir() if path.name.isdecimal() and path.is_dir()]
    if not text and not [file for version in versions for file in version.iterdir()]:
        raise BuildError(
            f"{folder.name} is not a model: it has neither a config.pbtxt nor a file in <version>/, e.g. 1/model.onnx"
        )
    if not versions:
        raise BuildError(f"{folder.name} has no version: put its file in {folder.name}/1/")
    # Imported here: with gRPC, which it brings, it takes half a second, and most repositories are the builder's own.
    from google.protobuf.text_format import Parse, ParseError
    from tritonclient.grpc.model_config_pb2 import ModelConfig

    try:  # fields of a newer Triton are left to Triton
        named = Parse(text, ModelConfig(), allow_unknown_field=True).name
    except ParseError as error:
        raise BuildError(f"{folder.name}/config.pbtxt is not a model configuration: line {error}") from error
    if named not in ("", folder.name):
        raise BuildError(f'{folder.name}/config.pbtxt says name: "{named}": it must be the name of its folder')


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
    """Link models of `repository` into the one that Triton serves, and remove broken links."""
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


def chosen_of(artifacts: Path, repository: Path, names: list[str], wanted: str, *, images: bool = False) -> Serving:
    """Serve the models `names` of a repository; `wanted` is the one on the routes. Raises BuildError."""
    model, accelerated = choose(names, wanted)
    link(artifacts, repository, names)
    return Serving(model, accelerated, images, models=tuple(names))


def made(artifacts: Path, model: str) -> list[str]:
    """The models that the builder made for `model`."""
    return sorted(path.name for path in (artifacts / model / "repository").iterdir())


def of_spec(artifacts: Path, model: str) -> Serving:
    """Serve what the builder made for `model`."""
    archive = artifacts / model / "mar" / f"{model}.mar"
    if archive.exists():
        (artifacts / "mar").mkdir(exist_ok=True)
        _link(artifacts / "mar" / archive.name, archive)
    repository = artifacts / model / "repository"
    return chosen_of(artifacts, repository, made(artifacts, model), model, images=archive.exists())


def must_be_new(names: Iterable[str], served: Serving) -> None:
    """Raise BuildError for a name that is loaded now: Triton would answer with the old model, or mix both."""
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
    return chosen_of(artifacts, received, names, wanted)
