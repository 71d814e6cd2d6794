"""The page of a study: everything on it comes from the result, and it is the same every time."""

import copy
from collections.abc import Collection

import numpy as np
import pytest

from bench.analysis.analysis import analyse
from bench.measure.measured import Run
from bench.report import study_page
from bench.report.results import ResultError
from bench.result import Result
from bench.studies import STUDIES
from tests.unit.bench_runs import ENVIRONMENT, visit

FOLDER = "results/2026-01-02/synthetic-cpu-2c-24g/made-030405"
LATENCIES = np.linspace(0.9, 1.1, 40)


def made(study: str, only: Collection[str] = ()) -> Result:
    """A result of the quick form, or of some rows of it; every row takes 5 % longer than the one before it."""
    cells = [cell for cell in STUDIES[study].cells(True) if not only or cell.name in only]
    rows = list(STUDIES[study].routes)
    run = Run(study, "2026-01-02T03:04:05Z", "fair", {}, ENVIRONMENT, ended="finished")
    run.parity = {name: {"agrees": True, "cosine": 1.0, "why": ""} for name in rows}
    for cell in cells:
        times = [10 * 1.05 ** rows.index(cell.name) * drift * LATENCIES for drift in (1.0, 1.01, 0.99)]
        run.cells.append((cell, [visit(cell, block, 1, ms) for block, ms in enumerate(times, 1)]))
    return Result.of(run, analyse(run))


@pytest.mark.parametrize("study", STUDIES)
def test_the_quick_form_has_a_page_and_a_plot(study: str) -> None:
    """Rows with their numbers, claims with verdicts, and what to do; the plot names every row and fetches nothing.
    tests/static/test_results.py holds the pages of whole results."""
    found, about = made(study), STUDIES[study]
    text, svg = study_page.page(found, FOLDER), study_page.plot(found)
    for name in {cell.name for cell in found.cells}:
        assert text.count(f"| {name} |") >= len(about.measures) + 1, name
        assert f">{name}</text>" in svg
    assert all(f"### {name}: " in text for name in about.claims)
    assert not {"None", "nan"} & set(text.split())
    assert not [text for text in ('href="http', "var(--", "#0102", "$") if text in svg]


def test_another_result_comes_after_and_says_what_is_different() -> None:
    """Another model, other rows, or neither; another study is refused, and so is what has no page."""
    first, fewer = made("format"), made("format", ("onnx-http", "onnx-jpeg-http"))
    other = copy.deepcopy(first)
    other.environment.model.name = "densenet161"
    text = study_page.page(first, FOLDER, (other, "results/b"), (fewer, "results/c"), (first, "results/d"))
    heads = [line for line in text.splitlines() if line.startswith(("## The same", "## Again"))]
    assert heads == ["## The same with densenet161", "## Again, onnx-http and onnx-jpeg-http alone", "## Again"]
    other.study = "base"
    with pytest.raises(ResultError, match="results of one study"):
        study_page.page(first, FOLDER, (other, "results/b"))
    other.study = "aa"
    with pytest.raises(ResultError, match="aa has no page"):
        study_page.page(other, FOLDER)
