"""Are the artefacts current? Answered without importing PyTorch, so that an `up` with nothing to do loses no second.

Current means: made from exactly these sources for this accelerator and precision (one hash, the build key), and every
file that the manifest lists is there with its SHA-256. The manifest is written last, so an interrupted build has none.
"""

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import msgspec

from models.builder.spec import MODELS

Accelerator = Literal["cpu", "gpu"]
Precision = Literal["fp32", "tf32", "fp16"]

ROOT = MODELS.parent
HANDLER = ROOT / "servers" / "torchserve" / "handler.py"
DECODER = ROOT / "servers" / "triton" / "jpeg" / "model.py"


class Built(msgspec.Struct):
    """What a manifest.json says about its build: `files` maps relative path to SHA-256."""

    build_key: str
    files: dict[str, str]
    weights: str = "real"


def built(directory: Path) -> Built:
    """Raises OSError and ValueError."""
    return msgspec.json.decode((directory / "manifest.json").read_bytes(), type=Built)


def photos() -> list[Path]:
    """The sample photos, by name."""
    return sorted((MODELS / "photos").glob("*.jpg"))


def inputs(model: str) -> list[Path]:
    """Every file that the artefacts of `model` depend on."""
    preprocessing = [ROOT / "gateways" / "core" / name for name in ("image.py", "preprocess.py")]
    signatures = [ROOT / "servers/triton/backends/onnxruntime" / name for name in ("engine.py", "signature.py")]
    builder = [ROOT / "requirements" / "models.txt", *sorted((MODELS / "builder").glob("*.py"))]
    return [MODELS / model / "model.toml", *builder, *preprocessing, *signatures, HANDLER, DECODER, *photos()]


def build_key(
    files: Iterable[Path], root: Path = ROOT, accelerator: Accelerator = "cpu", precision: Precision = "fp32"
) -> str:
    """SHA-256 hex over the accelerator, the precision, and the names (relative to `root`) and contents of `files`, in
    any order."""
    lines = sorted(f"{sha256(path)}  {path.relative_to(root).as_posix()}\n" for path in files)
    return hashlib.sha256("".join([accelerator, precision, *lines]).encode()).hexdigest()


def sha256(path: Path) -> str:
    """Hex digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digests(directory: Path, names: Iterable[str]) -> dict[str, str]:
    """Relative path to SHA-256. A hard link is read once; all cores hash."""
    paths = {name: directory / name for name in names}
    inodes = {name: (path.stat().st_dev, path.stat().st_ino) for name, path in paths.items()}
    distinct = {inode: paths[name] for name, inode in inodes.items()}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        by_inode = dict(zip(distinct, pool.map(sha256, distinct.values()), strict=True))
    return {name: by_inode[inode] for name, inode in inodes.items()}


def why_stale(directory: Path, key: str) -> str | None:
    """Why the artefacts in `directory` must be built, in words; None when they are current."""
    try:
        found = built(directory)
        if found.build_key != key:
            return "its sources, its accelerator or its precision changed"
        changed = [name for name, digest in digests(directory, found.files).items() if digest != found.files[name]]
    except FileNotFoundError as error:
        name = Path(error.filename).relative_to(directory).as_posix()
        return "there are none yet" if name == "manifest.json" else f"{name} is absent"
    except (OSError, ValueError) as error:
        return f"the old ones cannot be read ({error!r})"
    return f"{changed[0]} is damaged" if changed else None
