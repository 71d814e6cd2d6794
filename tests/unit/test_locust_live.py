"""The live numbers of the routes: what a process records, and what its master makes of the reports of several."""

import json
from typing import Any

import numpy as np
import pytest

from locustfiles.page.live import WINDOW_S, Recorder, Row, Table
from locustfiles.recorder import MIN_CALLS

REPORT_EVERY_S = 3.0


class Clock:
    """A time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Worker:
    """A process of the load: its recorder, the time, and what it has called so far."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.recorder = Recorder(self.clock)

    def call(self, ms: float = 10.0, *, route: str = "onnx-grpc", fails: bool = False, **context: int) -> None:
        """One call that ends `ms` after the one before it."""
        self.clock.now += ms / 1000
        about: dict[str, Any] = {"route": route, "images": 1, "sent": 600, "connections": 0} | context
        error = ConnectionError() if fails else None
        self.recorder.record(response_time=ms, response_length=0 if fails else 50, exception=error, context=about)

    def report(self) -> Any:
        """What the master receives: plain words, which survive Locust's packing."""
        return json.loads(json.dumps(self.recorder.take()))


def row(table: Table, *workers: Worker) -> Row:
    """The row of the route after a report of each worker."""
    for worker in workers:
        table.add(str(id(worker)), worker.report())
    return table.routes()["onnx-grpc"]


def test_percentiles_of_two_workers_are_those_of_all_calls() -> None:
    """Shares of several reports merge to the exact percentiles, to the histogram's 0.1 %."""
    workers, table = (Worker(), Worker()), Table()
    times = np.random.default_rng(3).lognormal(3, 0.5, 3000)
    for start in range(0, 3000, 500):
        for number, worker in enumerate(workers):
            for ms in times[start + 250 * number : start + 250 * (number + 1)]:
                worker.call(ms)
            table.add(f"worker {number}", worker.report())
    row = table.routes()["onnx-grpc"]
    assert row.requests == 3000
    for percent, shown in ((50, row.p50_ms), (90, row.p90_ms), (99, row.p99_ms)):
        assert shown == pytest.approx(np.percentile(times, percent, method="inverted_cdf"), rel=1.1e-3)


@pytest.mark.parametrize("name", ["p50_ms", "p90_ms", "p99_ms"])
def test_a_percentile_of_too_few_calls_is_not_shown(name: str) -> None:
    """One call less than it needs, and it is None; failed calls do not count."""
    least = MIN_CALLS[float(name[1:3])]
    worker, table = Worker(), Table()
    for number in range(2 * least - 1):
        worker.call(fails=number < least)
    assert getattr(row(table, worker), name) is None
    worker.call()
    assert getattr(row(table, worker), name) == pytest.approx(10, rel=1e-3)


def test_failures_are_requests_without_times_and_bytes() -> None:
    """As Locust counts them; an answer's bytes and latency are those of answered calls. Whoever connects, it counts."""
    workers = Worker(), Worker()
    for worker in workers:
        for _ in range(10):
            worker.call(10, images=4, sent=2400, connections=1)
        for _ in range(5):
            worker.call(900, images=4, sent=2400, connections=1, fails=True)
    found = row(Table(), *workers)
    assert (found.requests, found.failures, found.connections) == (30, 10, 30)
    assert found.p50_ms == pytest.approx(10, rel=1e-3)
    assert (found.sent_per_image, found.received_per_image) == (600, 12.5)


def test_images_per_second_of_all_workers() -> None:
    """Two workers with one user each, at 100 and 50 calls a second of 4 images: 600 images a second, whenever read."""
    now = Clock()
    table = Table(now)
    fast, slow = Worker(), Worker()
    for _ in range(5):
        for worker, ms in ((fast, 10), (slow, 20)):
            for _ in range(int(REPORT_EVERY_S * 1000 / ms)):
                worker.call(ms, images=4)
            table.add(str(ms), worker.report())
        now.now += REPORT_EVERY_S
    found = table.routes()["onnx-grpc"]
    assert found.images_per_s == pytest.approx(600)
    assert found.images_per_s_now == pytest.approx(600)


def test_the_recent_rate_forgets() -> None:
    """After WINDOW_S it is that of the new calls only; later than that it is None, and the run's own stays."""
    now = Clock()
    worker, table = Worker(), Table(now)
    for ms in (10, 40):
        for _ in range(100):
            worker.call(ms)
        now.now += WINDOW_S + 1
        found = row(table, worker)
    assert found.images_per_s_now == pytest.approx(25)
    assert found.images_per_s == pytest.approx(199 / 4.99)
    now.now += WINDOW_S + 1
    found = table.routes()["onnx-grpc"]
    assert found.images_per_s_now is None
    assert found.images_per_s == pytest.approx(199 / 4.99)


def test_calls_slower_than_the_reports_have_a_rate() -> None:
    """A report without a call of the route moves no clock: 1 call in 4 s is 0.25 images a second."""
    worker, table = Worker(), Table()
    for _ in range(3):
        worker.call(4000)
        found = row(table, worker, worker)
    assert found.images_per_s == pytest.approx(0.25)


def test_steps_have_rows_of_their_own() -> None:
    """A step has its measured calls and its warm-up's connections; over several steps a route has counts only."""
    worker, table = Worker(), Table()
    for step, ms in (("onnx-grpc b1 c1", 10), ("onnx-grpc b8 c1", 50)):
        worker.recorder.begin(step, counts=False)
        worker.call(500, connections=1)
        worker.recorder.begin(step, counts=True)
        for _ in range(20):
            worker.call(ms)
        worker.recorder.begin("", counts=False)
        worker.clock.now += 2
    table.add("worker", worker.report())
    steps = table.steps()
    assert {name: (row.requests, row.connections) for name, row in steps.items()} == {
        "onnx-grpc b1 c1": (20, 1),
        "onnx-grpc b8 c1": (20, 1),
    }
    assert steps["onnx-grpc b8 c1"].p50_ms == pytest.approx(50, rel=1e-3)
    assert steps["onnx-grpc b8 c1"].images_per_s == pytest.approx(20)
    route = table.routes()["onnx-grpc"]
    assert (route.requests, route.connections) == (42, 2)
    assert (route.p50_ms, route.images_per_s) == (None, None)
    assert route.images_per_s_now == pytest.approx(38 / (19 * 0.01 + 19 * 0.05))


def test_reset_forgets_everything() -> None:
    """A new test begins with an empty table, and with no time since the last call of the one before."""
    worker, table = Worker(), Table()
    worker.call()
    row(table, worker)
    worker.call(connections=1)
    table.reset()
    worker.recorder.reset()
    assert table.routes() == {}
    worker.clock.now += 60
    for _ in range(11):
        worker.call()
    found = row(table, worker)
    assert (found.requests, found.connections) == (11, 0)
    assert found.images_per_s == pytest.approx(100)
