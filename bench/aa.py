"""A/A: one route against itself under two names, in quick runs. A correct instrument shows no difference. All quick
runs are kept in one Run: each has its own blocks and is judged by these alone.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import median_high
from typing import Any

from bench.analysis.analysis import analyse
from bench.measure.measured import Cell, Run
from bench.measure.plan import matrix
from bench.result import CPU_PARTS, NO_DIFFERENCE, NO_VERDICT, SAME, Interval, QuickRuns, Ratio


def cells(route: str, batches: Sequence[int], concurrency: Sequence[int], targets: Sequence[str]) -> list[Cell]:
    """The cells of `<route> A` and `<route> B`."""
    return [
        cell
        for target in targets
        for name in ("A", "B")
        for cell in matrix(Cell(f"{route} {name}", route, target=target), batches, concurrency)
    ]


def judge(run: Run, blocks: int) -> list[QuickRuns]:
    """A row per ratio: in how many quick runs A and B showed no difference, and how wide the intervals were."""
    rows: dict[tuple[Any, ...], list[Ratio]] = defaultdict(list)
    for one in quick_runs(run, blocks):
        for ratio in analyse(one).ratios:
            rows[ratio.batch, ratio.users, ratio.target, ratio.measure].append(ratio)
    found = []
    for (batch, users, target, measure), ratios in rows.items():
        verdicts = Counter(ratio.verdict for ratio in ratios)
        different = [ratio.text for ratio in ratios if ratio.verdict in ("lower", "higher")]
        cpu = {part: _width(ratio.cpu.get(part) for ratio in ratios) for part in CPU_PARTS}
        widths = {part: width for part, width in cpu.items() if width}
        counts = len(ratios), verdicts[SAME] + verdicts[NO_DIFFERENCE], verdicts[NO_VERDICT]
        found.append(QuickRuns(batch, users, target, measure, *counts, different, _width(ratios), widths))
    return found


def _width(intervals: Iterable[Ratio | Interval | None]) -> float | None:
    """The median of upper / lower limit; None without any."""
    widths = [one.high / one.low for one in intervals if one and one.low and one.high]
    return median_high(widths) if widths else None


def quick_runs(run: Run, blocks: int) -> Iterator[Run]:
    """The complete quick runs, each as a Run with the blocks 1 to `blocks`."""
    last = max((visit.block for _, visits in run.cells for visit in visits), default=0)
    for first in range(1, last - blocks + 2, blocks):
        part = [
            (cell, [replace(v, block=v.block - first + 1) for v in visits if first <= v.block < first + blocks])
            for cell, visits in run.cells
        ]
        yield replace(run, cells=part)
