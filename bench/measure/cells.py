"""A cell as settings of the load (locustfiles.settings)."""

from typing import Any

from bench.measure.measured import Cell
from locustfiles import settings
from locustfiles.settings import Settings, edge_address


def parsed_settings(cell: Cell, host: str) -> Settings:
    """The choices of a cell, checked; raises BadSetting."""
    return settings.parse(_chosen(cell) | {"host": host}, [cell.route])


def settings_of(cell: Cell, host: str) -> Settings:
    """The choices of a cell that has been checked; raises BadSetting."""
    return Settings(edge_address(host), **_chosen(cell))


def _chosen(cell: Cell) -> dict[str, Any]:
    return {name: getattr(cell, name) for name in settings.CHOICES}
