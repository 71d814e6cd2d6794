"""A result as it is kept: result.json is a Result, and its JSON schema is made of these types.

measured.py has the types of the measurements; this module has the environment and the analysis. An unknown fact is
None. A field with a default is absent from results that were written before it existed.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Self

import msgspec

from bench.figures import callers, digits
from bench.measure.measured import CLIENT, SCHEMA, Cell, Run, Visit
from locustfiles.settings import EDGE


class Record(msgspec.Struct, forbid_unknown_fields=True):
    """A typed record that refuses unknown fields. Fields can be asked by name: tables choose their measure."""

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)


class Interval(Record):
    """A number with its limits at Analysis.confidence; None where there are too few blocks to know them."""

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        """`8.40 (8.21–8.57)`, or the number alone."""
        return f"{digits(self.value)} ({self.limits})" if self.low else digits(self.value)

    @property
    def limits(self) -> str:
        return f"{digits(self.low)}–{digits(self.high)}" if self.low else "no interval"

    def turned(self, factor: float = 1.0) -> "Interval":
        """`factor` / this number, whose limits change places."""
        return Interval(factor / self.value, self.high and factor / self.high, self.low and factor / self.low)

    def times(self, factor: float) -> "Interval":
        """This number `factor` times."""
        return Interval(self.value * factor, self.low and self.low * factor, self.high and self.high * factor)


class Parity(Record):
    """Whether a route agrees with the reference."""

    agrees: bool
    cosine: float | None
    """The worst cosine of an answer to the reference."""
    why: str
    """One line."""
    factor: str = ""
    """What explains that it does not, `precision FP16 against FP32`: the routes of its engine agree with each other."""


class Limits(Record, kw_only=True):
    """What a container may use; None: no limit."""

    cpus: float | None
    """Cores."""
    cpuset: str | None = None
    """The cores it may use, as Docker writes them; None: all."""
    memory_bytes: int | None

    def __str__(self) -> str:
        """`2 cores (CPU set 0-1), 3 GiB`."""
        cpus = f"{self.cpus:g} cores" if self.cpus else "no CPU limit"
        cpus += f" (CPU set {self.cpuset})" if self.cpuset else ""
        return f"{cpus}, {self.memory_bytes / 2**30:.3g} GiB" if self.memory_bytes else f"{cpus}, no memory limit"


class Service(Limits, kw_only=True):
    """The containers of a Compose service."""

    replicas: int
    image: str
    """Image id."""
    pids: int | None

    def __str__(self) -> str:
        return f"{self.replicas} x " * (self.replicas > 1) + Limits.__str__(self)


class Device(Record):
    """The GPUs of a machine."""

    name: str
    driver: str
    count: int


class Envoy(Record):
    """The proxy in front of the servers."""

    version: str | None
    config_sha256: str | None
    """Over the names and contents of compose/envoy/*.yaml and *.lua."""


class Engine(Record, kw_only=True):
    """What runs the model behind a route."""

    library: str
    device: str
    """cpu or cuda."""
    precision: str
    """FP32, FP16, or `FP32 with TF32`: matrix products and convolutions round their inputs to 10 bits of mantissa."""
    threads: int | None
    """That compute one batch; None: not known, or a GPU does."""
    instances: int
    """Copies of the model, each of which computes a batch at a time."""

    def __str__(self) -> str:
        """`PyTorch, cpu, FP32, 2 threads, 1 instance`."""
        counts = {"thread": self.threads, "instance": self.instances}
        said = [f"{count} {what}{'s' * (count > 1)}" for what, count in counts.items() if count]
        return ", ".join([self.library, self.device, self.precision, *said])


class Model(Record, kw_only=True):
    """The served model."""

    name: str
    takes: Literal["photos", "tensors"] = "photos"
    """tensors: a model without artefacts for photos; an image in the tables is then one item of a batch."""
    checksum: str | None
    """SHA-256 of model.onnx."""
    config_sha256: str | None
    """Over every config.pbtxt: what Triton was told of precision, batching and instances."""
    build_key: str | None
    """SHA-256 over the sources that the artefacts were made of."""
    weights: Literal["real", "random"] | None
    weights_source: str | None


class Environment(Record, kw_only=True):
    """Where and on what was measured: see environment.py."""

    collected_at: str
    """UTC, ISO 8601."""
    commit: str | None
    """Git commit of the checkout that measured."""
    dirty: bool | None
    """Whether files outside results/ differed from the commit."""
    targets: list[str]
    """edge, direct, or the address of an edge elsewhere: its servers are described by what they say alone."""
    machine: str
    """Class of the load generator's machine, the servers' too unless the edge is elsewhere: amd-epyc-2c-24g."""
    cpu: str | None
    cores: int | None
    memory_gib: int | None
    kernel: str | None
    client_limits: Limits
    """Of the load generator's container."""
    accelerator: str | None
    """`cpu` or `gpu`: which compose file the servers were started with."""
    device: Device | None
    native: bool = False
    """Whether the servers ran without Docker (scripts/native)."""
    docker: str | None
    """Version of the engine."""
    services: dict[str, Service] | None
    envoy: Envoy
    traces: bool = False
    """Whether every request made spans (OTLP_ENDPOINT)."""
    triton: str | None
    """Version of the server."""
    model: Model
    providers: dict[str, dict[str, int]] | None
    """Triton model -> execution provider -> how many nodes of the graph it ran; 0 where nothing counts."""
    engines: dict[str, Engine] | None = None
    """Route.engine -> what it is, of those that say so."""
    versions: dict[str, str | None]
    """Python and the libraries that a client's latency can depend on."""

    @property
    def gpus(self) -> str:
        """`1 x A100, driver 550`."""
        gpu = self.device
        return f"{gpu.count} x {gpu.name}, driver {gpu.driver}" if gpu else "no GPU"


EVERY, SERVERS = "all", "servers"
"""Of CPU time: all parts together, and all services behind the edge."""
CPU_PARTS = EVERY, CLIENT, EDGE, SERVERS
"""Whose CPU time two cells are compared by."""


class Found(Record, kw_only=True):
    """The analysis of a cell."""

    id: str
    """The id of one of the result's cells."""
    marks: list[str]
    """The reasons against a verdict on this cell; empty if there are none."""
    notes: list[str]
    requests: int
    failures: int
    blocks: int
    p50_ms: Interval | None
    p90_ms: Interval | None
    p99_ms: Interval | None
    images_per_s: Interval | None
    mean_ms: float | None
    connections: float | None
    """Mean per visit."""
    edge_connections: float | None
    sent_bytes_per_image: float | None
    received_bytes_per_image: float | None
    client_cpu: float | None
    """The busiest load process's share of one core, the highest of the visits."""
    client_heavy: bool = False
    """Whether that is above GATE, in a study that allows it."""
    client_cpu_ms: Interval | None = None
    """CPU time of the busiest load process per successful call."""
    server_cpu_ms: Interval | None = None
    """CPU time of the server per call, where it says so."""
    cpu_ms: dict[str, Interval] = msgspec.field(default_factory=dict)
    """CPU time per image: of all parts (EVERY), of the client, of the edge and of each service behind it; {} where it
    was not read."""
    energy_j: Interval | None = None
    """Of the GPUs per image."""
    gpu_utilization: float | None = None
    encode_ms: float | None = None
    """Client encode, before the clock."""
    decode_ms: float | None = None
    """Client decode of an answer, after the clock; None where nobody says how."""
    split: dict[str, float] | None
    """Part -> ms; the parts add up to client encode + mean latency."""
    calls_per_execution: float | None
    cost_per_million_images: Interval | None


FASTER, SLOWER = "faster", "slower"
SAME: Final = "the same within 10 %"
NO_DIFFERENCE: Final = "no difference shown"
NO_VERDICT: Final = "no verdict"
SPEEDS = FASTER, SLOWER, SAME, NO_DIFFERENCE, NO_VERDICT
SAME_WITHIN = (1 / 1.1, 1.1)
"""A ratio whose whole interval is within these limits is SAME: the test of equivalence of two one-sided t tests (D. J.
Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15, 1987)."""
RatioMeasure = Literal["p50_ms", "images_per_s", "received_bytes_per_image"]
RatioVerdict = Literal["lower", "higher", "the same within 10 %", "no difference shown", "no verdict"]


def is_same(low: float | None, high: float | None) -> bool:
    """Whether these limits of a ratio show that two are the same within 10 %."""
    return low is not None and high is not None and SAME_WITHIN[0] <= low and high <= SAME_WITHIN[1]


def no_difference(low: float | None, high: float | None) -> RatioVerdict:
    """The verdict of a ratio with these limits that shows no difference."""
    return SAME if is_same(low, high) else NO_DIFFERENCE


class Ratio(Record, kw_only=True):
    """a / b, taken within blocks."""

    kind: str
    """The factor in which the two differ: protocol, format, engine, same, or a word of the study."""
    a: str
    b: str
    """Ids of the two cells."""
    a_name: str
    b_name: str
    batch: int
    users: int
    policy: str
    target: str
    measure: RatioMeasure
    """A ratio of bytes: they are counted, and compared for claims only."""
    value: float | None
    low: float | None
    high: float | None
    p_value: float | None = None
    """The level at which the interval just reaches 1; None without a verdict."""
    verdict: RatioVerdict
    text: str
    why: list[str]
    """The measured factors that differ, in words."""
    encoded: Interval | None = None
    """As a ratio of times in which a caller encodes each request itself; of the main measure."""
    cpu: dict[str, Interval] = msgspec.field(default_factory=dict)
    """Ratios of CPU time per image: of EVERY, the client, the edge and SERVERS; of the main measure."""

    @classmethod
    def of(
        cls, kind: str, a: Cell, b: Cell, measure: RatioMeasure, found: Interval | None, verdict: RatioVerdict
    ) -> Self:
        """The ratio of two cells, not yet in words."""
        about: dict[str, Any] = {"a": a.id, "b": b.id, "a_name": a.name, "b_name": b.name, "text": "", "why": []}
        about |= {name: getattr(a, name) for name in ("batch", "users", "policy", "target")}
        about |= {name: found and found[name] for name in ("value", "low", "high")}
        return cls(kind=kind, measure=measure, verdict=verdict, **about)

    @property
    def main(self) -> bool:
        """Whether this is its cells' main measure: latency of one caller, throughput of several. Without a schedule
        the other one is its inverse, more or less."""
        return self.measure == ("p50_ms" if self.users == 1 else "images_per_s")

    @property
    def case(self) -> str:
        """`batch 8`, or `16 callers`."""
        return f"batch {self.batch}" if self.users == 1 else callers(self.users)

    @property
    def speed(self) -> str:
        """The verdict as one of SPEEDS: a lower time is faster, a lower throughput slower."""
        if self.verdict not in ("lower", "higher"):
            return self.verdict
        return FASTER if (self.verdict == "lower") == (self.measure == "p50_ms") else SLOWER

    @property
    def time(self) -> Interval | None:
        """The ratio as time: throughput is turned round, so that below 1 always means that the first is faster."""
        found = Interval(self.value, self.low, self.high) if self.value else None
        return found.turned() if found and self.measure == "images_per_s" else found


class Pooled(Record, kw_only=True):
    """All ratios of a kind as one, as ratios of times: their geometric mean in each block."""

    kind: str
    ratios: int
    """How many cells' ratios, each by its main measure."""
    value: float
    low: float | None
    high: float | None
    verdict: RatioVerdict
    encoded: Interval | None = None
    """With the encoding of the requests: see Ratio."""
    cpu: dict[str, Interval] = msgspec.field(default_factory=dict)
    """Of CPU time: see Ratio."""

    @property
    def time(self) -> Interval:
        """As Ratio has it."""
        return Interval(self.value, self.low, self.high)


Verdict = Literal["reproduced", "reproduced in direction, not in size", "not reproduced", "inconclusive"]


class Judged(Record):
    """A published claim and our verdict on it."""

    id: str
    claim: str
    published_verdict: str
    verdict: Verdict
    text: str
    cause: str


class Knee(Record):
    """Where the throughput of a row stops growing."""

    name: str
    by: Literal["users", "batch"]
    at: int
    per_second: Interval
    """Images, or items of a tensor's batch."""
    still: bool
    """It still grew: `at` is the most that was measured."""


class QuickRuns(Record):
    """Of a route against itself: in how many quick runs, each judged alone, no difference was shown."""

    batch: int
    users: int
    target: str
    measure: Literal["p50_ms", "images_per_s"]
    runs: int
    same: int
    no_verdict: int
    different: list[str]
    """The verdicts of the other runs."""
    width: float | None
    """Median of the upper limit divided by the lower one."""
    cpu_widths: dict[str, float] = msgspec.field(default_factory=dict)
    """The same of the ratios of CPU time, by part; of the main measure."""


class Analysis(Record):
    """The analysis of a run."""

    confidence: float
    cells: list[Found]
    ratios: list[Ratio]
    hypotheses: list[Judged]
    """The claims of the run's study."""
    pooled: list[Pooled] = msgspec.field(default_factory=list)
    """A line per kind, over the cells of the first setting (all factors but row, batch and users)."""
    idle_cpu: dict[str, float] = msgspec.field(default_factory=dict)
    """Compose service -> its CPU-milliseconds per second while routes were measured that do not use it."""
    quick_runs: list[QuickRuns] = msgspec.field(default_factory=list)
    """A/A only."""
    knees: list[Knee] = msgspec.field(default_factory=list)
    """Of studies that ask for them."""


@dataclass(frozen=True, slots=True)
class MeasuredCell(Cell):
    """A cell and the visits to it."""

    visits: list[Visit] = field(default_factory=list, hash=False)


class Result(Record, kw_only=True):
    """One run of the bench: what was measured, where, and what follows from it."""

    schema: Literal[2] = SCHEMA
    """Version of this format."""
    study: str
    """The study: fiveway, aa, ..."""
    method: str
    """`fair`, or `published`: cold clients, fixed order, 30 calls, warm-up inside the metrics window."""
    started_at: str
    """UTC, ISO 8601."""
    ended: str
    """`finished`, or why the run ended early, in one line."""
    options: dict[str, Any]
    """The command line's choices, by name."""
    environment: Environment
    parity: dict[str, Parity]
    """Route -> does it agree with the reference."""
    cells: list[MeasuredCell]
    analysis: Analysis

    @classmethod
    def of(cls, run: Run, analysis: Analysis) -> Self:
        """The result of a run; raises msgspec.ValidationError for an invalid environment."""
        return cls(
            **{name: getattr(run, name) for name in ("study", "method", "started_at", "ended")},
            options={name: str(value) if isinstance(value, Path) else value for name, value in run.options.items()},
            environment=msgspec.convert(run.environment, Environment),
            parity=msgspec.convert(run.parity, dict[str, Parity]),
            cells=[MeasuredCell(**asdict(cell), visits=visits) for cell, visits in run.cells],
            analysis=analysis,
        )

    @property
    def run(self) -> Run:
        """What was measured: the result before its analysis."""
        facts = {name: getattr(self, name) for name in ("study", "method", "started_at", "ended", "options")}
        plain = {name: msgspec.to_builtins(self[name]) for name in ("environment", "parity")}
        factors = Cell.__dataclass_fields__
        cells = [(Cell(**{name: getattr(one, name) for name in factors}), one.visits) for one in self.cells]
        return Run(**facts, **plain, cells=cells)

    @property
    def of_tensors(self) -> bool:
        """Whether the model took tensors and no photos: then an image is one item of a batch."""
        return self.environment.model.takes == "tensors"
