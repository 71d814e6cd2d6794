"""The live numbers of the routes: what a process records, and what its master makes of the reports of several."""

import json
from typing import Any

import numpy as np
import pytest

from locustfiles.page.live import WINDOW_S, Recorder, Row, Table
from locustfiles.recorder import MIN_CALLS, Histogram

ROUTE = "onnx-grpc"


class Worker:
    """A process of the load: its recorder, the time, and what it has called so far."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.recorder = Recorder(lambda: self.now)

    def call(
        self, ms: float = 10.0, *, times: int = 1, fails: bool = False, images: int = 1, connects: int = 0
    ) -> None:
        """So many calls, of which each ends `ms` after the one before it."""
        error = ConnectionError() if fails else None
        about = {"images": images, "sent": 600 * images, "connections": connects}
        for _ in range(times):
            self.now += ms / 1000
            self.recorder.record(ROUTE, ms, 0 if fails else 50, error, about)

    def report(self) -> Any:
        """What the master receives: plain words, which survive Locust's packing."""
        return json.loads(json.dumps(self.recorder.take()))


def row(table: Table, *workers: Worker) -> Row:
    """The row of the route after a report of each worker."""
    for worker in workers:
        table.add(str(id(worker)), worker.report())
    return table.routes()[ROUTE]


def test_percentiles_of_two_workers_are_those_of_all_calls() -> None:
    """Shares of several reports merge to the exact percentiles, to the histogram's 0.1 %."""
    workers, table = (Worker(), Worker()), Table()
    times = np.random.default_rng(3).lognormal(3, 0.5, 3000)
    for number, ms in enumerate(times):
        workers[number // 250 % 2].call(ms)
        if number % 500 == 499:
            found = row(table, *workers)
    assert found["requests"] == 3000
    for percent in MIN_CALLS:
        exact = np.percentile(times, percent, method="inverted_cdf")
        assert found[f"p{percent}_ms"] == pytest.approx(exact, rel=1.1e-3)


@pytest.mark.parametrize("percent", MIN_CALLS)
def test_a_percentile_of_too_few_calls_is_not_shown(percent: float) -> None:
    """One call less than it needs, and it is None; failed calls do not count."""
    least = MIN_CALLS[percent]
    worker, table = Worker(), Table()
    worker.call(times=least, fails=True)
    worker.call(times=least - 1)
    assert row(table, worker)[f"p{percent}_ms"] is None
    worker.call()
    assert row(table, worker)[f"p{percent}_ms"] == pytest.approx(10, rel=1e-3)


def test_failures_are_requests_without_times_and_bytes() -> None:
    """As Locust counts them; an answer's bytes and latency are those of answered calls. Whoever connects, it counts."""
    workers = Worker(), Worker()
    for worker in workers:
        worker.call(10, times=10, images=4, connects=1)
        worker.call(900, times=5, images=4, connects=1, fails=True)
    found = row(Table(), *workers)
    assert (found["requests"], found["failures"], found["connections"]) == (30, 10, 30)
    assert found["p50_ms"] == pytest.approx(10, rel=1e-3)
    assert (found["sent_per_image"], found["received_per_image"]) == (600, 12.5)


def test_images_per_second_of_all_workers() -> None:
    """Two workers with one user each, at 100 and 50 calls a second of 4 images: 600 images a second, whenever read.
    A report without a call of the route moves no clock: 1 call in 4 s is 0.25 images a second."""
    now = 1000.0
    table, fast, slow = Table(lambda: now), Worker(), Worker()
    for _ in range(5):
        fast.call(10, times=300, images=4)
        slow.call(20, times=150, images=4)
        found = row(table, fast, slow)
        now += 3
    assert found["images_per_s"] == pytest.approx(600)
    assert found["images_per_s_now"] == pytest.approx(600)
    worker, table = Worker(), Table()
    for _ in range(3):
        worker.call(4000)
        found = row(table, worker, worker)
    assert found["images_per_s"] == pytest.approx(0.25)


def test_the_recent_rate_forgets() -> None:
    """After WINDOW_S it is that of the new calls only; later than that it is None, and the run's own stays."""
    now = 1000.0
    worker, table = Worker(), Table(lambda: now)
    for ms in (10, 40):
        worker.call(ms, times=100)
        now += WINDOW_S + 1
        found = row(table, worker)
    assert found["images_per_s_now"] == pytest.approx(25)
    now += WINDOW_S + 1
    found = table.routes()[ROUTE]
    assert found["images_per_s_now"] is None
    assert found["images_per_s"] == pytest.approx(199 / 4.99)


def test_steps_have_rows_of_their_own() -> None:
    """A step has its measured calls and its warm-up's connections; over several steps a route has counts only."""
    worker, table = Worker(), Table()
    for step, ms in (("onnx-grpc b1 c1", 10), ("onnx-grpc b8 c1", 50)):
        worker.recorder.begin(step, counts=False)
        worker.call(500, connects=1)
        worker.recorder.begin(step, counts=True)
        worker.call(ms, times=20)
        worker.recorder.begin("", counts=False)
        worker.now += 2
    route = row(table, worker)
    steps = table.steps()
    assert [(name, row["requests"], row["connections"]) for name, row in steps.items()] == [
        ("onnx-grpc b1 c1", 20, 1),
        ("onnx-grpc b8 c1", 20, 1),
    ]
    assert steps["onnx-grpc b8 c1"]["p50_ms"] == pytest.approx(50, rel=1e-3)
    assert steps["onnx-grpc b8 c1"]["images_per_s"] == pytest.approx(20)
    assert (route["requests"], route["connections"]) == (42, 2)
    assert (route["p50_ms"], route["images_per_s"]) == (None, None)
    assert route["images_per_s_now"] == pytest.approx(38 / (19 * 0.01 + 19 * 0.05))


def test_reset_forgets_everything() -> None:
    """A new test begins with an empty table, and with no time since the last call of the one before."""
    worker, table = Worker(), Table()
    worker.call()
    row(table, worker)
    worker.call(connects=1)
    table.reset()
    worker.recorder.reset()
    assert table.routes() == {}
    worker.now += 60
    worker.call(times=11)
    found = row(table, worker)
    assert (found["requests"], found["connections"]) == (11, 0)
    assert found["images_per_s"] == pytest.approx(100)


def test_every_call_counts() -> None:
    """Each latency with how often it was seen, ascending; 0 s as 1 us, an hour as 600 s. No calls, no percentile. So
    after a merge too: other text than a histogram's is refused."""
    first, made = Histogram(), Histogram()
    for histogram, seconds in ((first, 0.002), (first, 0.0), (first, 0.001), (made, 3600.0), (made, 0.001)):
        histogram.record(seconds)
    made.merge(first.encode())
    values, counts = made.steps()
    assert values[:3].tolist() == [1, 1000, 2000]
    assert counts.tolist() == [1, 2, 1, 1]
    assert made.percentile_ms(0) == pytest.approx(0.001)
    assert made.percentile_ms(100) == pytest.approx(600_000, rel=1e-3)
    assert Histogram().percentile_ms(50) is None
    assert Histogram().steps()[0].size == 0
    with pytest.raises(ValueError, match="not an encoded HDR histogram"):
        made.merge("garbage")
