"""What the documents say was measured is what the results say."""

import re

import pytest

from bench.report import results, study_page
from bench.studies import STUDIES
from tests.repository import ROOT

README = (ROOT / "README.md").read_text()
MEASURING = (ROOT / "docs" / "measuring.md").read_text()
RESULTS = sorted(path.parent for path in (ROOT / "results").glob("*/*/*/result.json"))


@pytest.mark.parametrize("folder", RESULTS, ids=lambda folder: folder.name)
def test_every_result_is_whole(folder: object) -> None:
    """Each result of the repository passes the schema of this version."""
    results.load(str(folder))


def all_named(text: str, what: str) -> list[str]:
    """The result folders of this kind that a document names, in its order."""
    found = list(dict.fromkeys(re.findall(rf"results/[\w-]+/[\w-]+/{what}-\d+", text)))
    assert found, f"no result of {what} is named"
    return found


def named(text: str, what: str) -> str:
    """The one result folder of this kind that a document names."""
    found = all_named(text, what)
    assert len(found) == 1, f"one result of {what} is named: {found}"
    return found[0]


def test_the_table_of_the_readme_is_the_result_it_names() -> None:
    """`scripts/bench readme` would change nothing."""
    folder = named(README, "fiveway")
    assert results.update_readme(README, results.load(ROOT / folder), folder) == README


def test_the_devices_of_the_gpu_page_are_those_of_the_results() -> None:
    """`scripts/bench devices` would change nothing: what ran where is never claimed without a result."""
    page = (ROOT / "docs" / "gpu.md").read_text()
    assert results.update_devices(page, ROOT) == page


def test_the_proof_of_the_instrument_is_in_the_results() -> None:
    """The A/A and the truth tables of docs/measuring.md are those of the results that it names."""
    for aa in all_named(MEASURING, "aa"):
        assert results.quick_runs(results.load(ROOT / aa)) in MEASURING
    for cross_check in all_named(MEASURING, "truth"):
        assert (ROOT / cross_check / "truth.md").read_text().strip() in MEASURING


@pytest.mark.parametrize("study", STUDIES)
def test_the_page_of_a_study_is_the_result_it_names(study: str) -> None:
    """`scripts/bench page` and `scripts/bench plot` would change nothing."""
    page = (ROOT / "docs" / "studies" / f"{study}.md").read_text()
    first, *others = ((results.load(ROOT / folder), folder) for folder in all_named(page, study))
    assert study_page.page(*first, *others) == page
    assert study_page.plot(first[0]) == (ROOT / "docs" / "studies" / f"{study}.svg").read_text()
