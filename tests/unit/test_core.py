"""From logits to classes; Server-Timing values; one number of threads for every engine; what Prometheus is answered."""

import os
import re
import threading
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest

from bench.measure.ports import free_port
from gateways.core.answer import Class, top_k
from gateways.core.metrics import expose
from gateways.core.threads import available_cores, compute_threads, own_cores
from gateways.core.timing import Stages

LABELS = [f"label {i}" for i in range(6)]
CORES = len(os.sched_getaffinity(0))


def test_top_k_is_sorted_and_labelled() -> None:
    """Best first; equal scores by index, so that answers repeat exactly; a model with three classes has a top three."""
    classes = top_k(np.array([0, 1e4, 1e4 - 2, 1e4, 1e4 - 1, -1e4], np.float32), LABELS, 4)
    assert [c.index for c in classes] == [1, 3, 4, 2]  # and no exponential overflows
    assert classes[0] == Class(1, "label 1", classes[1].score)
    assert len(top_k(np.zeros(3, np.float32), LABELS)) == 3


def test_the_header_lists_stages_in_order_and_the_total() -> None:
    """Milliseconds with three decimals; a stage seen twice is summed, one that raised took its time too."""
    stages = Stages()
    for name, ms in (("queue", 0.5), ("compute", 2), ("queue", 0.25)):
        stages.add(name, ms)
    try:
        with stages.stage("encode"):
            raise ValueError
    except ValueError:
        pattern = r"queue;dur=0\.750, compute;dur=2\.000, encode;dur=\d\.\d{3}, total;dur=\d+\.\d{3}"
        assert re.fullmatch(pattern, stages.header())


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "100000 100000"}, 1),
        ({"cpu.max": "max 100000"}, CORES),
        ({"cpu.max": f"{CORES + 3}00000 100000"}, CORES),
        ({"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, CORES),
        ({}, CORES),
    ],
)
def test_a_container_s_cores_are_counted_by_its_limit(files: dict[str, str], cores: int, tmp_path: Path) -> None:
    """Of cgroup v2 or v1, rounded up, and never more than there are."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert available_cores(tmp_path) == cores


def test_the_setting_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty is no setting; what is not a number of threads is refused with what to do."""
    for text, threads in (("3", 3), ("", available_cores())):
        monkeypatch.setenv("COMPUTE_THREADS", text)
        assert compute_threads() == threads
    for text in ("0", "-1", "two", "1.5", "²"):
        monkeypatch.setenv("COMPUTE_THREADS", text)
        with pytest.raises(ValueError, match=r"COMPUTE_THREADS is .*: set a whole number from 1"):
            compute_threads()


@pytest.mark.parametrize("missing", [0, 1])
def test_threads_that_are_as_many_as_the_cores_get_one_each(missing: int) -> None:
    """Others are left alone."""
    end = threading.Event()
    workers = [threading.Thread(target=end.wait) for _ in range(CORES - 1 - missing)]
    with own_cores():
        for worker in workers:
            worker.start()
    here, *others = (os.sched_getaffinity(one.native_id or 0) for one in (threading.current_thread(), *workers))
    end.set()
    assert set(map(len, (here, *others))) == {CORES if missing else 1}
    assert len(here.union(*others)) == CORES


def test_prometheus_is_answered_where_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the images that are pending at that moment, and with each outcome from the start."""
    monkeypatch.setenv("METRICS_PORT", str(port := free_port()))
    expose(iter((3, 4)).__next__)
    for pending in (3, 4):
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            page = answer.read().decode()
        assert f"fiveway_pending_images {pending}.0\n" in page
        assert 'fiveway_requests_total{status="OVERLOADED"}' in page
