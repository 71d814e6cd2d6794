"""The counters of Envoy, Triton and the kernel's network interfaces, before and after a window of calls.

They are read while no call is in progress. The connections and bytes of a reading itself are subtracted, also over
several readings of one process.

A server's count of our calls is exact, because its health probes, which bypass the edge, can be told apart:

- through the edge, the edge's own count says how many calls were ours; Triton's must reach it;
- direct with a batch above 1, probes are the executions' odd images: a probe has one image, each call `batch`;
- direct with one image a call, a probe looks like a call: no health check sends one while calls succeed.
"""

import functools
import http.client
import json
import os
import re
import socket
import struct
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.parse import quote

from bench.measure.measured import Cell
from locustfiles.clients import BOTH
from locustfiles.routes import Route
from locustfiles.settings import DIRECT, EDGE, direct_address, native
from locustfiles.study_routes import WAYS

EDGE_STATISTICS, TRITON, TRITON_METRICS = "edge:9901", "triton:8000", "triton:8002"
LISTENER = "listener.0.0.0.0_8080.downstream_cx_total"
# The edge's health check asks the edge itself: a connection and an answer without a server, each time.
OWN_ANSWERS = "http.edge.rq_direct_response"
UNDER_WAY = "http.edge.downstream_rq_active"
UPTIME = "server.uptime"

TIMEOUT_S = 5.0
REST_S, LIMIT_S = 0.02, 1.0
"""A server counts a call a moment after its answer, so counters are read until they stay the same for REST_S, for at
most LIMIT_S."""
RESTART_S = 10.0
"""Envoy renews its uptime every 5 s: two starting times further apart than this are two processes."""

PROBES_PER_S = 0.3
"""Health checks send at most this many to one model: Docker's one every 5 s, the typed gateway's one every 10 s."""

NETWORK, SNMP = Path("/sys/class/net"), Path("/proc/net/snmp")
CGROUPS = Path("/host/cgroup")
"""The host's control groups, mounted to be read: every container has one, which counts its CPU time."""
MACHINE, OWN = "/", "."
"""In the place of a Compose service: the root group, which counts all that runs on the machine, and that of the load:
this process and all others of its container."""
SOMEBODY_ELSE = "Triton answered somebody else's requests too: its times are not of our calls alone"
COMPUTE = ("compute_input", "compute_infer", "compute_output")
DECODE = "decode"
ALL = 0
JPEG, PREPROCESS = "_jpeg", "_preprocess"
"""`<model>_jpeg` is two models in a row, `<model>_preprocess` and `<model>`: its times are the sums of theirs."""

_Unreadable = (OSError, http.client.HTTPException, ValueError, LookupError, TypeError)

type Counts = Counter[Any]
"""The counters of one source since its start, by name; empty if they cannot be read."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The counters at one moment. `reasons` says why a counter is missing."""

    cell: Cell
    taken_s: float
    network: Counts
    edge: Counts
    triton: Counts
    cpu: tuple[Counts, Counts]
    """ns by Compose service, before and after this reading's own questions to the servers."""
    gpu: Counts
    """Of all GPUs that Triton sees: `energy_mj` since it started, their mean use in `percent` in its last sample."""
    reasons: tuple[str, ...]


@dataclass(slots=True)
class Delta:
    """The difference between two snapshots, with the fields of a Visit. None: not known, and `reasons` says why."""

    connections: int | None = None
    """Opened by the processes of this network namespace."""
    edge_connections: int | None = None
    """Accepted from whomever."""
    sent_bytes: int | None = None
    received_bytes: int | None = None
    server_requests: int | None = None
    model_executions: int | None = None
    """A probe that shared a batch with a one-image call makes it one too small."""
    triton_stages_ms: dict[str, float] = field(default_factory=dict)
    """Means per call: `triton.queue`, `.compute_input`, `.compute_infer`, `.compute_output`, `.total`, and where the
    model takes photos `.decode`; else empty."""
    cpu_ms: dict[str, float] = field(default_factory=dict)
    """CPU time by Compose service."""
    machine_ms: float | None = None
    """CPU time of all that runs on the machine, without the load."""
    energy_j: float | None = None
    gpu_utilization: float | None = None
    reasons: list[str] = field(default_factory=list)


# The cost of all readings of this process.
_own: Counts = Counter()


def services(cell: Cell) -> tuple[str, ...]:
    """The Compose services that work for its calls."""
    return ((EDGE,) if cell.target == EDGE else ()) + WAYS[cell.route].services


def read(cell: Cell, served: str) -> Snapshot:
    """The counters for a cell whose model Triton knows as `served`. Takes REST_S or a little more; never raises."""
    reasons: list[str] = []
    at_first = _cpu(containers())
    start = _try(reasons, "the network interfaces", _network)
    edge, triton = _servers(cell, served, reasons)
    gpu = _try(reasons, f"the GPU's counters ({TRITON_METRICS})", _gpu) if _host().get("devices") else Counter()
    taken = time.monotonic()
    network = _since(_own, start) if start else start
    if start and (end := _try(reasons, "the network interfaces", _network)):
        _own.update(_since(start, end))
    return Snapshot(cell, taken, network, edge, triton, (at_first, _cpu(containers())), gpu, tuple(reasons))


def delta(*windows: tuple[Snapshot, Snapshot]) -> Delta:
    """The sums of what happened between two snapshots each, of one cell, read by one process."""
    last = windows[-1][1]
    cell = last.cell
    reasons = list(dict.fromkeys(reason for window in windows for one in window for reason in one.reasons))
    network = _sum([(begin.network, end.network) for begin, end in windows])
    edge = _sum([(begin.edge, end.edge) for begin, end in windows])
    triton = _sum([(begin.triton, end.triton) for begin, end in windows])
    cpu = _sum([(begin.cpu[1], end.cpu[0]) for begin, end in windows])
    gpu = _sum([(begin.gpu, end.gpu) for begin, end in windows])
    lengths = [end.taken_s - begin.taken_s for begin, end in windows]
    running = [end.edge["uptime_s"] - begin.edge["uptime_s"] for begin, end in windows] if edge else lengths
    restarted = any(abs(up - took) > RESTART_S for up, took in zip(running, lengths, strict=True))
    if restarted or min(edge["connections"], edge["successes"]) < 0:
        reasons.append("the edge, or a server behind it, was restarted between two readings: its counters began anew")
        edge.clear()
    if min(triton.values(), default=0) < 0:
        reasons.append("Triton, or its model, was restarted between two readings: its statistics began anew")
        triton.clear()
    # Less than nothing: the container was started anew.
    cpu_ms = {name: ns / 1e6 for name, ns in cpu.items() if ns >= 0}
    # The edge counts streams, not what passes on them.
    uncounted = _runs_on_triton(cell) or WAYS[cell.route].format.messages == BOTH
    found = Delta(
        connections=network.get("opened"),
        edge_connections=edge.get("connections"),
        sent_bytes=network.get("sent"),
        received_bytes=network.get("received"),
        server_requests=None if uncounted else edge.get("successes"),
        machine_ms=cpu_ms.pop(MACHINE, None),
        cpu_ms=cpu_ms,
        energy_j=gpu["energy_mj"] / 1e3 if gpu else None,
        gpu_utilization=last.gpu["percent"] / 100 if last.gpu else None,
        reasons=reasons,
    )
    if triton:
        _add_triton(found, triton, edge.get("successes"), cell.batch, sum(lengths))
    return found


def _sum(windows: Sequence[tuple[Counts, Counts]]) -> Counts:
    """What was counted between the two of each; empty if one could not be read."""
    found: Counts = Counter()
    for then, now in windows:
        if not (then and now):
            return Counter()
        found.update(_since(then, now))
    return found


def _since(then: Counts, now: Counts) -> Counts:
    """now - then, which may be negative."""
    found = Counter(now)
    found.subtract(then)
    return found


def _servers(cell: Cell, served: str, reasons: list[str]) -> tuple[Counts, Counts]:
    """Envoy's and Triton's counters once both are at rest; empty for one that this cell does not use."""
    edge: Counts = Counter()
    triton: Counts = Counter()
    if cell.target not in (EDGE, DIRECT):
        reasons.append(f"the counters of {cell.target} and of the servers behind it cannot be read from here")
        return edge, triton
    if cell.target == DIRECT and not _runs_on_triton(cell):
        reasons.append(f"{cell.route} keeps no count of its own: only the edge counts its calls")
        return edge, triton
    last: object = None
    begin = time.monotonic()
    with (
        _connection(EDGE_STATISTICS) as edge_page,
        _connection(direct_address(TRITON).removeprefix("https://")) as triton_page,
    ):
        while True:
            failed: list[str] = []
            if cell.target == EDGE:
                edge = _try(failed, f"the edge's counters ({EDGE_STATISTICS})", _edge, edge_page, WAYS[cell.route])
            if _runs_on_triton(cell):
                triton = _try(failed, f"Triton's statistics ({TRITON})", _triton, triton_page, served)
            now = edge["connections"], edge["successes"], triton
            if failed or (now == last and not edge["under_way"]):
                break
            if time.monotonic() - begin > LIMIT_S:
                failed = [f"the counters did not come to rest in {LIMIT_S:g} s: somebody else uses the servers too"]
                break
            last = now
            time.sleep(REST_S)
    reasons.extend(failed)
    return edge, triton


def _edge(page: http.client.HTTPConnection, route: Route) -> Counts:
    """`connections`: accepted on the public port, without those of the health check. `successes`: answers 200 of the
    route's server, over gRPC with status OK too."""
    answers = f"cluster.{route.cluster}.upstream_rq_200"  # made by its first answer: missing means none
    names = (LISTENER, OWN_ANSWERS, UNDER_WAY, UPTIME, answers)
    text = _get(page, "/stats?filter=" + quote(f"^({'|'.join(map(re.escape, names))})$"))
    found = {name: int(value) for name, value in re.findall(r"^(\S+): (\d+)$", text, re.M)}
    # rq_success counts gRPC answers with status OK, and HTTP answers below 500. Over gRPC an error is an HTTP 200 too,
    # hence the smaller of both.
    hosts = re.findall(rf"^{re.escape(route.cluster)}::[^:]+:\d+::rq_success::(\d+)$", _get(page, "/clusters"), re.M)
    return Counter(
        uptime_s=found[UPTIME],
        connections=found[LISTENER] - found[OWN_ANSWERS],
        successes=min(found.get(answers, 0), sum(map(int, hosts))),
        # A stream that stays open is under way as long as its user lives.
        under_way=0 if route.format.messages == BOTH else found[UNDER_WAY],
    )


def _triton(page: http.client.HTTPConnection, served: str) -> Counts:
    """Of one model since it was loaded, by (images in an execution, what).

    Each size has how many executions it had (`count`), and the ns that they took in each of COMPUTE. At ALL are the
    sums over the requests: how many succeeded (`count`), and the ns of `success` (from a request's arrival at the core
    to its answer), `queue` and COMPUTE; where the model takes photos also DECODE, which is a part of COMPUTE.
    """
    model = _statistics(page, served)
    sums = model["inference_stats"]
    found: Counts = Counter({(ALL, stage): int(sums[stage]["ns"]) for stage in ("success", "queue", *COMPUTE)})
    found[ALL, "count"] = int(sums["success"]["count"])
    for size in model["batch_stats"]:
        images = int(size["batch_size"])
        found.update({(images, stage): int(size[stage]["ns"]) for stage in COMPUTE})
        found[images, "count"] = int(size["compute_infer"]["count"])
    if served.endswith(JPEG):
        first = _statistics(page, served.removesuffix(JPEG) + PREPROCESS)["inference_stats"]
        found[ALL, DECODE] = sum(int(first[stage]["ns"]) for stage in COMPUTE[:2])
    return found


def _statistics(page: http.client.HTTPConnection, model: str) -> dict[str, Any]:
    (found,) = json.loads(_get(page, f"/v2/models/{quote(model)}/stats"))["model_stats"]
    return dict(found)


def _add_triton(found: Delta, triton: Counts, at_edge: int | None, batch: int, seconds: float) -> None:
    """Fill in Triton's counters for calls of `batch` images, `at_edge` of which succeeded, in `seconds`."""
    successes = triton[ALL, "count"]
    executions = {size: ran for (size, what), ran in triton.items() if what == "count" and size != ALL}
    calls = sum(size // batch * ran for size, ran in executions.items())
    probes = sum(size % batch * ran for size, ran in executions.items())
    ours = sum(ran for size, ran in executions.items() if size >= batch)
    alone = True
    if batch == 1:
        calls = successes if at_edge is None else min(successes, at_edge)
        probes = successes - calls
        ours = max(0, ours - probes)
    elif calls + probes != successes:
        calls, alone = successes if at_edge is None else at_edge, False
    found.server_requests = calls
    if alone and probes <= 2 + PROBES_PER_S * seconds:
        found.model_executions, found.triton_stages_ms = ours, _stages_ms(triton, executions, batch)
    else:
        found.reasons.append(SOMEBODY_ELSE)


def _stages_ms(triton: Counts, executions: Mapping[int, int], batch: int) -> dict[str, float]:
    """Means per call in ms. Every call of an execution waits for all of it, so an execution counts once for each.

    Triton keeps the compute stages by size, so a probe's are left out where its size tells it; its queue, and what lies
    between the stages, are means over all requests.
    """
    successes = triton[ALL, "count"]
    calls = sum(size // batch * ran for size, ran in executions.items())
    if not calls or not successes:
        return {}
    stages = {"triton.queue": triton[ALL, "queue"] / successes / 1e6}
    for stage in COMPUTE:
        stages[f"triton.{stage}"] = sum(size // batch * triton[size, stage] for size in executions) / calls / 1e6
    between = triton[ALL, "success"] - sum(triton[ALL, stage] for stage in ("queue", *COMPUTE))
    decoded = {f"triton.{DECODE}": triton[ALL, DECODE] / successes / 1e6} if (ALL, DECODE) in triton else {}
    return stages | {"triton.total": sum(stages.values()) + between / successes / 1e6} | decoded


def _runs_on_triton(cell: Cell) -> bool:
    return (WAYS[cell.route].direct or "").startswith("triton:")


def _network() -> Counts:
    """This network namespace since it was made, the loopback left out: bytes, and TCP connections opened from here.

    Without Docker the calls are on the loopback, where bytes have no direction: none are counted.
    """
    wires = [] if native() else [wire / "statistics" for wire in NETWORK.iterdir() if wire.name != "lo"]
    sent, received = (sum(int((wire / f"{way}_bytes").read_text()) for wire in wires) for way in ("tx", "rx"))
    names, values = [line.split() for line in SNMP.read_text().splitlines() if line.startswith("Tcp:")]
    return Counter(sent=sent, received=received, opened=int(values[names.index("ActiveOpens")]))


def _host() -> dict[str, Any]:
    """What the host says (scripts/host-facts); {} where it was not asked."""
    return dict(json.loads(os.environ.get("FIVEWAY_HOST") or "{}"))


def _gpu() -> Counts:
    with _connection(direct_address(TRITON_METRICS)) as page:
        text = _get(page, "/metrics")
    energy = re.findall(r"^nv_energy_consumption\{.*\} (\S+)$", text, re.M)
    used = re.findall(r"^nv_gpu_utilization\{.*\} (\S+)$", text, re.M)
    return Counter(energy_mj=round(1000 * sum(map(float, energy))), percent=round(100 * fmean(map(float, used))))


@functools.cache
def containers() -> Mapping[str, Sequence[Path]]:
    """Compose service -> the files that count its containers' CPU time, by the ids that the host says (FIVEWAY_HOST);
    and MACHINE and OWN.

    cgroup v2 has one tree, v1 one per controller. Where a container's group lies depends on the engine's driver.
    """
    services = {one["id"]: one["service"] for one in _host().get("services") or () if "id" in one}
    root = CGROUPS / "cpuacct" if (CGROUPS / "cpuacct").is_dir() else CGROUPS
    found: defaultdict[str, list[Path]] = defaultdict(list)
    for folder, _, files in os.walk(root) if services else ():
        id_ = re.search(r"([0-9a-f]{64})(?:\.scope)?$", folder)
        counter = {"cpuacct.usage", "cpu.stat"}.intersection(files)
        service = MACHINE if folder == str(root) else services.get(id_[1]) if id_ else None
        if counter and (service := service or (OWN if id_ and _is_own(folder) else None)):
            found[service].append(Path(folder, counter.pop()))
    return found


def _is_own(folder: str) -> bool:
    """A group lists its processes by the numbers that they have for the reader: none, or 0, in another container."""
    with suppress(OSError):
        return str(os.getpid()) in Path(folder, "cgroup.procs").read_text().split()
    return False


def _cpu(files: Mapping[str, Sequence[Path]]) -> Counts:
    """CPU time in ns since a container was made, by service; without those that cannot be read."""
    found: Counts = Counter()
    for service, counters in files.items():
        with suppress(*_Unreadable):
            found[service] = sum(map(_cpu_ns, counters))
    own = found.pop(OWN, 0)
    if MACHINE in found:
        found[MACHINE] -= own
    return found


def _cpu_ns(counter: Path) -> int:
    """cgroup v1 has ns alone; v2 a line `usage_usec 1234` among others."""
    text = counter.read_text()
    if counter.name == "cpuacct.usage":
        return int(text)
    return 1000 * int(re.findall(r"^usage_usec (\d+)$", text, re.M)[0])


def _try(reasons: list[str], what: str, work: Callable[..., Counts], *arguments: object) -> Counts:
    try:
        return work(*arguments)
    except _Unreadable as error:
        reasons.append(f"{what} cannot be read: {type(error).__name__}: {error}")
        return Counter()


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
