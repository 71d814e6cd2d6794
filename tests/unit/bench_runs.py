"""Runs with known distributions, so that statistics, analysis, results and reports are held to numbers that are true.

A call's latency is lognormal around `median_ms()`: calls spread by `call_sd`, and each visit is off by a factor of its
own (`visit_sd`): standard deviations on the log scale.
"""

import copy
import functools
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.analysis.analysis import analyse
from bench.measure.measured import Cell, Run, Visit
from bench.report import results
from bench.result import Result
from locustfiles.clients.policy import COLD, POOLED, PUBLISHED, SHARED
from locustfiles.recorder import Histogram
from locustfiles.study_routes import WAYS

FIVEWAY = ("jpeg-http", "onnx-http", "onnx-grpc", "trt-http", "trt-grpc")
BATCHES = (1, 8, 32)
USERS = (1, 8, 16)
# A call's fixed cost and what each image adds, in ms.
COSTS = {"jpeg-http": (1.5, 16.0), "onnx-http": (1.0, 7.4), "trt-http": (1.0, 6.8)}
COSTS |= {"onnx-grpc": COSTS["onnx-http"], "trt-grpc": COSTS["trt-http"]}
TENSOR_BYTES, JPEG_BYTES = 602_112, 28_700

ENGINE = {"library": "ONNX Runtime", "device": "cpu", "precision": "FP32", "threads": 2, "instances": 1}
ENGINES = {name: dict(ENGINE) for name in ("onnx", "trt")} | {"jpeg-http": ENGINE | {"library": "PyTorch"}}
SERVICE = {"replicas": 1, "image": "sha256:0123", "cpus": 2.0, "memory_bytes": 3 << 30, "pids": 512}
ENVIRONMENT: dict[str, Any] = {
    "collected_at": "2026-01-02T03:04:05+00:00", "commit": "0123456789abcdef0123456789abcdef01234567", "dirty": False,
    "targets": ["edge"], "machine": "synthetic-cpu-2c-24g", "cpu": "Synthetic CPU", "cores": 2, "memory_gib": 24,
    "kernel": "6.1.0", "client_limits": {"cpus": 2.0, "memory_bytes": 1 << 30}, "accelerator": "cpu", "device": None,
    "docker": "26.1.5", "services": {"edge": SERVICE, "triton": SERVICE},
    "envoy": {"version": "1.40.0", "config_sha256": "aa" * 32}, "triton": "2.51.0",
    "model": {
        "name": "efficientnet_lite0", "checksum": "bb" * 32, "config_sha256": "dd" * 32, "build_key": "cc" * 32,
        "weights": "real", "weights_source": "a wheel",
    },
    "providers": {
        "efficientnet_lite0": {"CPUExecutionProvider": 57}, "efficientnet_lite0_trt": {"OpenVINOExecutionProvider": 1},
    },
    "engines": ENGINES,
    "versions": {"python": "3.13.5", "locust": "2.47.0", "grpcio": "1.85.1"},
}  # fmt: skip


def made(**options: Any) -> Run:
    """A synthetic run with an environment as collect() gives it; few calls, so that many can be made."""
    defaults: dict[str, Any] = {"calls": 40, "batches": (1, 8), "users": (1, 8)}
    run = synthetic_run(**defaults | options)
    run.environment = copy.deepcopy(ENVIRONMENT)
    return run


def encoded_result(**options: Any) -> bytes:
    run = made(**options)
    return results.encode(Result.of(run, analyse(run)))


DEFAULT = functools.cache(encoded_result)


def plain(**options: Any) -> dict[str, Any]:
    """result.json of made(), free to be changed."""
    return dict(json.loads(encoded_result(**options) if options else DEFAULT()))


def edited(path: str, value: object) -> dict[str, Any]:
    """plain() with one place changed, like `cells/0/batch`; the value `...` removes it."""
    changed = plain()
    way: list[Any] = [int(part) if part.isdigit() else part for part in path.split("/")]
    last = way.pop()
    place: Any = functools.reduce(lambda found, part: found[part], way, changed)
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return changed


def typed(changed: Mapping[str, Any]) -> Result:
    """What is read of this result.json."""
    return results.decode(json.dumps(changed).encode())


def result(**options: Any) -> Result:
    """The result of made()."""
    return typed(plain(**options))


def median_ms(route: str, batch: int = 1, users: int = 1) -> float:
    """The median that a cell's latencies are drawn around: two cores serve at most two calls at once."""
    fixed, image = COSTS[route]
    return (fixed + image * batch) * max(1.0, users / 2)


def synthetic_run(
    *,
    study: str = "fiveway",
    method: str = "fair",
    names: Mapping[str, str] | Iterable[str] = FIVEWAY,
    batches: Iterable[int] = BATCHES,
    users: Iterable[int] = USERS,
    blocks: int = 3,
    calls: int = 300,
    slower: Mapping[str, float] | None = None,
    call_sd: float = 0.1,
    visit_sd: float = 0.02,
    **factors: Any,
) -> Run:
    """A finished run: each batch with one user, then each number of users at batch 1, as the fiveway study has them.

    Its environment has the engines alone. `names` may map a row's name to its route (A/A); `slower` multiplies single
    rows' medians.
    """
    routes = dict(names) if isinstance(names, Mapping) else {name: name for name in names}
    pairs = list(dict.fromkeys([*((batch, 1) for batch in batches), *((1, count) for count in users)]))
    cells = [Cell(*names, batch, count, **factors) for batch, count in pairs for names in routes.items()]
    rng = np.random.default_rng(1)
    visits: dict[Cell, list[Visit]] = {cell: [] for cell in cells}
    for block in range(1, blocks + 1):
        for position, index in enumerate(rng.permutation(len(cells)), 1):
            cell = cells[index]
            median = median_ms(cell.route, cell.batch, cell.users) * (slower or {}).get(cell.name, 1.0)
            median *= np.exp(rng.normal(0, visit_sd))
            latencies = median * np.exp(rng.normal(0, call_sd, calls))
            visits[cell].append(visit(cell, block, position, latencies))
    options = {"blocks": blocks, "seconds": 8, "warm_up": 2, "quick": False, "seed": 1}
    parity = {route: {"agrees": True, "cosine": 0.9999, "why": "", "factor": ""} for route in routes.values()}
    measured = options, {"engines": ENGINES}, parity, list(visits.items())
    return Run(study, "2026-01-02T03:04:05Z", method, *measured, ended="finished")


def visit(cell: Cell, block: int, position: int, latencies_ms: NDArray[np.float64]) -> Visit:
    """The visit of a closed loop whose calls took so long, with every factor as such a run would count it."""
    calls, mean = len(latencies_ms), float(latencies_ms.mean()) if len(latencies_ms) else None
    steady = calls * (mean or 0.0) / 1e3 / cell.users
    tensor = cell.route != "jpeg-http"
    server = "triton" if tensor else "jpeg-http"
    grpc = WAYS[cell.route].format.protocol == "gRPC"
    counted = calls + 2 * cell.users
    # Published: every HTTP call has a connection of its own, gRPC calls that overlap share one.
    shared = counted // cell.users if grpc else counted
    connections = {COLD: counted, PUBLISHED: shared, SHARED: 1}.get(cell.policy, cell.users)
    return Visit(
        block=block,
        position=position,
        started_at=f"2026-01-02T03:{block:02d}:{position % 60:02d}Z",
        steady_s=steady,
        steady_requests=float(calls),
        latency=encoded(latencies_ms),
        counted_s=steady * 1.1,
        requests=counted,
        mean_ms=mean,
        encode_ms=(0.4 if tensor else 0.05) * cell.batch,
        decode_ms=0.25,
        stages_ms=stages(cell, mean or 0.0),
        connections=connections,
        edge_connections=connections if cell.target == "edge" else None,
        sent_bytes=round(counted * cell.batch * (TENSOR_BYTES if tensor else JPEG_BYTES) * 1.002),
        received_bytes=counted * cell.batch * (5_200 if tensor else 13_000),
        client_cpu=0.12 if tensor else 0.08,
        cpu_ms={
            "client": counted * 0.5,
            "edge": counted * 0.3,
            server: counted * (mean or 1.0),
            "torchserve": 2.0 * steady,
        },
        server_requests=counted,
        model_executions=counted if tensor else None,
    )


def encoded(latencies_ms: Iterable[float]) -> str:
    """The recorder's histogram of these calls."""
    histogram = Histogram()
    for latency in latencies_ms:
        histogram.record(float(latency) / 1e3)
    return histogram.encode()


def stages(cell: Cell, mean_ms: float) -> dict[str, float]:
    """How edge and server account for a call that took so long: all beyond two at once wait."""
    queue = mean_ms * 0.9 * max(0.0, 1 - 2 / cell.users)
    work = mean_ms - queue
    server, parts = "triton", {"compute_input": 0.02, "compute_infer": 0.88, "compute_output": 0.005, "total": 0.91}
    if cell.route == "jpeg-http":
        server, parts = "server", {"preprocess": 0.2, "compute": 0.7, "encode": 0.02, "total": 0.94}
    found = {f"{server}.{name}": share * work for name, share in parts.items()}
    found |= {f"{server}.queue": queue, f"{server}.total": parts["total"] * work + queue}
    if cell.target == "edge":
        found |= {"edge.hold": 0.01 * work, "edge.send": 0.02 * work, "edge.upstream": queue + 0.95 * work}
    return found


def change(run: Run, which: Callable[[Cell], bool], edit: Callable[[Visit], None]) -> Run:
    """The same run after `edit` of every visit to the cells that `which` picks."""
    for cell, visits in run.cells:
        if which(cell):
            for one in visits:
                edit(one)
    return run


def to(**values: Any) -> Callable[[object], None]:
    """An edit that sets these attributes."""

    def edit(one: object) -> None:
        for name, value in values.items():
            setattr(one, name, value)

    return edit


def cell_id(name: str, batch: int = 1, users: int = 1, policy: str = POOLED) -> str:
    """The id that synthetic_run gives this cell."""
    return Cell(name, name, batch, users, policy).id
