"""How many threads compute a batch: one number for every engine, so that comparing engines is not comparing cores.

Standard library only.
"""

import math
import os
from pathlib import Path


def compute_threads() -> int:
    """COMPUTE_THREADS, by default the cores that this container may use. Raises ValueError where it is not a number."""
    asked = os.environ.get("COMPUTE_THREADS") or str(available_cores())
    if not asked.isascii() or not asked.isdigit() or int(asked) < 1:
        raise ValueError(f"COMPUTE_THREADS is {asked!r}: set a whole number from 1, or leave it out")
    return int(asked)


def available_cores(root: Path = Path("/sys/fs/cgroup")) -> int:
    """Of this container, rounded up. Libraries count the machine's: under a CPU limit their threads would only queue
    for a quota."""
    cores = len(os.sched_getaffinity(0))
    try:  # cgroup v2: "200000 100000" or "max 100000"
        quota, period = (root / "cpu.max").read_text().split()
    except OSError:
        try:  # cgroup v1: -1 is no limit
            quota, period = ((root / f"cpu/cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        except OSError:
            return cores
    return cores if quota in ("max", "-1") else min(cores, math.ceil(int(quota) / int(period)))
