"""The turns of a visit: what each measured, and which are kept."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.measure import counters
from bench.measure.measured import OTHERS
from locustfiles import toxiproxy
from locustfiles.settings import DIRECT, EDGE

TOXIPROXY = toxiproxy.ADDRESS.partition(":")[0]
"""Its Compose service. It works for calls with a distance, and for no others."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The counters before and after a window, and each load process's share."""

    before: counters.Snapshot
    after: counters.Snapshot
    shares: Sequence[Mapping[str, Any]]

    @property
    def others_cpu(self) -> float:
        """As in a Visit."""
        cell, used = self.before.cell, counters.delta((self.before, self.after))
        if used.machine_ms is None:
            return 0.0
        # Which containers work for an edge elsewhere, or for one of the stack by another address, is not known.
        own = (*counters.services(cell), TOXIPROXY) if cell.target in (EDGE, DIRECT) else used.cpu_ms
        others_ms = used.machine_ms - sum(used.cpu_ms.get(service, 0.0) for service in own)
        return max(0.0, others_ms) / 1e3 / max(share["counted_s"] for share in self.shares)


def taken(turns: Iterable[None], measure: Callable[[], Turn], again: int = 1) -> tuple[list[Turn], int]:
    """A Turn for each of `turns`, and how many were made again because others disturbed them: at most `again`."""
    kept: list[Turn] = []
    repeated = 0
    for _ in turns:
        turn = measure()
        if turn.others_cpu > OTHERS and repeated < again:
            repeated += 1
            turn = measure()
        kept.append(turn)
    return kept, repeated
