"""The rows that the 5-way comparison published (published/README.md says where), and our numbers beside them."""

import csv
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measure.measured import Cell

FOLDER = Path(__file__).with_name("published")
SOURCE = "github.com/dahlianadkarni/ai_inference_img_similarity at cd9aa5da7ea1"
P50, THROUGHPUT, COMPUTE = "p50_ms", "images_per_s", "server_compute_ms"
# Measure -> its file, its unit, and the factor that the letter of a column stands for.
_TABLES = {
    P50: ("fiveway_p50_ms.csv", "ms", "batch"),
    THROUGHPUT: ("fiveway_concurrent_img_s.csv", "images/s", "users"),
    COMPUTE: ("fiveway_server_compute_ms.csv", "ms", "batch"),
}


@dataclass(frozen=True, slots=True)
class Published:
    """One number of a published table."""

    device: str
    route: str
    batch: int
    users: int
    measure: str
    """`p50_ms`, `images_per_s` (the concurrent table), or `server_compute_ms` (Triton's own, per request)."""
    value: float
    unit: str
    source: str


@functools.cache
def rows() -> tuple[Published, ...]:
    """All published numbers, table by table in the order of the files."""
    found = []
    for measure, (name, unit, factor) in _TABLES.items():
        lines = [line for line in (FOLDER / name).read_text().splitlines() if not line.startswith("#")]
        for row in csv.DictReader(lines):
            for column in list(row)[2:]:
                factors = {"batch": 1, "users": 1} | {factor: int(column[1:])}
                value = float(row[column])
                found.append(
                    Published(
                        row["gpu"], row["route"], **factors, measure=measure, value=value, unit=unit, source=SOURCE
                    )
                )
    return tuple(found)


def devices() -> tuple[str, ...]:
    """The devices of the published tables."""
    return tuple(dict.fromkeys(row.device for row in rows()))


def value(device: str, route: str, batch: int, users: int, measure: str) -> float | None:
    """One published number; None where the study has none."""
    for row in rows():
        if (row.device, row.route, row.batch, row.users, row.measure) == (device, route, batch, users, measure):
            return row.value
    return None


def beside(analysis: Mapping[str, Any], cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Our numbers beside the published ones: a row per cell and measure that the study has, in the order of `cells`.

    {"id", "name", "route", "batch", "users", "measure", "unit", "ours": {"value", "low", "high"} | None,
    "published": {device: value}, "source"}. Our compute is the split's, and has no interval.
    """
    ours = {cell["id"]: cell for cell in analysis["cells"]}
    found = []
    for cell in cells:
        for measure, (_, unit, _) in _TABLES.items():
            known = {device: value(device, cell.route, cell.batch, cell.users, measure) for device in devices()}
            theirs = {device: number for device, number in known.items() if number is not None}
            if theirs:
                found.append({
                    "id": cell.id,
                    "name": cell.name,
                    "route": cell.route,
                    "batch": cell.batch,
                    "users": cell.users,
                    "measure": measure,
                    "unit": unit,
                    "ours": _ours(ours[cell.id], measure) if cell.id in ours else None,
                    "published": theirs,
                    "source": SOURCE,
                })  # fmt: skip
    return found


def _ours(cell: Mapping[str, Any], measure: str) -> dict[str, float | None] | None:
    if measure != COMPUTE:
        found: dict[str, float | None] | None = cell[measure]
        return found
    return {"value": cell["split"]["compute"], "low": None, "high": None} if cell["split"] else None
