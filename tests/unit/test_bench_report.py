"""The report: one page that loads nothing, says what the result says, and can be read by everybody."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from bench.figures import digits
from bench.report import plots, report, results
from bench.report.results import rows
from bench.result import Interval, Result
from tests.unit.bench_runs import edited, plain, result, typed

NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
SVG = "{http://www.w3.org/2000/svg}svg"


def words(page: str) -> str:
    """All text of a page; fails on a tag that is not closed, or in the wrong place."""
    (body,) = ElementTree.fromstring(page).iter("body")
    return " ".join(" ".join(body.itertext()).split())


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of a page's time: for tests of its words the plots are empty."""
    monkeypatch.setattr(plots, "_svg", lambda *_: "<svg></svg>")


@pytest.fixture(scope="module")
def whole() -> Result:
    return result()


@pytest.fixture(scope="module")
def drawn(whole: Result) -> str:
    return report.html(whole)


def test_the_page_loads_nothing(drawn: str) -> None:
    """No script, no link to a file, no address: it can be mailed, and opened years later. Two plots never share a clip
    path or a marker, and links in the page have their target."""
    assert not re.search(r"<(script|link|img|iframe|object)\b|@import|url\((?!#)", drawn)
    assert set(re.findall(r"https?://[^\s\"'<]+", drawn)) <= NAMESPACES
    ids = re.findall(r' id="([^"]*)"', drawn)
    assert len(set(ids)) == len(ids) > 0
    assert set(re.findall(r'(?:href="|url\()#([\w.-]+)', drawn)) <= set(ids)


def test_the_page_is_the_same_every_time(monkeypatch: pytest.MonkeyPatch, whole: Result, drawn: str) -> None:
    """A report that is made again differs only where its result does, and so does every plot."""
    assert plots.split([row for row in rows(typed(plain())) if row["users"] == 1]) in drawn
    monkeypatch.setattr(plots, "_svg", lambda *_: "<svg></svg>")
    assert report.html(typed(plain())) == report.html(whole)


def test_every_number_of_the_result_is_on_the_page(whole: Result, drawn: str) -> None:
    """p50 with its interval, each ratio's own words, the claims, and where it was measured."""
    facts, text = whole.environment, words(drawn)
    assert facts.services
    p50s = [row["p50_ms"] for row in rows(whole) if row["users"] == 1]
    said = [text for p50 in p50s for text in (digits(p50.value), p50.limits)]
    said += [ratio.text for ratio in whole.analysis.ratios]
    said += [one[field] for one in whole.analysis.hypotheses for field in one.__struct_fields__]
    said += ["OpenVINOExecutionProvider", "locust 2.47.0", facts.services["triton"].image, "no GPU", facts.machine]
    for fact in (*said, facts.commit, facts.model.checksum, facts.envoy.config_sha256):
        assert " ".join((fact or "").split()) in text


def test_everybody_can_read_the_page(drawn: str) -> None:
    """Every drawing is an image with a text that has its numbers. Every header says what it heads; what scrolls
    sideways can be reached without a mouse. A verdict is a word and a sign and a colour, in light and in dark."""
    page = ElementTree.fromstring(drawn)
    images = [svg.attrib for svg in page.iter(SVG)]
    assert len(images) == len(list(page.iter("figcaption"))) == 7
    assert all(image["role"] == "img" and re.search(r"\d", image["aria-label"]) for image in images)
    scopes = [found.get("scope") for found in page.iter("th")]
    assert set(scopes) == {"row", "col"}
    regions = [found for found in page.iter("div") if found.get("class") in ("scroll", "plot")]
    assert all(found.get("role") == "region" and found.get("tabindex") and found.get("aria-label") for found in regions)
    assert all(f"{sign} {word}" in words(drawn) for word, sign in report.SIGNS.items())
    assert {"faster", "slower", "no-verdict"} & {found.get("class") for found in page.iter("td")}
    assert "#0102" not in drawn
    light, dark = (set(re.findall(r"(--[\w-]+):", block)) for block in re.findall(r":root \{(.*?)\}", drawn, re.S))
    assert set(re.findall(r"var\((--[\w-]+)\)", drawn)) <= light == dark


HOSTILE = '<script>alert("x")</script> & `|` {{ 7 * 7 }}'


@pytest.mark.usefixtures("undrawn")
def test_words_of_a_result_are_never_markup() -> None:
    """A result may come from anybody: what looks like a tag is text, on the page and in Markdown."""
    changed = edited("ended", HOSTILE)
    changed["environment"] |= {"cpu": HOSTILE, "machine": HOSTILE}
    changed["environment"]["model"]["name"] = changed["analysis"]["ratios"][0]["text"] = HOSTILE
    changed["analysis"]["cells"][0]["marks"] = [HOSTILE]
    changed["analysis"]["hypotheses"][0]["cause"] = HOSTILE
    changed["parity"]["jpeg-http"] |= {"agrees": False, "why": HOSTILE}
    text = report.html(typed(changed))
    assert "<script" not in text
    assert words(text).count(HOSTILE) > 10
    # Inside the fence of the last part, the commands, everything is text.
    assert "<script" not in report.markdown(typed(changed)).partition("```")[0]


def test_names_are_never_markup_in_plots_either() -> None:
    """Neither HTML nor the formulas that the plotting library knows."""
    name = "<b>$x$</b>"
    text = report.html(result(study="aa", names={name: "onnx-http", "B": "onnx-http"}, batches=(1,), users=()))
    assert "<b>$" not in text
    assert name in words(text)


@pytest.mark.usefixtures("undrawn")
def test_what_a_reader_must_know_is_said() -> None:
    """Marks, an early end, random weights and the like stand on the page and in the Markdown."""
    changed = typed(edited("ended", "interrupted (Ctrl-C)"))
    changed.environment.dirty, changed.environment.model.weights = True, "random"
    changed.analysis.cells[2].marks = ["a load process used 41% of a core"]
    changed.parity["trt-grpc"].agrees = False
    changed.cells[0].visits[0].problem = "the worker died"
    assert changed.environment.services
    assert "were on" not in words(report.html(changed))
    changed.environment.traces = True
    changed.environment.services["prometheus"] = changed.environment.services["triton"]
    said = ["41% of a core", "ended early: interrupted", "Random weights", "uncommitted changes", "trt-grpc disagrees"]
    for word in (*said, "the worker died", "Metrics were on", "service prometheus", "Traces were on"):
        assert word in words(report.html(changed))
        assert word in report.markdown(changed)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"names": ["jpeg-http"], "batches": (1,), "users": ()}, "jpeg-http answers one image in"),
        ({"names": ["onnx-http", "onnx-grpc"], "batches": (8,), "users": ()}, "8 images fastest"),
        ({"batches": (), "users": (8,)}, "Over all cells, a tensor to Triton is"),
        ({"batches": (1,), "users": (), "calls": 0}, "No cell allows a verdict"),
        (
            {"study": "aa", "names": {"A": "onnx-http", "B": "onnx-http"}},
            "A route measured against itself shows no difference",
        ),
        ({"rate": 50.0, "users": ()}, "gRPC and HTTP"),
        ({"target": "http://10.0.0.7:8080"}, "gRPC and HTTP"),
        ({"method": "published", "policy": "published", "blocks": 1}, "not differences between protocols"),
    ],
)
def test_partial_and_other_runs_have_a_page(options: dict[str, Any], answer: str, tmp_path: Path) -> None:
    """What was not measured is left out; what is there is shown, in both forms, with the rules of its method. What was
    written can be loaded."""
    made = result(**options)
    report.write(tmp_path, made.run, made.analysis)
    assert results.load(tmp_path) == made
    page, markdown = words((tmp_path / "report.html").read_text()), (tmp_path / "report.md").read_text()
    assert answer in page
    assert answer in markdown
    assert ("Routes in a fixed order" in page) == (made.method == "published")
    assert ("p50 latency in ms" in markdown) == any(cell.users == 1 for cell in made.cells)


def test_verdicts_are_of_speed(whole: Result) -> None:
    """Half the images per second is twice the time, and the interval turns with it."""
    numbers = {"value": 0.5, "low": 0.4, "high": 0.8}
    for measure, time, speeds in (
        ("p50_ms", Interval(**numbers), {"lower": "faster", "higher": "slower"}),
        ("images_per_s", Interval(2.0, 1.25, 2.5), {"lower": "slower", "higher": "faster"}),
    ):
        for verdict in ("lower", "higher", "no verdict", "no difference shown"):
            changes: dict[str, Any] = {"measure": measure, "verdict": verdict} | numbers
            ratio = msgspec.structs.replace(whole.analysis.ratios[0], **changes)
            assert (ratio.speed, ratio.time) == (speeds.get(verdict, verdict), time)


def test_what_the_markdown_adds() -> None:
    """Options become the command line again; what was not given is not written, and nothing escapes its quotes. With a
    price there is what a million images cost, and of a second policy a table."""
    options = {"routes": ["onnx-http", "onnx-grpc"], "quick": True, "rate": None, "photo": "a b; rm"}
    changed, second = typed(edited("options", options)), result(policy="cold")
    for cell in changed.analysis.cells:
        cell.cost_per_million_images = Interval(1.25, 1.2, 1.3)
    for kind in ("cells", "ratios"):
        getattr(changed.analysis, kind).extend(getattr(second.analysis, kind))
    changed.cells += second.cells
    text = report.markdown(changed)
    assert "./scripts/bench fiveway --photo 'a b; rm' --quick --routes onnx-http,onnx-grpc\n" in text
    assert "1.25 (1.20–1.30)" in text.partition("Cost per million images")[2]
    for policy in ("pooled", "cold"):
        assert re.search(rf"\n#+ .*{policy} connections .*, through Envoy, 224x224 photos\n", text)


def test_a_route_has_one_colour() -> None:
    """Five routes have five colours, and other names still differ."""
    colours = [plots.colour(name) for name in ("jpeg-http", "onnx-http", "onnx-grpc", "trt-http", "trt-grpc")]
    assert len(set(colours)) == 5
    assert plots.colour("A", ("A", "B")) != plots.colour("B", ("A", "B"))
