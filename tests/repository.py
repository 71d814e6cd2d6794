"""What the static checks read: the files of the repository, and the Compose model as Compose itself renders it."""

import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# The verbs, as a user calls them.
SCRIPTS = sorted(
    path.name
    for path in (ROOT / "scripts").iterdir()
    if path.is_file() and not path.suffix and path.stat().st_mode & 0o111
)
# Never ours to check: the history, what runs leave behind, and what .gitignore keeps out of a commit.
SKIPPED = {
    ".git",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".import_linter_cache",
    ".venv",
    "__pycache__",
    "out",
    "tls",
}


def files(*suffixes: str) -> list[Path]:
    """Every file of the repository, or those whose name ends so; in a stable order."""
    found = []
    for folder, names, here in os.walk(ROOT):
        names[:] = sorted(set(names) - SKIPPED)
        found += [
            Path(folder, name)
            for name in sorted(here)
            if name not in {".env", ".git"} and name.endswith(suffixes or ("",))
        ]
    return found


def texts(*suffixes: str) -> Iterator[tuple[Path, str]]:
    """The files that are text, each with its content; the path is relative to the root."""
    for path in files(*suffixes):
        try:
            yield path.relative_to(ROOT), path.read_text()
        except UnicodeDecodeError:
            continue


def scripts() -> list[Path]:
    """Shell scripts, known by their first line wherever they lie."""
    first = re.compile(r"#!.*\b(ba|da)?sh\b|# shellcheck shell=")
    return [path for path in files() if first.match(path.read_bytes()[:200].decode(errors="replace"))]


@functools.cache
def compose(accelerator: str = "cpu", **settings: str) -> dict[str, Any]:
    """The whole Compose model with every other default: `docker compose config` with no .env and no more variables.

    Compose says on stderr which variable has no default.
    """
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment |= {"ACCELERATOR": accelerator, **settings}
    command = ["docker", "compose", "--env-file", os.devnull, "--profile", "*", "config", "--format", "json"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "variable is not set" not in done.stderr, done.stderr
    model: dict[str, Any] = json.loads(done.stdout)
    return model


def certificate(folder: Path, *names: str) -> Path:
    """cert.pem and key.pem as scripts/certificate makes them: their folder."""
    (folder / "scripts").mkdir(parents=True)
    for name in ("certificate", "lib.sh"):
        shutil.copy(ROOT / "scripts" / name, folder / "scripts")
    subprocess.run([folder / "scripts" / "certificate", *names], check=True, capture_output=True)
    return folder / "tls"
