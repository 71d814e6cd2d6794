"""One number of threads for every engine: what is asked for, or what the container may use."""

import os
from pathlib import Path

import pytest

from gateways.core.threads import available_cores, compute_threads

CORES = len(os.sched_getaffinity(0))


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
