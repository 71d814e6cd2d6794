"""Result files: each is complete or absent, and its types refuse unknown fields."""

import csv
import errno
import io
import json
import os
import re
from pathlib import Path

import pytest

from bench.analysis.analysis import analyse
from bench.report import documents, plots, report, results
from bench.report.results import ResultError
from bench.result import Interval, Result
from tests.unit.bench_runs import change, edited, made, plain, result, typed


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time of a write: here the plots are empty."""
    monkeypatch.setattr(plots, "_svg", lambda *_: "<svg></svg>")


def test_an_interrupted_run_can_be_kept(tmp_path: Path) -> None:
    """Cells that were never visited, and visits that measured nothing, are part of the result; the run that load()
    gives back, of the folder or the file, is the one that write() got."""
    run = made(blocks=2)
    run.environment = result().run.environment  # with what absent fields stand for
    run.ended = "interrupted (Ctrl-C)"
    run.cells = [(cell, visits if number < 4 else []) for number, (cell, visits) in enumerate(run.cells)]
    run.cells[0][1][0].problem = "the route did not answer"
    report.write(tmp_path, run, analyse(run))
    assert {path.name for path in tmp_path.iterdir()} == {"result.json", "cells.csv", "report.md", "report.html"}
    for path in (tmp_path, tmp_path / "result.json"):
        assert results.load(path).run == run
    assert b"\n" not in (tmp_path / "result.json").read_bytes().strip()


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is one line that says what to do; the older files are the same, and no half file is left over."""
    run = made()
    report.write(tmp_path, run, analyse(run))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResultError, match=r"result\.json cannot be written") as caught:
        report.write(tmp_path, run, analyse(run))
    assert "\n" not in str(caught.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    (tmp_path / "taken").write_text("")
    with pytest.raises(ResultError, match="taken"):
        report.write(tmp_path / "taken" / "run", run, analyse(run))


def test_numbers_that_are_not_finite_become_null(tmp_path: Path) -> None:
    """JSON has no infinity; where a number must be, the result is kept and only its views are missing."""
    run = made(batches=(1,), users=())
    analysis = analyse(run)
    analysis.cells[0].connections = float("nan")
    assert report.write(tmp_path / "a", run, analysis).analysis.cells[0].connections is None
    analysis.cells[0].p50_ms = Interval(float("inf"))
    with pytest.raises(ResultError, match="is written, but no report"):
        report.write(tmp_path / "b", run, analysis)
    assert {path.name for path in (tmp_path / "b").iterdir()} == {"result.json"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "is absent"),
        (b"{", "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b'{"schema": 1}', "schema 1, this version reads 2"),
        (b'{"schema": 3, "environment": {"commit": "abc"}}', "at commit abc"),
        (b'{"schema": 2, "kind": "budgets"}', "not a result of schema 2"),
    ],
)
def test_a_file_that_is_no_result_is_refused_in_one_line(tmp_path: Path, content: bytes | None, message: str) -> None:
    """Missing, damaged, older, newer or something else: the line names the file and what is wrong."""
    file = tmp_path / "result.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ResultError, match=message) as caught:
        results.load(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("analysis/cells/0/p50_ms", ..., r"p50_ms.*\$\.analysis\.cells\[0\]"),
        ("cells/0/batch", 0, r">= 1.*cells\[0\]\.batch"),
        ("analysis/cells/0/p51_ms", 8.4, "unknown field.*p51_ms"),
        ("analysis/cells/0/id", "nowhere/b1", "analyse it again"),
        ("analysis/ratios/0/a", "nowhere/b1", "analyse it again"),
    ],
)
def test_a_field_that_is_absent_or_of_another_type_is_named(path: str, value: object, named: str) -> None:
    """In one line, with its place; an analysis speaks of the cells that the result has."""
    with pytest.raises(ResultError, match=named) as caught:
        typed(edited(path, value))
    assert "\n" not in str(caught.value)


def test_cells_csv_has_a_row_per_cell_and_its_numbers() -> None:
    """Intervals are three columns, the parts of the split one each, marks are words."""
    changed = result()
    first = changed.analysis.cells[0]
    first.marks, first.split = ["busy", "few"], {"compute": 1.5, "client encode": 0.25}
    rows = list(csv.DictReader(io.StringIO(results.cells_csv(changed))))
    assert [row["id"] for row in rows] == [cell.id for cell in changed.cells]
    assert first.p50_ms
    for name in ("value", "low", "high"):
        column = "p50_ms" if name == "value" else f"p50_ms_{name}"
        assert float(rows[0][column]) == pytest.approx(first.p50_ms[name], rel=1e-5)
    assert (rows[0]["split_compute_ms"], rows[0]["split_client_encode_ms"]) == ("1.5", "0.25")
    assert (rows[0]["marks"], rows[0]["p99_ms"]) == ("busy; few", "")


def test_the_readme_table_has_its_marks_and_its_place() -> None:
    """A marked cell is marked. The table stands between two markers of the README (tests/static/test_results.py holds
    what it says); without them nothing is written into it at a guess."""
    run = change(made(), lambda cell: cell.name == "trt-grpc", lambda visit: setattr(visit, "client_cpu", 0.9))
    found = Result.of(run, analyse(run))
    text = report.readme_table(found, "x")
    assert all(("†" in line) == line.startswith("| trt-grpc") for line in text.splitlines() if line.startswith("| "))
    begin, end = documents.BEGIN, documents.END
    updated = documents.update_readme(f"before\n\n{begin}\nold\n{end}\n\nafter\n", found, "x")
    assert re.fullmatch(f"before\n\n{begin}\nMeasured 2026-01-02.*\n{end}\n\nafter\n", updated, re.DOTALL)
    for marks in ((), (begin,), (end, begin), (begin, end, begin, end)):
        with pytest.raises(ResultError, match="needs one line"):
            documents.update_readme("\n".join(marks), found, "x")


def test_the_devices_are_the_gpus_that_were_measured(tmp_path: Path) -> None:
    """A row per result on a GPU, one line per machine without; nothing is known of the device behind another edge."""

    def kept(name: str, machine: str, **about: object) -> None:
        changed = plain()
        changed["environment"] |= {"machine": machine, **about}
        (folder := tmp_path / "results" / "2026-01-02" / machine / name).mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps(changed))

    def listed() -> str:
        page = f"{documents.DEVICES_BEGIN}\nold\n{documents.DEVICES_END}\n"
        return documents.update_devices(page, tmp_path)

    assert "No GPU has been measured yet" in listed()
    for name in ("fiveway-1", "fiveway-2"):
        kept(name, "small-2c")
    kept("fiveway-3", "elsewhere-8c", accelerator=None)
    without = listed()
    assert "No GPU has been measured yet" in without
    assert re.findall("^- .*", without, re.M) == ["- small-2c, last on 2026-01-02"]
    kept("fiveway-4", "large-16c", accelerator="gpu", device={"name": "A100", "driver": "575", "count": 1})
    found = listed()
    assert "No GPU" not in found
    (row,) = (line for line in found.splitlines() if line.startswith("| 2026"))
    assert "1 x A100, driver 575: large-16c" in row
    assert "(../results/2026-01-02/large-16c/fiveway-4/report.md)" in row
    assert without.partition("Measured without")[2] == found.partition("Measured without")[2]
