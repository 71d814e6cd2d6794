"""A result of scripts/chaos: results/<date>/<machine>/<kind>.json."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from bench.measure.environment import machine

SCHEMA = 1


class Figures(msgspec.Struct):
    """What one command found. `rows` are its table; what each holds is said where it is made (faults.py, ...)."""

    kind: str
    date: str
    commit: str | None
    machine: str
    model: str
    settings: dict[str, Any]
    rows: list[dict[str, Any]]
    schema: int = SCHEMA


def made(kind: str, model: str, settings: dict[str, Any], rows: list[dict[str, Any]]) -> Figures:
    """These rows as a result of this machine, now."""
    host = json.loads(os.environ.get("FIVEWAY_HOST") or "{}")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Figures(kind, now, host.get("commit"), machine(host)["machine"], model, settings, rows)


def keep(figures: Figures, folder: Path) -> Path:
    """Write it below the folder of results, for the owner of that."""
    path = folder / figures.date[:10] / figures.machine / f"{figures.kind}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=1) + b"\n")
    owner = folder.stat()
    for one in (path, path.parent, path.parent.parent):
        os.chown(one, owner.st_uid, owner.st_gid)
    return path


def load(path: Path) -> Figures:
    """Raises msgspec.ValidationError if the file is not such a result."""
    return msgspec.json.decode(path.read_bytes(), type=Figures)
