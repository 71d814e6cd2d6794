"""What the documents say was measured is what the results say."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.report import documents, performance, report, results, study_page
from bench.result import Interval
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
        result = results.load(ROOT / aa)
        runs = result.analysis.quick_runs
        visits = [visit for cell in result.cells for visit in cell.visits]
        # Of one caller, and of eight.
        of = {"p50_ms": [0, 2], "images_per_s": [1, 3], "servers": [0, 3], "edge": [0, 3]}
        cells = [
            f"`{result.cells[0].route}`",
            f"{sum(visit.disturbed for visit in visits)} of {len(visits)}",
            f"{sum(row.same for row in runs)} of {sum(row.runs for row in runs)}",
            *(
                ", ".join(report.half(runs[i].cpu_widths.get(what, runs[i].width)) for i in rows)
                for what, rows in of.items()
            ),
        ]
        assert f"[{Path(aa).name}](../{aa}/report.md) | {' | '.join(cells)} |" in INSTRUMENT
    for cross_check in proofs[1]:
        assert (ROOT / cross_check / "truth.md").read_text().strip() in INSTRUMENT


def test_what_metrics_and_traces_cost_is_in_the_results() -> None:
    """Each row of the table in docs/metrics.md has the ratios over all cells of the file that it names."""
    page = (ROOT / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| \[(?:metrics|traces)\]\(\.\./(.+?)\) \| (.+) \|$", page, re.M)
    assert len(rows) == 2
    for file, said in rows:
        ratios = json.loads((ROOT / file).read_text())["ratios"]
        wanted = [str(Interval(**ratios[measure]["all cells"])) for measure in ("CPU, ms/image", "p50, ms", "images/s")]
        assert said.split(" | ") == wanted


@pytest.mark.parametrize(
    ("name", "command", "made"),
    [("reliability", "chaos page", reliability.made), ("performance", "bench performance", performance.page)],
)
def test_a_page_of_goals_is_the_results_it_names(
    name: str, command: str, made: Callable[[list[Path]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command would change nothing."""
    page = (ROOT / "docs" / f"{name}.md").read_text()
    (named,) = re.findall(rf"^<!-- Made by \./scripts/{command} (.+?): change", page, re.M)
    monkeypatch.chdir(ROOT)
    assert made([Path(path) for path in named.split()]) == page


@pytest.mark.parametrize("study", sorted(PAGES))
def test_the_page_of_a_study_is_the_result_it_names(study: str) -> None:
    """`scripts/bench page` would change nothing, and `scripts/bench plot` nothing that is said."""
    page = (ROOT / "docs" / "studies" / f"{study}.md").read_text()
    first, *others = ((results.load(ROOT / folder), folder) for folder in all_named(page, study))
    assert study_page.page(*first, *others) == page
    assert numbers(study_page.plot(first[0])) == numbers((ROOT / "docs" / "studies" / f"{study}.svg").read_text())


def ratio(result: dict[str, Any], a: str, b: str, measure: str = "p50_ms", **where: object) -> dict[str, Any]:
    """The only ratio a / b of a result.json in a cell with these factors."""
    cells = {cell["id"] for cell in result["cells"] if all(cell[name] == value for name, value in where.items())}
    ratios = [one for one in result["analysis"]["ratios"] if one["measure"] == measure and one["a"] in cells]
    (found,) = (one for one in ratios if (one["a_name"], one["b_name"]) == (a, b))
    return dict(found)


def pooled(result: dict[str, Any], kind: str) -> dict[str, Any]:
    (found,) = (one for one in result["analysis"]["pooled"] if one["kind"] == kind)
    return dict(found)


def encodings(result: dict[str, Any]) -> dict[str, Any]:
    """The slowest form against the best one: of encode and call together."""
    found = [cell for cell in result["analysis"]["cells"] if cell["id"].startswith("onnx-")]
    sums = {cell["id"].split("/")[0]: cell["encode_ms"] + cell["p50_ms"]["value"] for cell in found}
    best, *_, slowest = sorted(sums, key=sums.__getitem__)
    return dict(ratio(result, slowest, best)["encoded"])


def most(result: dict[str, Any]) -> dict[str, Any]:
    """The largest number of photos a second at a knee."""
    return dict(max((knee["per_second"] for knee in result["analysis"]["knees"]), key=lambda one: one["value"]))


BASE = ("echo-grpc-light-structured", "echo-http-structured", "images_per_s")
FAR: dict[str, Any] = {"size": "10000", "distance": "300ms-100mbit"}
NEAR: dict[str, Any] = {"batch": 1, "users": 1, "distance": ""}
UP, DOWN = ("value", "low", "high"), ("value", "high", "low")  # the limit that is nearer to 1 comes first
BEST = "torchserve-http-base64"
FRAMES = ("frames-shm-zmq-double", "frames-in-process", "images_per_s")
# Study -> its ratio, what is said of it, and of which of its numbers.
FIRST: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], str, tuple[str, ...]]] = {
    "base": (lambda r: ratio(r, *BASE, gather=True), "gRPC is", DOWN),
    "clients": (lambda r: pooled(r, "protocol and client"), "gRPC and HTTP are the same within", ("low", "high")),
    "distance": (lambda r: ratio(r, "vectors-protobuf", "vectors-json", **FAR), "faster than JSON", DOWN),
    "encodings": (encodings, "as JSON over HTTP", UP),
    "fiveway": (lambda r: pooled(r, "format"), "a tensor to Triton is", DOWN),
    "format": (lambda r: ratio(r, "onnx-http", "jpeg-http", **NEAR), "faster than PyTorch with", DOWN),
    "frames": (lambda r: ratio(r, *FRAMES, size="1280x720"), "are the same within", ("high", "low")),
    "peers": (lambda r: ratio(r, "jpeg-http", BEST, "images_per_s", users=16), "faster than TorchServe", UP),
    "scaling": (most, "gives the most photos", ("value", "low", "high")),
    "shm": (lambda r: ratio(r, "onnx-shm", "onnx-grpc", target="edge", batch=8), "faster than gRPC", DOWN),
    "torchserve": (lambda r: pooled(r, "protocol"), "gRPC is", UP),
}


@pytest.mark.parametrize("study", sorted(PAGES))
def test_the_first_sentence_of_a_study_is_its_result(study: str) -> None:
    """Its numbers, three at most, are those that a few lines find in result.json without the bench's own code."""
    find, words, limits = FIRST[study]
    page = (ROOT / "docs" / "studies" / f"{study}.md").read_text()
    (answer,) = re.findall(r"\A# .*\n\n<!-- .* -->\n\n\*\*(.*)\*\*\n", page)
    figures = re.findall(r"\d(?= %| times|\.\d\d)", re.sub(r"\([^()]*\)", "", answer))
    assert answer.count(". ") <= 1
    assert len(figures) <= 3
    sentence = answer.partition(". ")[0]
    found = find(json.loads((ROOT / all_named(page, study)[0] / "result.json").read_text()))
    numbers = []
    if "same within" in words:
        assert 1 / 1.1 <= found["low"] <= found["high"] <= 1.1
        numbers = [10.0]
    for far in (max(found[limit], 1 / found[limit]) for limit in limits):
        numbers.append(far if far > 1.495 else 100 * (far - 1))
    said = re.findall(r"(?<![\w.-])\d+(?:\.\d+)?(?![\w-])", sentence)
    assert words in sentence
    assert len(said) == len(numbers) <= 3
    for text, number in zip(said, numbers, strict=True):
        assert abs(float(text) - number) <= 0.5 / 10 ** len(text.partition(".")[2]), (text, number)
