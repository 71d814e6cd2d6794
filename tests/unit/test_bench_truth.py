"""The cross-check: what the generators are told, what is made of what they print, and how they end."""

import json
import os
import signal
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from email.message import Message
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import psutil
import pytest

from bench import truth
from bench.measure.launcher import LoadError
from bench.measure.measured import Cell, Visit
from bench.measure.progress import Progress
from bench.report.results import ResultError
from bench.result import Interval
from locustfiles.clients import Endpoint
from locustfiles.clients.http import HttpClient
from locustfiles.clients.policy import COLD, POOLED, PUBLISHED, SHARED
from locustfiles.payloads import payloads
from locustfiles.recorder import Histogram
from locustfiles.routes import ROUTES
from tests.unit.locust_processes import until
from tests.unit.locust_servers import Reply, answering
from tests.unit.tiny_artifacts import tiny

HOST = "http://edge:8080"
HTTP_CELL = Cell("jpeg-http", "jpeg-http", users=8)
GRPC_CELL = Cell("typed-grpc", "typed-grpc", users=8)


def visit(block: int, latencies_us: Mapping[int, int], seconds: float = 1.0, **more: Any) -> Visit:
    """A visit with these calls."""
    latency = Histogram()
    for microseconds, count in latencies_us.items():
        latency.record(microseconds / 1e6, count)
    calls = latency.count
    return Visit(block, 1, "", seconds, float(calls), latency.encode(), requests=calls, **more)


def output(steps: Mapping[int, int], seconds: float = 1.0, *, requests: int | None = None, **errors: int) -> str:
    """What a generator prints: its own text, then a line of JSON."""
    found = {"requests": sum(steps.values()) if requests is None else requests, "failures": sum(errors.values())}
    found |= {"errors": errors, "seconds": seconds, "latencies_us": sorted(steps.items())}  # type: ignore[dict-item]
    return f"Running 5s test\nRequests/sec: 1\n{json.dumps(found)}\n"


def read(cell: Cell, stdout: str) -> Visit:
    result = Visit(1, 1, "")
    truth.read(cell.users, stdout, result)
    return result


def corrected(steps: Mapping[int, int], expected: int) -> Counter[int]:
    """stats_correct of wrk 4.1.0, step by step: from 2 * expected up, each n adds its count at n - expected, ..."""
    data = Counter(steps)
    for n in range(expected * 2, max(steps) + 1):
        count, m = data[n], n - expected
        while count and m > expected:
            data[m] += count
            m -= expected
    return +data


@pytest.mark.parametrize("seed", range(5))
def test_what_wrk_adds_is_taken_out_exactly(seed: int) -> None:
    """Long-tailed latencies come back as they were, whatever wrk's correction made of them."""
    rng = np.random.default_rng(seed)
    latencies = Counter(int(value) for value in rng.lognormal(6, 1.2, 300))
    expected = int(sum(value * count for value, count in latencies.items()) / 300)
    distorted = corrected(latencies, expected)
    assert distorted.total() > latencies.total(), "there was something to take out"
    assert truth.uncorrected(distorted, expected) == latencies


def test_wrk_becomes_a_visit() -> None:
    """Requests, seconds and latencies are those of the calls that were made, with wrk's additions left out."""
    latencies = {1000: 50, 1100: 49, 9000: 1}
    added = corrected(latencies, 60_000 // (100 // 2))
    assert added.total() > 100
    result = read(replace(HTTP_CELL, users=2), output(added, 0.06, requests=100))
    assert (result.requests, result.failures, result.steady_requests) == (100, 0, 100.0)
    assert result.steady_s == pytest.approx(0.06)
    assert Histogram(result.latency).percentile_ms(50) == pytest.approx(1.0, rel=0.001)
    assert result.mean_ms == pytest.approx((50 * 1.0 + 49 * 1.1 + 9.0) / 100)
    assert read(HTTP_CELL, output({5000: 1, 20000: 2}, 0.02)).requests == 3, "few calls per connection: as they are"


def test_each_kind_of_error_is_a_failure() -> None:
    """They keep their texts; a call beyond wrk's time limit has no latency."""
    result = read(HTTP_CELL, output({1000: 9}, 0.01, requests=10, status=3, timeout=1))
    assert (result.errors, result.failures, result.requests) == ({"status": 3, "timeout": 1}, 4, 9)


@pytest.mark.parametrize(
    ("stdout", "why"),
    [
        *[(text, "something else") for text in ("", "Running 1s test\n", '{"requests": 3', '{"requests": 3}')],
        (output({1000: 7}, 0.01, requests=10), "7 latencies of 10 calls"),
    ],
)
def test_what_is_no_result_is_refused(stdout: str, why: str) -> None:
    """Other output, and that of another version of wrk, is one clear line."""
    with pytest.raises(truth.GeneratorError, match=why) as caught:
        read(HTTP_CELL, stdout)
    assert "\n" not in str(caught.value)


@pytest.fixture
def artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model with a tensor for each photo."""
    monkeypatch.setenv("ARTIFACTS", str(tiny(tmp_path)))
    return tmp_path / "tiny" / "tensors"


@pytest.mark.parametrize("name", [name for name, route in ROUTES.items() if route.format.protocol == "HTTP"])
def test_wrk_sends_what_locust_sends(name: str, artifacts: Path) -> None:
    """A server gets the same from wrk's files, byte for byte, as from Locust's client; headers in any order."""
    got: list[tuple[object, ...]] = []

    def answer(method: str, path: str, headers: Message, body: bytes) -> Reply:
        got.append((method, path, sorted(headers.items()), body))
        return 200, b"{}", {}

    route, served = ROUTES[name], f"tiny{ROUTES[name].suffix}"
    with answering(answer) as port:
        address = f"127.0.0.1:{port}"
        headers = {**route.format.headers, **route.headers}
        client = HttpClient(Endpoint(address, route.path.format(model=served), headers))
        for payload in payloads(route.format.encode, served, artifacts, "224x224", 1):
            client.send(payload)
        for request in truth.target(Cell(name, name), f"http://{address}")[1]:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(request)
                assert connection.recv(15) == b"HTTP/1.1 200 OK"
    half = len(got) // 2
    assert got[:half] == got[half:] != []


def test_wrk_is_told(artifacts: Path) -> None:
    """Users, seconds, Locust's time limit, where Locust goes, then the files."""
    url, _ = truth.target(Cell("trt-http", "trt-http"), HOST)
    wrk = truth.wrk_command(16, url, 5, [Path("a"), Path("b")])
    assert wrk[:7] == ["wrk", "-t1", "-c16", "-d5s", "--timeout", "30s", "-s"]
    assert Path(wrk[7]).exists()
    assert wrk[8:] == ["http://edge:8080/v2/models/tiny_trt/infer", "--", "a", "b"]
    assert truth.target(Cell("jpeg-http", "jpeg-http", target="http://far:80"), HOST)[0].startswith("http://far:80/")


def test_what_no_generator_can_do_is_said() -> None:
    """wrk keeps its connections, the client in Go knows three policies, and neither has a schedule."""
    for cell, able in (HTTP_CELL, [POOLED]), (GRPC_CELL, [POOLED, SHARED, COLD]):
        for policy in (POOLED, SHARED, COLD, PUBLISHED):
            found = truth.unfit(replace(cell, policy=policy))
            assert ("choose" in found) is bool(found) is (policy not in able)
        assert "choose no rate" in truth.unfit(replace(cell, rate=10.0))


def sides(factor: float, drift: Mapping[int, float]) -> tuple[list[Visit], list[Visit]]:
    """Locust's visits and the generator's: `factor` times as long in every block, whatever the block itself does."""

    def side(times: float) -> list[Visit]:
        around = range(9_800, 10_201, 10)
        return [visit(block, {round(us * slower * times): 4 for us in around}) for block, slower in drift.items()]

    return side(factor), side(1.0)


@pytest.mark.parametrize(("factor", "within"), [(1.04, True), (0.96, True), (1.08, False), (0.92, False)])
def test_the_error_is_locusts_p50_over_the_generators(factor: float, within: bool) -> None:
    """In both directions; the interval holds it, and 5 % is the goal. It is paired by block: blocks that differ by half
    leave it narrow, as both sides see the same block."""
    found = truth.row(HTTP_CELL, *sides(factor, {1: 1.0, 2: 1.5, 3: 0.8}))
    error, p50 = found["error"], found["truth_p50_ms"]
    assert error.high - error.low < 0.05
    assert p50.high / p50.low > 1.3
    assert error.value == pytest.approx(factor - 1, abs=0.002)
    assert error.low - 0.002 <= factor - 1 <= error.high + 0.002
    assert found["within_goal"] is within
    assert found["marks"] == []
    assert (found["generator"], found["blocks"], found["truth_requests"]) == ("wrk", 3, 3 * 41 * 4)


def test_only_blocks_that_both_measured_count() -> None:
    """A generator that failed in the slow block takes Locust's slow block with it; the row says why."""
    ours, theirs = sides(1.0, {1: 1.0, 2: 1.0, 3: 1.0, 4: 5.0})
    theirs[3] = Visit(4, 0, "", problem="wrk did not end")
    found = truth.row(HTTP_CELL, ours, theirs)
    assert found["blocks"] == 3
    assert found["error"].value == pytest.approx(0, abs=0.002)
    assert found["marks"] == ["wrk did not end"]


def test_the_verdict_is_the_intervals() -> None:
    """A small error whose interval includes large ones is not a success, and a large one whose interval includes small
    ones is not a failure."""
    unclear: list[tuple[Any, Any]] = [(0.01, 0.06), (-0.5, 0.9), (0.04, 0.1), (None, None)]
    for word, limits in ("met", [(-0.05, 0.05)]), ("missed", [(0.06, 0.1), (-0.1, -0.06)]), ("inconclusive", unclear):
        assert {truth.verdict(Interval(0.0, *both)) for both in limits} == {word}
    assert truth.verdict(None) == "inconclusive"


def test_a_cell_that_cannot_be_judged_has_no_error() -> None:
    """Nothing measured, too few calls, and calls of Locust's that failed: each is marked."""
    nothing = truth.row(HTTP_CELL, [], [], "an open loop")
    assert (nothing["error"], nothing["within_goal"], nothing["marks"]) == (None, None, ["an open loop"])
    assert nothing["truth_p50_ms"] is None
    few = truth.row(HTTP_CELL, [visit(1, {1000: 9})], [visit(1, {1000: 100})])
    assert (few["error"], few["marks"]) == (None, ["fewer than 10 calls: measure longer"])
    failed = truth.row(HTTP_CELL, [visit(1, {1000: 50}, failures=2)], [visit(1, {1000: 50})])
    assert failed["marks"] == ["2 of Locust's calls failed"]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Puts an executable of this name first on PATH: Python with this code."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def put(name: str, code: str) -> None:
        program = folder / name
        program.write_text(f"#!{sys.executable}\nimport os, subprocess, sys, time\n{code}\n")
        program.chmod(0o755)

    return put


@pytest.mark.usefixtures("artifacts")
@pytest.mark.parametrize(
    ("cell", "code", "problem"),
    [
        (HTTP_CELL, None, "wrk cannot be started"),
        (GRPC_CELL, None, "raw cannot be started"),
        (HTTP_CELL, "print('usage', file=sys.stderr); sys.exit('unable to connect')", "status 1: unable to connect"),
        (GRPC_CELL, "sys.exit(2)", "go ended early, or was killed after its time: without a word"),
        (GRPC_CELL, "os.close(0); print('idle'); print({})", "go printed something else than its numbers"),
        (HTTP_CELL, f"print({output({1000: 5}, gone=3, x=1)!r})", "4 calls failed, most with gone"),
        (HTTP_CELL, f"print({output({})!r})", "no call ended"),
    ],
)
def test_a_generator_that_fails_is_no_truth(
    cell: Cell, code: str | None, problem: str, install: Callable[[str, str], None]
) -> None:
    """It is not there, it fails, its calls fail, or none ends: one line says so."""
    if code is not None:
        install("wrk" if cell is HTTP_CELL else "raw", code)
    assert problem in truth.generate(cell, HOST, 1, 0.5).problem


def test_inputs_that_are_missing_are_asked_for(artifacts: Path) -> None:
    for tensor in artifacts.iterdir():
        tensor.unlink()
    assert "the model builder makes the inputs" in truth.generate(Cell("trt-http", "trt-http"), HOST, 1, 0.5).problem


@pytest.mark.usefixtures("artifacts")
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_generator_that_does_not_end_is_killed_with_what_it_started(
    interrupted: bool, install: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets its time and no more, and Ctrl-C goes on up; neither it nor its child runs after."""
    started = tmp_path / "pids"
    child = f"p = subprocess.Popen([{sys.executable!r}, '-c', 'import time; time.sleep(600)'])"
    told = f"open({str(started)!r}, 'w').write(f'{{os.getpid()}} {{p.pid}}')"
    install("wrk", f"{child}\n{told}\ntime.sleep(600)")

    def interrupt() -> None:
        until(lambda: len(started.read_text().split()) == 2, "both process ids")
        os.kill(os.getpid(), signal.SIGINT)

    if interrupted:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            truth.run(["wrk"], 60)
    else:
        monkeypatch.setattr(truth, "LIMIT_S", 3.0)
        assert "did not end in 4 s" in truth.generate(HTTP_CELL, HOST, 1, 0.5).problem
    until(lambda: not any(map(alive, map(int, started.read_text().split()))), "both to be gone")


def alive(pid: int) -> bool:
    """Running, and not merely waiting to be buried."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


Done = list[tuple[str, int]]


def check(
    patch: pytest.MonkeyPatch, *cells: Cell, end: BaseException | None = None
) -> tuple[list[dict[str, Any]], Done]:
    """The rows of a cross-check in three blocks, and who measured in which; Locust's p50 is 2 % above the truth."""
    done: Done = []

    def measure(cell: Cell, block: int) -> Visit:
        if end and block == 3:
            raise end
        done.append((f"locust {cell.id}", block))
        return visit(block, {1020: 100})

    def generate(cell: Cell, host: str, block: int, seconds: float) -> Visit:
        generator = truth.GENERATORS[ROUTES[cell.route].format.protocol]
        done.append((generator, block))
        return visit(block, {1000: 100}, problem="wrk cannot be started" if generator == "wrk" else "")

    patch.setattr(truth, "generate", generate)
    with Progress(100) as progress:
        return truth.cross_check(cells, measure, blocks=3, seconds=0.5, progress=progress, host=HOST), done


def test_the_sides_take_turns_at_going_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell is visited once by both in every block, and who begins changes from block to block."""
    _, done = check(monkeypatch, GRPC_CELL)
    locust, other = f"locust {GRPC_CELL.id}", "go"
    assert done == [(locust, 1), (other, 1), (other, 2), (locust, 2), (locust, 3), (other, 3)]


def test_a_bad_generator_costs_its_rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other rows are measured, and what no generator can do is not visited."""
    shared = replace(HTTP_CELL, policy=SHARED)
    (bad, good, unfit), done = check(monkeypatch, HTTP_CELL, GRPC_CELL, shared)
    assert (bad["error"], bad["marks"]) == (None, ["wrk cannot be started"])
    assert (good["marks"], good["within_goal"]) == ([], True)
    assert "choose pooled" in unfit["marks"][0]
    assert not [who for who, _ in done if shared.id in who]


@pytest.mark.parametrize(
    ("end", "word", "status"), [(KeyboardInterrupt(), "interrupted", 130), (LoadError("it ended"), "it ended", 1)]
)
def test_an_early_end_keeps_what_was_measured(
    end: BaseException, word: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows have the blocks until then, and say why the run ended."""
    (row,), _ = check(monkeypatch, GRPC_CELL, end=end)
    assert row["blocks"] == 2
    assert word in row["marks"][0]
    assert row["error"].value == pytest.approx(0.02, abs=0.002)
    assert truth.keep(tmp_path / "new" / "run", [row], {}, {}) == status


def test_what_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """truth.json has everything, truth.md the table that is also printed; all measured is status 0."""
    row = truth.row(HTTP_CELL, *sides(1.02, {1: 1.0, 2: 1.0, 3: 1.0}))
    folder = tmp_path / "a" / "run"
    assert truth.keep(folder, [row], {"commit": "abc"}, {"results": Path("x"), "users": [1]}) == 0
    found = json.loads((folder / "truth.json").read_text())
    assert (found["schema"], found["goal"], found["environment"]) == (1, 0.05, {"commit": "abc"})
    assert found["rows"] == [msgspec.to_builtins(row)]
    text = (folder / "truth.md").read_text()
    assert text in capsys.readouterr().out
    assert f"| {row['id']} | wrk | {row['truth_p50_ms'].value:.2f} (" in text
    assert " | met |" in text
    with pytest.raises(ResultError, match="cannot be written"):
        truth.keep(folder / "truth.md" / "run", [row], {}, {})
