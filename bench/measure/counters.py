"""What others counted while we measured: Envoy, Triton, and the kernel's network interfaces, around a window of calls.

Read while no call is under way, before and after. What a reading itself costs (connections, bytes) is in no
difference, also not in that over several readings of one process.

A server's count of our calls is exact because it is told from its health probes, which go past the edge:

- through the edge, the edge's own count says how many calls were ours; Triton's must reach it;
- direct with a batch above 1, probes are the executions' odd images: a probe has one image, each call `batch`;
- direct with one image a call, a probe looks like a call: no health check sends one while calls succeed.
"""

import http.client
import json
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

from bench.measure.measured import Cell
from locustfiles.clients import BOTH
from locustfiles.routes import Route
from locustfiles.settings import DIRECT, EDGE, direct_address, native
from locustfiles.study_routes import WAYS

EDGE_STATISTICS, TRITON = "edge:9901", "triton:8000"
LISTENER = "listener.0.0.0.0_8080.downstream_cx_total"
# The edge's health check asks the edge itself: a connection and an answer without a server, each time.
OWN_ANSWERS = "http.edge.rq_direct_response"
UNDER_WAY = "http.edge.downstream_rq_active"
UPTIME = "server.uptime"

TIMEOUT_S = 5.0
REST_S, LIMIT_S = 0.02, 1.0
"""A server counts a call a moment after its answer: counters are read until they stay for REST_S, at most LIMIT_S."""
RESTART_S = 10.0
"""Envoy renews its uptime every 5 s: two starting times further apart than this are two processes."""

PROBES_PER_S = 0.3
"""Health checks send at most this many to one model: Docker's one every 5 s, the typed gateway's one every 10 s."""

NETWORK, SNMP = Path("/sys/class/net"), Path("/proc/net/snmp")
SOMEBODY_ELSE = "Triton answered somebody else's requests too: its times are not of our calls alone"
COMPUTE = ("compute_input", "compute_infer", "compute_output")
DECODE = "decode"
JPEG, PREPROCESS = "_jpeg", "_preprocess"
"""`<model>_jpeg` is two models in a row, `<model>_preprocess` and `<model>`: its times are the sums of theirs."""

_Unreadable = (OSError, http.client.HTTPException, ValueError, LookupError, TypeError)


@dataclass(frozen=True, slots=True)
class Network:
    """This network namespace since it was made, the loopback left out: bytes, and TCP connections opened from here.

    Without Docker the calls are on the loopback, where bytes have no direction: none are counted.
    """

    sent: int = 0
    received: int = 0
    opened: int = 0

    def __add__(self, other: "Network") -> "Network":
        return Network(self.sent + other.sent, self.received + other.received, self.opened + other.opened)

    def __sub__(self, other: "Network") -> "Network":
        return Network(self.sent - other.sent, self.received - other.received, self.opened - other.opened)


@dataclass(frozen=True, slots=True)
class Edge:
    """Envoy's counters since its start."""

    uptime_s: int
    connections: int
    """Accepted on the public port, those of the health check left out."""
    successes: int
    """Answers 200 of the route's server; over gRPC, with status OK too."""
    under_way: int


@dataclass(frozen=True, slots=True)
class Triton:
    """Triton's statistics of one model since it was loaded."""

    successes: int
    ns: Mapping[str, int]
    """Sums over the requests: `success` (from the request's arrival at the core to its answer), `queue` and COMPUTE;
    where the model takes photos also DECODE, which is a part of COMPUTE."""
    executions: Mapping[int, Mapping[str, int]]
    """By images in the execution: how many (`count`), and the ns that they took in each of COMPUTE."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The counters at one moment; None where one cannot be read, and `reasons` says why."""

    cell: Cell
    taken_s: float
    network: Network | None
    edge: Edge | None
    triton: Triton | None
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delta:
    """What happened between two snapshots; None where it is not known, and `reasons` says why, a line each."""

    connections: int | None = None
    """TCP connections opened by the processes of this network namespace."""
    edge_connections: int | None = None
    """TCP connections that the edge accepted, from whomever, its health check left out."""
    sent_bytes: int | None = None
    """On the wire, all protocol layers from Ethernet up."""
    received_bytes: int | None = None
    server_requests: int | None = None
    """Our successful calls, as the server (Triton) or else the edge counted them."""
    model_executions: int | None = None
    """Batches that Triton ran for them. A probe that shared a batch with a one-image call makes it one too small."""
    triton_stages_ms: dict[str, float] = field(default_factory=dict)
    """Means per call: `triton.queue`, `.compute_input`, `.compute_infer`, `.compute_output`, `.total`, and where the
    model takes photos `.decode`; else empty."""
    probes: int | None = None
    """Inferences of Triton's that were not our calls; None where they cannot be told apart."""
    reasons: list[str] = field(default_factory=list)


# What all readings of this process have cost.
_own = Network()


def read(cell: Cell, served: str) -> Snapshot:
    """The counters for a cell whose model Triton knows as `served`. Takes REST_S or a little more; never raises."""
    global _own
    reasons: list[str] = []
    start = _try(_network, "the network interfaces", reasons)
    edge, triton = _servers(cell, served, reasons)
    taken = time.monotonic()
    ours = None if start is None else start - _own
    if start is not None and (end := _try(_network, "the network interfaces", reasons)) is not None:
        _own += end - start
    return Snapshot(cell, taken, ours, edge, triton, tuple(reasons))


def delta(before: Snapshot, after: Snapshot) -> Delta:
    """The difference of two snapshots of one cell, read by one process."""
    reasons = list(dict.fromkeys(before.reasons + after.reasons))
    network = None if before.network is None or after.network is None else after.network - before.network
    edge = _edge_delta(before, after, reasons)
    # The edge counts streams, not what passes on them.
    uncounted = _runs_on_triton(before.cell) or WAYS[before.cell.route].format.messages == BOTH
    found = Delta(
        connections=None if network is None else network.opened,
        edge_connections=None if edge is None else edge.connections,
        sent_bytes=None if network is None else network.sent,
        received_bytes=None if network is None else network.received,
        server_requests=None if edge is None or uncounted else edge.successes,
        reasons=reasons,
    )
    triton = _triton_delta(before.triton, after.triton, reasons)
    return found if triton is None else _with_triton(found, triton, edge, before.cell, after.taken_s - before.taken_s)


def _servers(cell: Cell, served: str, reasons: list[str]) -> tuple[Edge | None, Triton | None]:
    """Envoy's and Triton's counters once both are at rest; None for one that this cell does not use."""
    if cell.target not in (EDGE, DIRECT):
        reasons.append(f"the counters of {cell.target} and of the servers behind it cannot be read from here")
        return None, None
    if cell.target == DIRECT and not _runs_on_triton(cell):
        reasons.append(f"{cell.route} keeps no count of its own: only the edge counts its calls")
        return None, None
    last: tuple[Edge | None, Triton | None] | None = None
    begin = time.monotonic()
    with _connection(EDGE_STATISTICS) as edge_page, _connection(direct_address(TRITON)) as triton_page:
        while True:
            failed: list[str] = []
            edge = triton = None
            if cell.target == EDGE:
                edge = _try(
                    lambda: _edge(edge_page, WAYS[cell.route]),
                    f"the edge's counters ({EDGE_STATISTICS})",
                    failed,
                )
            if _runs_on_triton(cell):
                triton = _try(lambda: _triton(triton_page, served), f"Triton's statistics ({TRITON})", failed)
            if failed or (last is not None and _at_rest(last, (edge, triton))):
                break
            if time.monotonic() - begin > LIMIT_S:
                failed = [f"the counters did not come to rest in {LIMIT_S:g} s: somebody else uses the servers too"]
                break
            last = edge, triton
            time.sleep(REST_S)
    reasons.extend(failed)
    return edge, triton


def _at_rest(last: tuple[Edge | None, Triton | None], now: tuple[Edge | None, Triton | None]) -> bool:
    (edge_then, triton_then), (edge, triton) = last, now
    if edge is not None and edge_then is not None:
        same = (edge.connections, edge.successes) == (edge_then.connections, edge_then.successes)
        return same and not edge.under_way and triton == triton_then
    return triton == triton_then


def _edge(page: http.client.HTTPConnection, route: Route) -> Edge:
    cluster = route.cluster
    answers = f"cluster.{cluster}.upstream_rq_200"  # made by its first answer: missing means none
    names = (LISTENER, OWN_ANSWERS, UNDER_WAY, UPTIME, answers)
    text = _get(page, "/stats?filter=" + quote(f"^({'|'.join(map(re.escape, names))})$"))
    found = {name: int(value) for name, value in re.findall(r"^(\S+): (\d+)$", text, re.M)}
    # By status: over gRPC an error is an answer 200 too, over HTTP a 404 is no failure of the server's.
    hosts = re.findall(rf"^{re.escape(cluster)}::[^:]+:\d+::rq_success::(\d+)$", _get(page, "/clusters"), re.M)
    return Edge(
        found[UPTIME],
        found[LISTENER] - found[OWN_ANSWERS],
        min(found.get(answers, 0), sum(map(int, hosts))),
        # A stream that stays open is under way as long as its user lives.
        0 if route.format.messages == BOTH else found[UNDER_WAY],
    )


def _triton(page: http.client.HTTPConnection, served: str) -> Triton:
    (model,) = json.loads(_get(page, f"/v2/models/{quote(served)}/stats"))["model_stats"]
    sums = model["inference_stats"]
    decoded = {}
    if served.endswith(JPEG):
        first = served.removesuffix(JPEG) + PREPROCESS
        (step,) = json.loads(_get(page, f"/v2/models/{quote(first)}/stats"))["model_stats"]
        decoded[DECODE] = sum(int(step["inference_stats"][stage]["ns"]) for stage in COMPUTE[:2])
    return Triton(
        int(sums["success"]["count"]),
        {stage: int(sums[stage]["ns"]) for stage in ("success", "queue", *COMPUTE)} | decoded,
        {
            int(size["batch_size"]): {"count": int(size["compute_infer"]["count"])}
            | {stage: int(size[stage]["ns"]) for stage in COMPUTE}
            for size in model["batch_stats"]
        },
    )


def _edge_delta(before: Snapshot, after: Snapshot, reasons: list[str]) -> Edge | None:
    then, now = before.edge, after.edge
    if then is None or now is None:
        return None
    connections, successes = now.connections - then.connections, now.successes - then.successes
    uptime = now.uptime_s - then.uptime_s
    if connections < 0 or successes < 0 or abs(uptime - (after.taken_s - before.taken_s)) > RESTART_S:
        reasons.append("the edge, or a server behind it, was restarted between two readings: its counters began anew")
        return None
    return Edge(uptime, connections, successes, now.under_way)


def _triton_delta(then: Triton | None, now: Triton | None, reasons: list[str]) -> Triton | None:
    if then is None or now is None:
        return None
    none = dict.fromkeys(("count", *COMPUTE), 0)
    sizes = {
        size: {name: value - then.executions.get(size, none)[name] for name, value in found.items()}
        for size, found in now.executions.items()
    }
    ns = {stage: value - then.ns[stage] for stage, value in now.ns.items()}
    lost = then.executions.keys() - now.executions.keys()
    if lost or min(now.successes - then.successes, *ns.values(), *(size["count"] for size in sizes.values()), 0) < 0:
        reasons.append("Triton, or its model, was restarted between two readings: its statistics began anew")
        return None
    return Triton(now.successes - then.successes, ns, {size: found for size, found in sizes.items() if found["count"]})


def _with_triton(found: Delta, triton: Triton, edge: Edge | None, cell: Cell, seconds: float) -> Delta:
    """Add what Triton says of the calls of a cell, in so many seconds."""
    batch = cell.batch
    calls = sum(size // batch * ran["count"] for size, ran in triton.executions.items())
    probes: int | None = sum(size % batch * ran["count"] for size, ran in triton.executions.items())
    executions = sum(ran["count"] for size, ran in triton.executions.items() if size >= batch)
    alone = True
    if batch == 1:
        calls = triton.successes if edge is None else min(triton.successes, edge.successes)
        probes = None if edge is None else triton.successes - calls
        executions = max(0, executions - (probes or 0))
    elif calls + (probes or 0) != triton.successes:
        calls, probes, alone = triton.successes if edge is None else edge.successes, None, False
    alone = alone and (probes or 0) <= 2 + PROBES_PER_S * seconds
    return replace(
        found,
        server_requests=calls,
        model_executions=executions if alone else None,
        triton_stages_ms=_stages_ms(triton, batch) if alone else {},
        probes=probes,
        reasons=found.reasons if alone else [*found.reasons, SOMEBODY_ELSE],
    )


def _stages_ms(triton: Triton, batch: int) -> dict[str, float]:
    """Means per call in ms. Every call of an execution waits for all of it, so an execution counts once for each.

    Triton keeps the compute stages by size, so a probe's are left out where its size tells it; its queue, and what lies
    between the stages, are means over all requests.
    """
    calls = sum(size // batch * ran["count"] for size, ran in triton.executions.items())
    if not calls or not triton.successes:
        return {}
    stages = {"triton.queue": triton.ns["queue"] / triton.successes / 1e6}
    for stage in COMPUTE:
        ns = sum(size // batch * ran[stage] for size, ran in triton.executions.items())
        stages[f"triton.{stage}"] = ns / calls / 1e6
    between = triton.ns["success"] - sum(triton.ns[stage] for stage in ("queue", *COMPUTE))
    decoded = {f"triton.{DECODE}": triton.ns[DECODE] / triton.successes / 1e6} if DECODE in triton.ns else {}
    return stages | {"triton.total": sum(stages.values()) + between / triton.successes / 1e6} | decoded


def _runs_on_triton(cell: Cell) -> bool:
    return (WAYS[cell.route].direct or "").startswith("triton:")


def _network() -> Network:
    sent = received = 0
    for interface in NETWORK.iterdir():
        if interface.name != "lo" and not native():
            sent += int((interface / "statistics" / "tx_bytes").read_text())
            received += int((interface / "statistics" / "rx_bytes").read_text())
    names, values = [line.split() for line in SNMP.read_text().splitlines() if line.startswith("Tcp:")]
    return Network(sent, received, int(values[names.index("ActiveOpens")]))


def _try[T](work: Callable[[], T], what: str, reasons: list[str]) -> T | None:
    try:
        return work()
    except _Unreadable as error:
        reasons.append(f"{what} cannot be read: {type(error).__name__}: {error}")
        return None


@contextmanager
def _connection(address: str) -> Iterator[http.client.HTTPConnection]:
    """Connects with the first request. Ends by a reset: nothing of it comes in after the bytes have been counted."""
    page = http.client.HTTPConnection(address, timeout=TIMEOUT_S)
    try:
        yield page
    finally:
        if page.sock is not None:
            page.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        page.close()


def _get(page: http.client.HTTPConnection, path: str) -> str:
    page.request("GET", path)
    response = page.getresponse()
    text = response.read().decode()
    if response.status != http.client.OK:
        raise ValueError(f"GET {path} answered {response.status}: {text[:200]}")
    return text
