"""A cell as the load's own choices."""

from bench.measure.measured import Cell
from locustfiles.settings import Settings, edge_address


def settings_of(cell: Cell, host: str) -> Settings:
    """The choices of a cell that has been checked; raises BadSetting."""
    return Settings(
        edge_address(host),
        cell.batch,
        cell.photo,
        cell.target,
        cell.policy,
        size=cell.size,
        distance=cell.distance,
    )
