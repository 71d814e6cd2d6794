"""What is measured: the factors of a cell, one visit to it, and a whole run before any statistics.

A *cell* is a combination of factors. A *visit* is one bounded measurement of a cell by a process group of its own. A
*block* visits every cell once, in an order drawn by chance. A run has several; ratios are taken within blocks. Cells
that are compared are visited together: each has several short windows, and they take *turns* at them.
"""

import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec

from locustfiles.clients.policy import POOLED
from locustfiles.recorder import Histogram

SCHEMA: Final = 2
GATE = 0.35
"""The most that a load process may use of one core. In trials of these clients against a 10 ms server, p50 was within 6
% of the truth up to about this share. Above it, latencies include the client's own work."""
OTHERS = 0.2
"""A turn is made again if programs that do not work for its calls used more than this share of a core meanwhile: 50 ms
of a quarter of a second. An idle machine's kernel and Docker take up to half of it. That is known without the turn's
times, so nothing is chosen by them. Once in a visit: others may never rest."""
RAMP = 0.15
"""Share of the window before its steady part: users that begin together arrive together at first."""
CLIENT = "client"
type Count = Annotated[int, msgspec.Meta(ge=0)]
type Natural = Annotated[int, msgspec.Meta(ge=1)]

RUNNING, FINISHED, INTERRUPTED = "running", "finished", "interrupted (Ctrl-C)"


def now() -> str:
    """UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class Cell:
    """The factors of one cell; equal cells are the same measurement under the same name."""

    name: str
    """The row's name: the route's, except in A/A runs, which measure one route under two names."""
    route: str
    batch: Natural = 1
    users: Natural = 1
    """How many callers wait at once (the published tables say concurrency); in an open loop, at most."""
    policy: str = POOLED
    target: str = "edge"
    """`edge`, `direct`, or the http://host:port of an edge elsewhere."""
    photo: str = "224x224"
    rate: float | None = None
    """None: a closed loop. Else an open loop: requests per second by schedule, latency from the scheduled start."""
    size: str = ""
    """The requested size where no photo is sent, in the unit of its study, e.g. `10000` vectors."""
    distance: str = ""
    """Round trip and bandwidth between client and edge, `150ms-100mbit`; empty: nothing is put between them."""
    gather: bool = False
    """All users begin together, and again when the last has its answer, like the published gathers of 20 calls."""

    @property
    def id(self) -> str:
        """E.g. `onnx-grpc/b8/c1/pooled/edge/224x224`, with other factors at the end: `/r50` in an open loop."""
        text = f"{self.name}/b{self.batch}/c{self.users}/{self.policy}/{self.target}/{self.photo}"
        more = ["" if self.rate is None else f"r{self.rate:g}", self.size, self.distance, "gather" * self.gather]
        return "/".join([text, *filter(None, more)])


@dataclass(slots=True)
class Visit:
    """One visit to a cell: the sums over its turns.

    A turn has two windows. The *steady* one, without ramp and tail, has the latencies and the throughput. The *counted*
    one begins and ends with all users idle and has everything else, so the server's counters can be compared with ours
    exactly.
    """

    block: int
    position: int
    """1 for the first visit of its block."""
    started_at: str
    """UTC, ISO 8601."""
    steady_s: float = 0.0
    steady_requests: float = 0.0
    """Successful calls of the steady window. A call that lies in it in part counts in part."""
    latency: str = ""
    """Successful calls that began in the steady window: an encoded recorder.Histogram."""
    counted_s: float = 0.0
    requests: Count = 0
    """Successful calls of the counted window."""
    failures: Count = 0
    errors: dict[str, Count] = field(default_factory=dict)
    """Error text -> how often."""
    mean_ms: float | None = None
    """Mean latency of the successful calls of the counted window: what the time split adds up to."""
    encode_ms: float = 0.0
    """Client encode: making one request's bytes of its images, before the clock starts: not part of any latency."""
    decode_ms: float | None = None
    """Client decode: turning one answer into data that a program can use, after the clock; None for formats without a
    reader."""
    stages_ms: dict[str, float] = field(default_factory=dict)
    """Means per successful call of the counted window, from edge and server: see split.py for the names."""
    connections: Count | None = None
    """TCP connections that our processes opened to serve the counted window's calls, those of the warm-up included."""
    edge_connections: Count | None = None
    """The same, as the edge accepted them; None where its counters cannot be read (direct, or an edge elsewhere)."""
    sent_bytes: Count = 0
    """On the wire in the counted window, all protocol layers included, as the network interfaces count."""
    received_bytes: Count = 0
    client_cpu: float = 0.0
    """The busiest load process's share of one core over the counted window."""
    cpu_ms: dict[str, float] = field(default_factory=dict)
    """CPU time in the counted window, of CLIENT (all load processes) and of each Compose service; {} where it cannot
    be read."""
    others_cpu: float = 0.0
    """Cores that programs used in the counted window that do not work for its calls, and the kernel for them, in the
    turn where they were most; 0 where it cannot be read. Other services of the stack, which check their health, are
    among them."""
    repeated: Count = 0
    """Turns that are not kept because of others_cpu; others were made in their place."""
    energy_j: float | None = None
    """Of all GPUs of the serving machine in the counted window; None without one."""
    gpu_utilization: float | None = None
    """Their mean share of the time in use, 0 to 1, in Triton's last sample (2 s) of the window."""
    server_requests: Count | None = None
    """Successful calls as the server (Triton) or else the edge counted them; None where neither can be read."""
    model_executions: Count | None = None
    """The number of batches that Triton ran for them: fewer than the calls if its dynamic batcher joined calls."""
    missed: Count = 0
    """Open loop: calls that began late because every user was busy."""
    unanswered: Count = 0
    """Open loop: calls that were due in the window and had no user until it closed. They are in no latency."""
    oldest_unanswered_s: float = 0.0
    """How long the first of them had waited when the window closed."""
    reasons: list[str] = field(default_factory=list)
    """Why counters are missing, or that others used the servers: a line each."""
    problem: str = ""
    """Why this visit measured nothing: one line. Empty when it did."""

    @property
    def disturbed(self) -> bool:
        """Whether other programs used more than OTHERS, in a turn that is kept or in one that was made again."""
        return bool(self.repeated) or self.others_cpu > OTHERS


def merge(result: Visit, turns: Sequence[Sequence[Mapping[str, Any]]]) -> None:
    """Put the shares of its load processes in all turns together: see Meter.share."""
    shares = [share for turn in turns for share in turn]
    latency = Histogram()
    stages: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for share in shares:
        latency.merge(share["latency"])
        stages.update(share["stages_ms"])
        errors.update(share["errors"])
    result.latency, result.errors, result.decode_ms = latency.encode(), dict(errors), shares[0]["decode_ms"]
    for name in ("steady_s", "counted_s"):
        setattr(result, name, sum(max(share[name] for share in turn) for turn in turns))
    for name in ("client_cpu", "oldest_unanswered_s"):
        setattr(result, name, max(share[name] for share in shares))
    for name in ("steady_requests", "requests", "failures", "missed", "unanswered"):
        setattr(result, name, sum(share[name] for share in shares))
    if result.requests:
        result.mean_ms = sum(share["sum_ms"] for share in shares) / result.requests
        result.stages_ms = {name: ms / result.requests for name, ms in stages.items()}


@dataclass(slots=True)
class Run:
    """All measurements of a run, before any statistics. bench/result.py has the form in which it is kept."""

    study: str
    started_at: str
    method: str
    """`fair`, or `published`: cold clients, fixed order, 30 calls, warm-up inside the metrics window."""
    options: dict[str, Any]
    environment: dict[str, Any]
    """See environment.py: date, commit, images, device, CPU, limits, Envoy's config, model, weights, providers."""
    parity: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Route -> {"agrees": bool, "cosine": worst cosine to the reference or None, "why": one line}."""
    cells: list[tuple[Cell, list[Visit]]] = field(default_factory=list)
    ended: str = RUNNING
    """`finished`, or why it ended early: what was measured until then is here."""

    def visits(self, cell: Cell) -> list[Visit]:
        """The visits to this cell that measured something, by block."""
        return [visit for visit in dict(self.cells)[cell] if not visit.problem]


REPEATS = 5
ENOUGH_S = 0.5


def timed_ms(work: Callable[[], object]) -> float:
    """Median time of REPEATS calls, in ms; of fewer where they take ENOUGH_S together."""
    times: list[float] = []
    while len(times) < REPEATS and sum(times) < ENOUGH_S:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3
