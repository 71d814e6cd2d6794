"""Runs of scripts/bench on the running stack, and what every study's tests ask of them."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chaos.docker import docker
from tests.repository import ROOT

OUTPUT = ROOT / "out" / "results"


def bench(*arguments: str, limit_s: float = 200) -> tuple[int, str, Path | None]:
    """Exit status, what was said, and the folder of the result if there is one."""
    done = subprocess.run(
        [ROOT / "scripts" / "bench", *arguments],
        env=os.environ | {"RESULTS": str(OUTPUT)},
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr, folder_in(done.stdout)


def finished(*arguments: str, limit_s: float = 200) -> Path:
    """The folder of a run that ends well."""
    status, said, folder = bench(*arguments, limit_s=limit_s)
    assert status == 0, said
    assert folder
    return folder


def in_the_bench(program: str, *arguments: str) -> Any:
    """The JSON that a Python program prints in the bench's image, beside the stack."""
    run = ("compose", "--profile", "bench", "run", "--rm", "--no-deps", "-T", "bench", "python", "-c")
    return json.loads(docker(*run, program, *arguments))


def folder_in(said: str) -> Path | None:
    """The folder that a run names in its last line."""
    last = said.strip().splitlines()[-1:] or [""]
    return OUTPUT / Path(last[0]).parent.relative_to("results") if last[0].startswith("results/") else None


def result(folder: Path | None) -> dict[str, Any]:
    assert folder
    found: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return found


def visits(found: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [(cell, visit) for cell in found["cells"] for visit in cell["visits"]]


def answered(found: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(what to call it, cell, visit) of a run that came to its end, in which every visit was answered."""
    assert found["ended"] == "finished"
    for cell, visit in visits(found):
        about = f"{cell['id']}, block {visit['block']}: {visit['errors']} {visit['problem']}"
        assert visit["requests"] > 0, about
        assert visit["failures"] == 0, about
        yield about, cell, visit
