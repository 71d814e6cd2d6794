"""Reading counters: servers and files of our own that count what we say, with the texts that the real ones write."""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.measure import counters
from bench.measure.counters import MACHINE, Delta, Snapshot, delta, read
from bench.measure.measured import Cell
from bench.measure.turns import Turn, taken
from tests.unit.bench_runs import to
from tests.unit.locust_servers import answering

SNMP = """Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens
Tcp: 1 200 120000 -1 {} 41
"""


MS = {"queue": 1, "compute_input": 2, "compute_infer": 30, "compute_output": 4}
"""Of each request in Triton; 1 ms more lies between the stages."""


class Stack:
    """Envoy's, Triton's and the kernel's counters. Each page read costs a connection and 1,000 bytes each way."""

    def __init__(self, folder: Path) -> None:
        self.network, self.snmp = folder / "net", folder / "snmp"
        self.sent = self.received = self.opened = 0
        self.connections = self.own_answers = self.under_way = 0
        self.uptime = 100
        self.answers = self.successes = 0
        self.executed: list[tuple[int, int]] = []
        """(images, requests) of each execution of Triton's."""
        self.late: list[tuple[int, int]] = []
        self.joules = 1000.5
        self.broken = False
        self.paths: set[str] = set()
        self.write()

    def write(self) -> None:
        """The kernel's counters. The loopback's bytes are not counted; the other interfaces share the rest."""
        for name, sent, received in (("lo", 7777, 7777), ("eth0", self.sent, 100), ("eth1", 0, self.received)):
            folder = self.network / name / "statistics"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "tx_bytes").write_text(f"{sent}\n")
            (folder / "rx_bytes").write_text(f"{received}\n")
        self.snmp.write_text(SNMP.format(self.opened))

    def calls(self, count: int, *, failed: int = 0, batch: int = 1, edge: bool = True) -> None:
        """Successful calls on connections of their own, and calls that the server answers 200 with a gRPC error."""
        self.opened += count
        self.sent += 500 * count
        self.received += 40 * count
        if edge:
            self.connections += count
            self.answers += count + failed
            self.successes += count
        self.executed += [(batch, 1)] * count
        self.write()

    def page(self, path: str) -> str:
        self.paths.add(path)
        self.opened += 1
        self.sent += 1000
        self.received += 1000
        self.write()
        if self.broken:
            return "<html>"
        if path.startswith("/stats?filter="):
            names = counters.LISTENER, counters.OWN_ANSWERS, counters.UNDER_WAY, counters.UPTIME
            values = self.connections, self.own_answers, self.under_way, self.uptime
            answers = f"cluster.onnx-grpc.upstream_rq_200: {self.answers}\n" if self.answers else ""
            return answers + "".join(f"{name}: {value}\n" for name, value in zip(names, values, strict=True))
        if path == "/clusters":
            triton = "::172.21.0.3:8001::rq_"
            ours = f"onnx-grpc{triton}success::{self.successes}\nonnx-grpc{triton}error::3\n"
            return f"onnx-grpc::added_via_api::false\n{ours}trt-grpc{triton}success::9\n"
        if path == "/metrics":
            joules, used = self.joules / 2, {"a": 0.5, "b": 0.9}
            lines = [f'nv_energy_consumption{{gpu_uuid="{gpu}"}} {joules}' for gpu in used]
            lines += [f'nv_gpu_utilization{{gpu_uuid="{gpu}"}} {share}' for gpu, share in used.items()]
            return "\n".join(lines) + "\n"
        if self.late:
            self.executed.append(self.late.pop())
        requests = sum(found for _, found in self.executed)
        sums = {stage: {"count": requests, "ns": ms * 1_000_000 * requests} for stage, ms in MS.items()}
        sums["success"] = {"count": requests, "ns": (sum(MS.values()) + 1) * 1_000_000 * requests}
        sizes = [
            {stage: {"count": count, "ns": ms * 1_000_000 * count} for stage, ms in MS.items()} | {"batch_size": images}
            for images, count in Counter(images for images, _ in self.executed).items()
        ]
        return json.dumps({"model_stats": [{"inference_stats": sums, "batch_stats": sizes}]})


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    found = Stack(tmp_path)
    monkeypatch.setattr(counters, "NETWORK", found.network)
    monkeypatch.setattr(counters, "SNMP", found.snmp)
    monkeypatch.setattr(counters, "_own", Counter())
    with answering(lambda _, path, *__: (200, found.page(path).encode(), {})) as port:
        for name in ("EDGE_STATISTICS", "TRITON", "TRITON_METRICS"):
            monkeypatch.setattr(counters, name, f"127.0.0.1:{port}")
        yield found


def cell(batch: int = 1, target: str = "edge", route: str = "onnx-grpc") -> Cell:
    return Cell(route, route, batch=batch, target=target)


def test_a_reading_in_between_costs_nothing_either(stack: Stack) -> None:
    """Windows overlap: from the start of a group, and from the end of its warm-up."""
    stack.calls(3)
    first = read(cell(), "m")
    stack.calls(2)
    middle = read(cell(), "m")
    stack.calls(3)
    last = read(cell(), "m")
    assert [delta((first, last)).connections, delta((middle, last)).connections] == [5, 3]
    assert [delta((first, last)).sent_bytes, delta((middle, last)).sent_bytes] == [2500, 1500]


def calls(count: int, **options: Any) -> Callable[[Stack], None]:
    return lambda stack: stack.calls(count, **options)


def executes(*executed: tuple[int, int]) -> Callable[[Stack], None]:
    return lambda stack: stack.executed.extend(executed)


@dataclass(frozen=True)
class Case:
    """What happens in a window of this cell, what is then counted, and a word of why something is not known."""

    cell: Cell
    events: Sequence[Callable[[Stack], None]]
    counted: Mapping[str, object]
    reason: str = ""


EDGE, DIRECT, EIGHTS = cell(), cell(target="direct"), cell(batch=8, target="direct")
ELSEWHERE, STREAM = cell(target="http://edge.example:8080"), cell(route="echo-grpc-stream-structured")
SILENT = cell(target="direct", route="typed-grpc")
FIVE: dict[str, object] = {"server_requests": 5}
NOTHING: dict[str, object] = {"server_requests": None, "triton_stages_ms": {}}
ANEW = to(connections=0, answers=0, successes=0)
SHARED_BATCH = executes((8, 1), (8, 1), (8, 1), (17, 3), (1, 1))
CASES = {
    "the edge's health check": Case(EDGE, [calls(2), to(connections=11, own_answers=4)], {"edge_connections": 2}),
    "a gRPC error with status 200": Case(EDGE, [calls(5, failed=2)], FIVE),
    "probes": Case(EDGE, [calls(5), executes((1, 1), (1, 1))], FIVE | {"model_executions": 5}),
    "a call that Triton did not see": Case(EDGE, [calls(5), to(answers=11, successes=11)], FIVE),
    "direct, one probe shared a batch with two calls": Case(
        EIGHTS, [SHARED_BATCH], FIVE | {"model_executions": 4, "edge_connections": None}
    ),
    "direct, probes look like calls": Case(DIRECT, [calls(5, edge=False)], FIVE),
    "a four in a window of eights": Case(
        EIGHTS, [executes((8, 1), (4, 1))], NOTHING | {"server_requests": 2}, counters.SOMEBODY_ELSE
    ),
    "more than health checks send": Case(
        EDGE, [calls(5), executes(*[(1, 1)] * 20)], NOTHING | FIVE, counters.SOMEBODY_ELSE
    ),
    "a count that comes late": Case(DIRECT, [calls(4, edge=False), to(late=[(1, 1)])], FIVE),
    "an open stream is at rest": Case(
        STREAM, [calls(5), to(under_way=1)], {"server_requests": None, "edge_connections": 5}
    ),
    "an edge that began anew": Case(EDGE, [ANEW], {"edge_connections": None, "connections": 0}, "restarted"),
    "a younger edge": Case(EDGE, [calls(50), to(uptime=2)], {"edge_connections": None}, "restarted"),
    "a Triton that began anew": Case(EDGE, [to(executed=[])], NOTHING | {"model_executions": None}, "restarted"),
    "a server that counts nothing": Case(SILENT, [calls(5)], {"server_requests": None, "connections": 5}, "typed-grpc"),
    "an edge elsewhere": Case(
        ELSEWHERE, [calls(5)], NOTHING | {"edge_connections": None, "connections": 5}, "edge.example"
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_counted(stack: Stack, name: str) -> None:
    """After five earlier calls: what a window counts, and why something is not known."""
    case = CASES[name]
    stack.calls(5)
    before = read(case.cell, "m")
    for happens in case.events:
        happens(stack)
    found = delta((before, read(case.cell, "m")))
    assert {name: getattr(found, name) for name in case.counted} == case.counted
    assert case.reason in found.reasons[0] if case.reason else found.reasons == []


def test_the_stages_of_a_call(stack: Stack) -> None:
    """Means over the calls: two calls in one execution both wait for all of it; a probe of another size is left out.
    A model that takes photos is two in a row: of the sums of both, what the first one computes is named too."""
    chosen = cell(batch=4)
    before = read(chosen, "m")
    stack.calls(3, batch=4)
    stack.executed += [(8, 2), (1, 1)]
    found = delta((before, read(chosen, "m"))).triton_stages_ms
    names = ("queue", "compute_input", "compute_infer", "compute_output", "total")
    assert found == pytest.approx({f"triton.{name}": ms for name, ms in zip(names, (1, 2, 30, 4, 38), strict=True)})
    chosen = cell(route="onnx-jpeg-grpc", target="direct")
    before = read(chosen, "m_jpeg")
    stack.calls(3, edge=False)
    found = delta((before, read(chosen, "m_jpeg"))).triton_stages_ms
    assert (found["triton.decode"], found["triton.total"]) == pytest.approx((32, 38))
    assert "/v2/models/m_preprocess/stats" in stack.paths


def test_counters_that_never_rest(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else is calling: said after a while, and the reading ends."""
    monkeypatch.setattr(counters, "LIMIT_S", 0.1)
    before = read(cell(), "m")
    stack.under_way = 1
    assert "did not come to rest" in delta((before, read(cell(), "m"))).reasons[0]


def test_what_cannot_be_read_is_said(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """No server, no page, no counters in the kernel: each is None with a reason, and nothing is raised."""
    stack.broken = True
    found = delta((read(cell(), "m"), read(cell(), "m")))
    assert found.server_requests is None
    assert {reason.partition(" (")[0] for reason in found.reasons} == {"the edge's counters", "Triton's statistics"}

    for name, value in {"EDGE_STATISTICS": "127.0.0.1:1", "TRITON": "127.0.0.1:1", "SNMP": stack.snmp / "no"}.items():
        monkeypatch.setattr(counters, name, value)
    found = delta((read(cell(), "m"), read(cell(), "m")))
    assert found == Delta(reasons=found.reasons)
    assert len(found.reasons) == 3
    assert all("cannot be read" in reason for reason in found.reasons)


def test_without_docker_bytes_are_not_counted(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """DIRECT_ADDRESSES says where; on the loopback a byte has no direction, and what the wires carry is not ours."""
    monkeypatch.setenv("DIRECT_ADDRESSES", f"triton:8000={counters.TRITON}")
    monkeypatch.setattr(counters, "TRITON", "triton:8000")
    before = read(DIRECT, "m")
    stack.calls(5, edge=False)
    found = delta((before, read(DIRECT, "m")))
    assert (found.server_requests, found.connections, found.reasons) == (5, 5, [])
    assert (found.sent_bytes, found.received_bytes) == (0, 0)


@pytest.mark.parametrize(
    ("place", "first", "then"),
    [
        ("cpuacct/docker/{}/cpuacct.usage", "5000000\n", "25000000\n"),
        ("docker/{}/cpu.stat", "usage_usec 5000\nuser_usec 1\n", "usage_usec 25000\n"),
        ("system.slice/docker-{}.scope/cpu.stat", "usage_usec 5000\n", "usage_usec 25000\n"),
    ],
)
def test_the_cpu_time_of_a_service_is_that_of_its_containers(
    place: str, first: str, then: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the groups of cgroup v1 and v2, by either driver. Whom the host did not name, and what cannot be read, is left
    out; so is a container that was started anew. What the load's own container takes is not the machine's."""
    ids = {letter * 64: service for letter, service in zip("abcde", ["triton", "triton", "edge", "", ""], strict=True)}
    told = [{"id": id_, "service": service} for id_, service in ids.items() if service]
    monkeypatch.setenv("FIVEWAY_HOST", json.dumps({"services": told}))
    monkeypatch.setattr(counters, "CGROUPS", tmp_path)
    files = [tmp_path / place.format(id_) for id_ in ids]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_text(first)
    whole = tmp_path / ("cpuacct" if "cpuacct" in place else "") / files[0].name
    whole.write_text(first)
    files[3].with_name("cgroup.procs").write_text(f"{os.getpid()}\n")
    files[4].with_name("cgroup.procs").write_text("0\n")
    counters.containers.cache_clear()
    found = counters.containers()
    assert {service: len(paths) for service, paths in found.items()} == {
        "triton": 2, "edge": 1, counters.MACHINE: 1, counters.OWN: 1,
    }  # fmt: skip
    cell = Cell("onnx-http", "onnx-http", target="http://elsewhere")
    before = read(cell, "m")
    files[0].write_text(then)
    files[2].write_text(first.replace("5", "1"))
    files[3].write_text(then)
    whole.write_text(then.replace("25", "9025"))
    counted = delta((before, read(cell, "m")))
    assert (counted.cpu_ms, counted.machine_ms) == ({"triton": 20.0}, 9000.0)
    files[2].unlink()
    assert delta((before, read(cell, "m"))).cpu_ms == {"triton": 20.0}
    counters.containers.cache_clear()


def test_energy_is_counted_where_there_are_gpus(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all of them, for every route: PyTorch computes on them too. Without one Triton's metrics are not asked."""
    jpeg = cell(route="jpeg-http")
    assert delta((read(jpeg, "m"), read(jpeg, "m"))).energy_j is None
    assert "/metrics" not in stack.paths
    monkeypatch.setenv("FIVEWAY_HOST", json.dumps({"devices": [{"name": "A100"}]}))
    before = read(jpeg, "m")
    stack.joules += 30
    found = delta((before, read(jpeg, "m")))
    assert (found.energy_j, found.gpu_utilization) == (30.0, 0.7)


def test_a_turn_that_others_disturbed_is_made_again() -> None:
    """Once in a visit, since others may never rest. A server that is not asked, and checks its health, is another."""

    def turn(number: int, others_s: float) -> Turn:
        others = round(others_s * 1e9)
        end = Counter({MACHINE: 10**9 + others, "triton": 10**9, "jpeg-http": others})
        before, after = (
            Snapshot(cell(), 0.0, *(Counter(),) * 3, (one, one), Counter(), ())
            for one in (Counter(dict.fromkeys(end, 0)), end)
        )
        return Turn(before, after, [{"counted_s": 1.0, "number": number}])

    made = map(turn, range(5), (0.0, 0.5, 0.0, 0.5, 0.0))
    kept, repeated = taken([None] * 4, lambda: next(made))
    assert [one.shares[0]["number"] for one in kept] == [0, 2, 3, 4]
    assert (repeated, max(one.others_cpu for one in kept)) == (1, 0.5)
