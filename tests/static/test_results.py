"""What the documents say was measured is what the results say."""

import re

import pytest

from bench.report import documents, markdown, report, results, study_page
from bench.studies import STUDIES
from tests.repository import ROOT

README = (ROOT / "README.md").read_text()
INSTRUMENT = (ROOT / "docs" / "instrument.md").read_text()
RESULTS = sorted(str(path.parent.relative_to(ROOT)) for path in (ROOT / "results").glob("*/*/*/result.json"))


def all_named(text: str, what: str = r"\w+(?:-published)?") -> list[str]:
    """The result folders of this kind that a document names, in its order."""
    return list(dict.fromkeys(re.findall(rf"results/[\w-]+/[\w-]+/{what}-\d+", text)))


def numbers(svg: str) -> list[str]:
    """What a picture says in words, and how many shapes it has."""
    return [*re.findall(r"<text[^>]*>([^<]*)", svg), str(svg.count("<use")), str(svg.count("<path"))]


@pytest.mark.parametrize("folder", RESULTS)
def test_every_result_is_whole_and_its_report_is_made_of_it(folder: str) -> None:
    """Each result is read by this version, and `scripts/bench report` would keep every number of its report."""
    assert report.markdown(results.load(ROOT / folder)) == (ROOT / folder / "report.md").read_text()


def test_every_result_is_named_by_a_document() -> None:
    """And every result that a document names is there: besides docs/gpu.md, whose table lists them all."""
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.name != "gpu.md"]
    named = {folder for page in (ROOT / "README.md", *pages) for folder in all_named(page.read_text())}
    assert set(RESULTS) == {folder for folder in named if "/truth-" not in folder}


def test_the_table_of_the_readme_is_the_result_it_names() -> None:
    """`scripts/bench readme` would change nothing."""
    (folder,) = all_named(README, "fiveway")
    assert documents.update_readme(README, results.load(ROOT / folder), folder) == README


def test_the_devices_of_the_gpu_page_are_those_of_the_results() -> None:
    """`scripts/bench devices` would change nothing: what ran where is never claimed without a result."""
    page = (ROOT / "docs" / "gpu.md").read_text()
    assert documents.update_devices(page, ROOT) == page


def test_the_proof_of_the_instrument_is_in_the_results() -> None:
    """The A/A and the truth tables of docs/instrument.md are those of the results that it names."""
    proofs = all_named(INSTRUMENT, "aa"), all_named(INSTRUMENT, "truth")
    assert all(proofs)
    for aa in proofs[0]:
        table = report.quick_runs(results.load(ROOT / aa).analysis.quick_runs)
        assert markdown.table(table) in INSTRUMENT
    for cross_check in proofs[1]:
        assert (ROOT / cross_check / "truth.md").read_text().strip() in INSTRUMENT


@pytest.mark.parametrize("study", STUDIES)
def test_the_page_of_a_study_is_the_result_it_names(study: str) -> None:
    """`scripts/bench page` would change nothing, and `scripts/bench plot` nothing that is said."""
    page = (ROOT / "docs" / "studies" / f"{study}.md").read_text()
    first, *others = ((results.load(ROOT / folder), folder) for folder in all_named(page, study))
    assert study_page.page(*first, *others) == page
    assert numbers(study_page.plot(first[0])) == numbers((ROOT / "docs" / "studies" / f"{study}.svg").read_text())
