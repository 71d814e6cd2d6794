"""The report: one page that loads nothing, says what the result says, and can be read by everybody."""

import copy
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import pytest

from bench.report import plots, report
from bench.report.results import ResultError, between, digits, rows
from tests.unit.test_bench_results import edited, result

VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """The elements of a page; fails on a tag that is closed in the wrong place."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def all(self, tag: str, **attributes: str) -> list[dict[str, str | None]]:
        """The attributes of every such element that has these."""
        return [found for name, found in self.elements if name == tag and attributes.items() <= found.items()]


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of a page's time: for tests of its words the plots are empty."""
    monkeypatch.setattr(plots, "_svg", lambda *_: "<svg></svg>")


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    return result()


@pytest.fixture(scope="module")
def drawn(whole: dict[str, Any]) -> str:
    return report.html(whole)


@pytest.fixture(scope="module")
def page(drawn: str) -> Page:
    return Page(drawn)


def test_the_page_loads_nothing(drawn: str) -> None:
    """No script, no link to a file, no address: it can be mailed, and opened years later."""
    assert not re.search(r"<(script|link|img|iframe|object)\b|@import|url\((?!#)", drawn)
    assert set(re.findall(r"https?://[^\s\"'<]+", drawn)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }


def test_ids_are_unique_and_every_reference_leads_somewhere(page: Page) -> None:
    """Two plots never share a clip path or a marker, and links in the page have their target."""
    ids = [found["id"] for _, found in page.elements if "id" in found]
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    for _, found in page.elements:
        for value in found.values():
            for target in re.findall(r"(?:^|url\()#([\w.-]+)", value or ""):
                assert target in ids


def test_the_page_is_the_same_every_time(whole: dict[str, Any], drawn: str) -> None:
    """A report that is made again differs only where its result does."""
    assert report.html(copy.deepcopy(whole)) == drawn


def test_every_number_of_the_tables_is_on_the_page(whole: dict[str, Any], page: Page) -> None:
    """p50 and throughput with their intervals, and each ratio's own words."""
    for row in rows(whole):
        if row["users"] == 1:
            assert digits(row["p50_ms"]["value"]) in page.text
            assert between(row["p50_ms"]) in page.text
    for ratio in whole["analysis"]["ratios"]:
        assert ratio["text"] in page.text
    for one in whole["analysis"]["hypotheses"]:
        for field in ("id", "claim", "published_verdict", "verdict", "text", "cause"):
            assert re.sub(r"\s+", " ", one[field]) in page.text


def test_where_it_was_measured_is_on_the_page(whole: dict[str, Any], page: Page) -> None:
    """Machine, commit, checksums, providers, versions, images."""
    facts = whole["environment"]
    for fact in (
        facts["commit"], facts["machine"], facts["model"]["checksum"], facts["envoy"]["config_sha256"],
        "OpenVINOExecutionProvider", "locust 2.47.0", facts["services"]["triton"]["image"], "no GPU",
    ):  # fmt: skip
        assert fact in page.text


def test_plots_are_described_in_words_and_drawn_for_both_widths(page: Page) -> None:
    """Every drawing is an image with a text that has its numbers; phones get a drawing of their own."""
    wide, narrow = page.all("div", **{"class": "wide"}), page.all("div", **{"class": "narrow"})
    assert len(wide) == len(narrow) == len(page.all("figure")) == 6
    for found in (*wide, *narrow):
        assert found["role"] == "img"
        assert re.search(r"\d", found["aria-label"] or "")
    assert len(page.all("figcaption")) == len(page.all("figure"))


def test_tables_have_headers_and_regions_that_a_keyboard_can_scroll(page: Page) -> None:
    """Every header says what it heads; what scrolls sideways can be reached without a mouse."""
    assert all(found.get("scope") in ("row", "col") for found in page.all("th"))
    assert len(page.all("th", scope="row")) > 20
    assert all(found.get("aria-label") for found in page.all("div", role="region", tabindex="0"))


def test_a_verdict_is_a_word_and_a_sign_and_a_colour(page: Page) -> None:
    """Colour alone would be lost on some readers and on paper."""
    for word, sign in report.SIGNS.items():
        assert f"{sign} {word}" in page.text
    for found in page.all("td"):
        if found.get("class") in ("faster", "slower", "no-verdict"):
            break
    else:
        pytest.fail("no cell of a table has a verdict's colour")


def test_the_pages_colours_are_variables(drawn: str) -> None:
    """No stand-in colour is left, and light and dark define the same names."""
    assert "#0102" not in drawn
    light, dark = (set(re.findall(r"(--[\w-]+):", block)) for block in re.findall(r":root \{(.*?)\}", drawn, re.S))
    assert light == dark
    assert set(re.findall(r"var\((--[\w-]+)\)", drawn)) <= light


def test_a_route_has_one_colour() -> None:
    """Five routes, five colours, and names that are no route still differ."""
    colours = [plots.colour(name) for name in ("jpeg-http", "onnx-http", "onnx-grpc", "trt-http", "trt-grpc")]
    assert len(set(colours)) == 5
    assert plots.colour("A", ("A", "B")) != plots.colour("B", ("A", "B"))


HOSTILE = '<script>alert("x")</script> & `|` {{ 7 * 7 }}'


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    "path",
    [
        "ended", "environment/cpu", "environment/model/name", "environment/machine", "analysis/ratios/0/text",
        "analysis/cells/0/marks", "analysis/hypotheses/0/cause", "parity/jpeg-http/why",
    ],
)  # fmt: skip
def test_words_of_a_result_are_never_markup(path: str) -> None:
    """A result may come from anybody: what looks like a tag is text, on the page and in Markdown."""
    value: object = [HOSTILE] if path.endswith("marks") else HOSTILE
    changed = edited(path, value)
    changed["parity"]["jpeg-http"]["agrees"] = False
    text = report.html(changed)
    assert "<script" not in text
    assert HOSTILE in Page(text).text
    # Inside the fence of the last part, the commands, everything is text.
    assert "<script" not in report.markdown(changed).partition("```")[0]


def _marked(changed: dict[str, Any]) -> None:
    changed["analysis"]["cells"][2]["marks"] = ["a load process used 41% of a core"]


def _stopped(changed: dict[str, Any]) -> None:
    changed["ended"] = "interrupted (Ctrl-C)"
    for cell in changed["analysis"]["cells"][3:]:
        cell |= dict.fromkeys(("p50_ms", "p90_ms", "p99_ms", "images_per_s", "mean_ms", "split", "client_cpu"))
        cell |= {"sent_bytes_per_image": None, "received_bytes_per_image": None, "requests": 0, "blocks": 0}


def _random(changed: dict[str, Any]) -> None:
    changed["environment"]["model"]["weights"] = "random"


def _dirty(changed: dict[str, Any]) -> None:
    changed["environment"]["dirty"] = True


def _disagrees(changed: dict[str, Any]) -> None:
    changed["parity"]["trt-grpc"] = {"agrees": False, "cosine": 0.5, "why": "another model"}


def _failed(changed: dict[str, Any]) -> None:
    changed["cells"][0]["visits"][0]["problem"] = "the worker died"


def test_names_are_never_markup_in_plots_either() -> None:
    """Neither HTML nor the formulas that the plotting library knows."""
    name = "<b>$x$</b>"
    text = report.html(result(study="aa", names={name: "onnx-http", "B": "onnx-http"}))
    assert "<b>$" not in text
    assert name in Page(text).text


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_marked, "a load process used 41% of a core"),
        (_stopped, "The run ended early: interrupted (Ctrl-C)"),
        (_random, "Random weights"),
        (_dirty, "uncommitted changes"),
        (_disagrees, "trt-grpc disagrees with the reference: another model"),
        (_failed, "the worker died"),
    ],
)
def test_what_a_reader_must_know_is_said(change: Callable[[dict[str, Any]], None], said: str) -> None:
    """Marks, an early end, random weights and the like stand on the page and in the Markdown."""
    changed = result()
    change(changed)
    assert said in Page(report.html(changed)).text
    assert said in report.markdown(changed)


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"names": ["jpeg-http"], "batches": (1,), "users": ()}, "jpeg-http answers one image in"),
        ({"names": ["onnx-http", "onnx-grpc"], "batches": (8,), "users": ()}, "8 images fastest"),
        ({"batches": (), "users": (8,)}, "No cell is fit for a verdict"),
        ({"batches": (1,), "users": (), "calls": 0}, "No cell is fit for a verdict"),
        ({"method": "published", "policy": "published", "blocks": 1}, "No cell is fit for a verdict"),
        ({"study": "aa", "names": {"A": "onnx-http", "B": "onnx-http"}}, "A route against itself: no difference"),
        ({"rate": 50.0, "users": ()}, "one image"),
        ({"target": "http://10.0.0.7:8080"}, "one image"),
    ],
    ids=["one-cell", "a-pair", "no-serial", "nothing", "published", "aa", "open-loop", "elsewhere"],
)
def test_partial_and_other_runs_have_a_page(options: dict[str, Any], answer: str) -> None:
    """What was not measured is left out; what is there is shown, in both forms."""
    made = result(**options)
    drawn = Page(report.html(made))
    assert answer in drawn.text
    assert answer in report.markdown(made)


@pytest.mark.usefixtures("undrawn")
def test_the_published_way_says_that_it_is_not_ours() -> None:
    """A reader of a run by the published method is told not to read protocols into it."""
    made = result(method="published", policy="published", blocks=1)
    assert "Its differences are not differences between protocols" in report.markdown(made)
    text = Page(report.html(made)).text
    assert "published method: onnx-grpc takes" in text
    assert "in an order drawn by chance" not in text
    assert "Routes in a fixed order" in text


@pytest.mark.usefixtures("undrawn")
def test_two_policies_have_their_own_tables() -> None:
    """Cells of different settings never share a table."""
    first, second = result(), result(policy="cold")
    first["cells"] += second["cells"]
    for name in ("cells", "ratios"):
        first["analysis"][name] += second["analysis"][name]
    text = Page(report.html(first)).text
    assert "Results: pooled connections (one per caller, kept), through Envoy, 224x224 photos" in text
    assert "Results: cold connections (a new one for every call), through Envoy, 224x224 photos" in text


def test_throughput_is_turned_round_in_plots_of_time() -> None:
    """Half the images per second is twice the time, and the interval turns with it."""
    ratio = result()["analysis"]["ratios"][0] | {"measure": "images_per_s", "value": 0.5, "low": 0.4, "high": 0.8}
    time = report.Verdict(ratio, report.SLOWER).time
    assert time is not None
    assert (time.value, time.low, time.high) == (2.0, 1.25, 2.5)


@pytest.mark.parametrize(
    ("measure", "verdict", "word"),
    [
        ("p50_ms", "lower", "faster"), ("p50_ms", "higher", "slower"), ("images_per_s", "lower", "slower"),
        ("images_per_s", "higher", "faster"), ("p50_ms", "no verdict", "no verdict"),
        ("images_per_s", "no difference shown", "no difference shown"),
    ],
)  # fmt: skip
def test_lower_is_faster_for_time_and_slower_for_throughput(measure: str, verdict: str, word: str) -> None:
    """The words on the page are about speed, whatever was measured."""
    changed = result()
    changed["analysis"]["ratios"] = [changed["analysis"]["ratios"][0] | {"measure": measure, "verdict": verdict}]
    assert [one.word for one in report._page(changed, drawn=False)["verdicts"]] == [word]


def test_published_rows_stand_beside_ours() -> None:
    """The study's own numbers, per device, in the row of the cell that they belong to."""
    text = report.markdown(result())
    assert re.search(r"\| onnx-http, batch 8 \| p50, ms \| [\d.]+ \([\d.–]+\) \| 869 \| 1,467 \|", text)


def test_no_table_is_empty() -> None:
    """A study may ask all at once only: there is nothing to say of one caller."""
    changed = result()
    at_once = {cell["id"] for cell in changed["cells"] if cell["users"] > 1}
    for part in (changed, changed["analysis"]):
        part["cells"] = [cell for cell in part["cells"] if cell["id"] in at_once]
    changed["analysis"]["ratios"] = []
    text = report.markdown(changed)
    assert "p50 latency in ms" not in text
    assert "Images per second" in text


@pytest.mark.usefixtures("undrawn")
def test_a_cost_appears_with_a_price_only() -> None:
    """Cost per million images is a table of its own."""
    changed = result()
    assert "Cost per million images" not in report.markdown(changed)
    for cell in changed["analysis"]["cells"]:
        cell["cost_per_million_images"] = {"value": 1.25, "low": 1.2, "high": 1.3}
    assert "1.25 (1.20–1.30)" in report.markdown(changed)
    assert "Cost per million images" in Page(report.html(changed)).text


def test_the_command_can_be_pasted() -> None:
    """Options become the command line again; what was not given is not written, and nothing escapes its quotes."""
    changed = edited("options", {"routes": ["onnx-http", "onnx-grpc"], "quick": True, "rate": None, "photo": "a b; rm"})
    text = report.markdown(changed)
    assert "./scripts/bench fiveway --photo 'a b; rm' --quick --routes onnx-http,onnx-grpc\n" in text
    assert "git checkout 0123456789abcdef0123456789abcdef01234567" in text


def test_labels_that_would_overlap_are_moved_apart() -> None:
    """Lines that end together keep readable names, inside the plot, in their order."""
    places = plots._spread([0.9, 0.96, 0.97, 0.99, 1.0], 0.1)
    assert all(b - a >= 0.1 - 1e-4 for a, b in pairwise(places))
    assert max(places) <= 1.0001


@pytest.mark.parametrize("field", ["p50_ms", "marks", "split", "connections"])
@pytest.mark.parametrize("form", [report.html, report.markdown])
def test_an_analysis_that_lacks_a_field_is_refused(form: Callable[[dict[str, Any]], str], field: str) -> None:
    """One clear line instead of a page with holes."""
    with pytest.raises(ResultError, match=field):
        form(edited(f"analysis/cells/0/{field}", ...))
