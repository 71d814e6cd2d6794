"""A/A: quick runs cut out of one run, each judged by its own blocks alone, and what is made of them."""

from bench import aa
from bench.measure.measured import Run
from tests.unit.bench_runs import synthetic_run

NAMES = {"onnx-http A": "onnx-http", "onnx-http B": "onnx-http"}
RUNS = 4


def run(**options: object) -> Run:
    """Four quick runs of three blocks, one user."""
    return synthetic_run(study="aa", names=NAMES, batches=(1,), users=(), blocks=3 * RUNS, calls=60, **options)  # type: ignore[arg-type]


def test_a_route_against_itself_shows_no_difference() -> None:
    """Equal distributions: a row per measure, and hardly a quick run that sees a difference. A quick run has
    three blocks; fewer that are left over at the end are not counted."""
    made = run()
    for _, visits in made.cells:
        del visits[-1]
    assert [visit.block for visit in list(aa.quick_runs(made, 3))[1].cells[0][1]] == [1, 2, 3]
    rows = aa.judge(made, 3)
    assert [(row["batch"], row["users"], row["measure"], row["runs"]) for row in rows] == [
        (1, 1, "p50_ms", RUNS - 1),
        (1, 1, "images_per_s", RUNS - 1),
    ]
    assert all(row["same"] >= RUNS - 2 for row in rows)
    assert all((row.width or 0) > 1 for row in rows)
    assert set(rows[0].cpu_widths) == {"all", "client", "edge", "servers"}


def test_a_difference_is_seen() -> None:
    """One name is twice as slow: no quick run misses it, and the texts say it."""
    for row in aa.judge(run(slower={"onnx-http A": 2.0}), 3):
        assert row["same"] == 0
        assert len(row["different"]) == RUNS
        assert "onnx-http" in row["different"][0]
