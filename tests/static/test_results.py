"""What the documents say was measured is what the results say."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.report import documents, markdown, report, results, study_page
from bench.studies import STUDIES
from chaos import page as reliability
from tests.repository import ROOT

PAGES = STUDIES.keys() - {"endpoint"}
"""Its results are of somebody's own server: they have no page here."""
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


def test_the_reliability_page_is_the_results_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """`scripts/chaos page` would change nothing."""
    page = (ROOT / "docs" / "reliability.md").read_text()
    (named,) = re.findall(r"^<!-- Made by \./scripts/chaos page (.+?): change", page, re.M)
    monkeypatch.chdir(ROOT)
    assert reliability.made(map(Path, named.split())) == page


@pytest.mark.parametrize("study", sorted(PAGES))
def test_the_page_of_a_study_is_the_result_it_names(study: str) -> None:
    """`scripts/bench page` would change nothing, and `scripts/bench plot` nothing that is said."""
    page = (ROOT / "docs" / "studies" / f"{study}.md").read_text()
    first, *others = ((results.load(ROOT / folder), folder) for folder in all_named(page, study))
    assert study_page.page(*first, *others) == page
    assert numbers(study_page.plot(first[0])) == numbers((ROOT / "docs" / "studies" / f"{study}.svg").read_text())


def between(result: dict[str, Any], a: str, b: str, measure: str = "p50_ms", **where: object) -> list[dict[str, Any]]:
    """The ratios a / b of a result.json, in the cells with these factors."""
    cells = {cell["id"]: cell for cell in result["cells"]}
    ratios = [one for one in result["analysis"]["ratios"] if (one["a_name"], one["b_name"]) == (a, b)]
    return [r for r in ratios if r["measure"] == measure and all(cells[r["a"]][f] == v for f, v in where.items())]


def base(result: dict[str, Any]) -> tuple[list[float], str]:
    (one,) = between(result, "echo-grpc-light-structured", "echo-http-structured", "images_per_s", gather=True)
    assert one["verdict"] == "lower"
    return [100 / one["value"] - 100, 100 / one["high"] - 100, 1 / one["low"]], "gRPC is"


def clients(result: dict[str, Any]) -> tuple[list[float], str]:
    (pooled,) = (one for one in result["analysis"]["pooled"] if one["kind"] == "protocol and client")
    return [10, 100 / pooled["low"] - 100, 100 * pooled["high"] - 100], "gRPC and HTTP are the same within 10 %"


def distance(result: dict[str, Any]) -> tuple[list[float], str]:
    (one,) = between(result, "vectors-protobuf", "vectors-json", size="10000", distance="300ms-100mbit")
    return [100 / one["value"] - 100], "faster than JSON"


def encodings(result: dict[str, Any]) -> tuple[list[float], str]:
    found = {cell["id"].split("/")[0]: cell for cell in result["analysis"]["cells"] if cell["id"].startswith("onnx-")}
    sums = {name: one["encode_ms"] + one["p50_ms"]["value"] + one["decode_ms"] for name, one in found.items()}
    assert min(sums, key=sums.__getitem__) == "onnx-http"
    return [sums["onnx-http-json"] / sums["onnx-http"]], "times faster than as JSON over HTTP"


def fiveway(result: dict[str, Any]) -> tuple[list[float], str]:
    times = [
        one["value"] if cell["users"] == 1 else 1 / one["value"]
        for cell in result["cells"]
        for measure in ("p50_ms" if cell["users"] == 1 else "images_per_s",)
        for one in result["analysis"]["ratios"]
        if (one["a"], one["kind"], one["measure"]) == (cell["id"], "format", measure)
    ]
    (pooled,) = (one for one in result["analysis"]["pooled"] if one["kind"] == "format")
    assert pooled["ratios"] == len(times)
    whole = math.exp(-sum(map(math.log, times)) / len(times))
    assert f"{whole:.1f}" == f"{1 / pooled['high']:.1f}" == f"{1 / pooled['low']:.1f}"  # so it has no limits there
    return [whole], "a tensor to Triton is"


def format_(result: dict[str, Any]) -> tuple[list[float], str]:
    (one,) = between(result, "onnx-http", "jpeg-http", batch=1, users=1, distance="")
    return [1 / one["value"]], "times faster than PyTorch with JPEGs"


def frames(result: dict[str, Any]) -> tuple[list[float], str]:
    (one,) = between(result, "frames-shm-zmq-double", "frames-in-process", "images_per_s", size="1280x720")
    return [100 * max(0.1, 1 - one["low"], one["high"] - 1)], "are the same within"


def torchserve(result: dict[str, Any]) -> tuple[list[float], str]:
    (pooled,) = (one for one in result["analysis"]["pooled"] if one["kind"] == "protocol")
    assert pooled["ratios"] == 2 * 3 * 2
    return [100 * pooled[limit] - 100 for limit in ("value", "low", "high")], "gRPC is"


FIRST = {"format": format_} | {
    one.__name__: one for one in (base, clients, distance, encodings, fiveway, frames, torchserve)
}


@pytest.mark.parametrize(("study", "recount"), FIRST.items(), ids=list(FIRST))
def test_the_first_sentence_of_a_study_is_its_result(
    study: str, recount: Callable[[dict[str, Any]], tuple[list[float], str]]
) -> None:
    """Its numbers, three at most, are those that a few lines find in result.json without the bench's own code."""
    assert set(FIRST) == PAGES
    page = (ROOT / "docs" / "studies" / f"{study}.md").read_text()
    (answer,) = re.findall(r"\A# .*\n\n<!-- .* -->\n\n\*\*(.*)\*\*\n", page)
    sentence = answer.partition(". ")[0]
    numbers, words = recount(json.loads((ROOT / all_named(page, study)[0] / "result.json").read_text()))
    said = re.findall(r"(?<![\w.-])\d+(?:\.\d+)?(?![\w-])", sentence)
    assert words in sentence
    assert len(said) == len(numbers) <= 3
    for text, number in zip(said, numbers, strict=True):
        assert abs(float(text) - number) <= 0.5 / 10 ** len(text.partition(".")[2]), (text, number)
