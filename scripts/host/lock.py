"""The locks of pyproject.toml's dependency groups: scripts/lock.

A developer's tool: it needs uv, and Python 3.11 for tomllib.
"""

import shutil
import sys
from pathlib import Path
from typing import Any

import tomllib

from scripts.host.machine import ROOT, Refusal, Usage, run, say, verb

PYTHON = "3.13"


def lock(group: str, groups: dict[str, list[Any]], how: dict[str, Any], *, upgrade: bool) -> None:
    """Write requirements/<group>.txt. Raises Refusal."""
    included = [one["include-group"] for one in groups[group] if isinstance(one, dict)]
    followed = [path for name in (*included, *how.get("same-as", [])) if (ROOT / (path := file(name))).exists()]
    run(
        *("uv", "pip", "compile", "--quiet", "--generate-hashes", "--no-header", "--no-annotate"),
        *("--python-version", how.get("python", PYTHON), "--python-platform", "x86_64-manylinux_2_36"),
        *(part for path in followed for part in ("--constraint", str(path))),
        *(part for name in how.get("from-debian", []) for part in ("--no-emit-package", name)),
        *(["--no-deps"] if how.get("no-deps") else []),
        *(["--upgrade"] if upgrade else []),
        *("--group", group, "--output-file", str(file(group))),
    )  # fmt: skip


def file(group: str) -> Path:
    return Path("requirements", f"{group}.txt")


def main() -> int:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups, how = settings["dependency-groups"], settings["tool"]["lock"]
    # In the order of pyproject.toml: a lock comes after those that it follows.
    locked = [name for name in groups if not how.get(name, {}).get("part")]
    upgrade = "--upgrade" in sys.argv[1:]
    chosen = [word for word in sys.argv[1:] if word != "--upgrade"]
    if unknown := [word for word in chosen if word not in locked]:
        raise Usage(f"unknown group {unknown[0]}: choose from --help --upgrade {' '.join(locked)}")
    if not shutil.which("uv"):
        raise Refusal("uv is not here: pip install uv, then run this again")
    for name in locked:
        if name in (chosen or locked):
            say(str(file(name)))
            lock(name, groups, how.get(name, {}), upgrade=upgrade)
    return 0


if __name__ == "__main__":
    verb(main)
