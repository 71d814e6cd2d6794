"""What a call costs: CPU time per image of the client, the edge and the servers, of the containers' own counters.

Latency says how long somebody waits, CPU time what is paid for it. Both are judged within blocks, by the same t.
"""

from collections import defaultdict
from collections.abc import Sequence

from bench.analysis.statistics import Estimate
from bench.measure.counters import services
from bench.measure.measured import CLIENT, Cell, Run, Visit
from bench.result import EVERY, SERVERS
from locustfiles.settings import EDGE
from locustfiles.study_routes import WAYS


def estimates(cell: Cell, visits: Sequence[Visit]) -> dict[str, Estimate]:
    """CPU-milliseconds per image by part: EVERY, CLIENT, the edge, SERVERS, and each service behind the edge.

    A part is left out where a visit did not count it. Failed calls cost something too: they count as calls.
    """
    behind = WAYS[cell.route].services
    parts = {EVERY: (CLIENT, *services(cell)), CLIENT: (CLIENT,), EDGE: (EDGE,) if EDGE in services(cell) else ()}
    parts |= {SERVERS: behind} | {service: (service,) for service in behind}
    images = {visit.block: (visit.requests + visit.failures) * cell.batch for visit in visits}
    found = {}
    for part, names in parts.items():
        counted = all(visit.cpu_ms.get(name) for name in names for visit in visits) and all(images.values())
        if visits and names and counted:
            ms = {visit.block: sum(visit.cpu_ms[name] for name in names) for visit in visits}
            found[part] = Estimate({block: spent / images[block] for block, spent in ms.items()})
    return found


def energy(cell: Cell, visits: Sequence[Visit]) -> Estimate | None:
    """Joules of the GPUs per image; None where a visit did not count them."""
    images = {visit.block: (visit.requests + visit.failures) * cell.batch for visit in visits}
    if not visits or not all(visit.energy_j and images[visit.block] for visit in visits):
        return None
    return Estimate({visit.block: (visit.energy_j or 0.0) / images[visit.block] for visit in visits})


def idle(run: Run) -> dict[str, float]:
    """CPU-milliseconds per second of each service while other routes were measured: what it takes without a call, for
    health checks and waiting threads."""
    spent: defaultdict[str, float] = defaultdict(float)
    seconds: defaultdict[str, float] = defaultdict(float)
    for cell, visits in run.cells:
        for visit in visits:
            for service in visit.cpu_ms.keys() - {CLIENT, *services(cell)}:
                spent[service] += visit.cpu_ms[service]
                seconds[service] += visit.counted_s
    return {service: spent[service] / seconds[service] for service in sorted(seconds) if seconds[service]}
