"""The report of a run: what it says comes from the result alone, the analysis put into words, tables and plots.

scripts/bench report RESULT makes report.html, report.md and cells.csv beside a result.json.
"""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.measure.measured import Run
from bench.report import model, plots, render, results
from bench.report.model import FASTER, HTML, MARKDOWN, NONE, SAME, SIGNS, SLOWER
from bench.report.results import Row, bracketed, callers, digits
from bench.result import Analysis, Interval, Limits, QuickRuns, Ratio, Result, Service
from bench.studies import STUDIES
from bench.studies.fiveway import REFERENCE
from bench.studies.study import P50, PER_SECOND, Measure, Study

COST = "cost_per_million_images"
CONNECTIONS = {
    "pooled": "pooled connections (one per caller, kept)",
    "shared": "one shared connection",
    "cold": "cold connections (a new one for every call)",
    "published": "a new client for every call",
}
QUESTIONS = {
    "protocol": ("gRPC or HTTP?", "gRPC", "HTTP"),
    "format": ("A tensor to Triton, or a JPEG to PyTorch?", "the tensor", "the JPEG"),
    "engine": ("The trt or the onnx model?", "trt", "onnx"),
    "same": ("A route against itself", "the first name", "the second"),
}
FAIR_RULES = (
    "Every cell is visited in every block, in an order drawn by chance; ratios are taken within blocks.",
    "Warm-up and ramp are outside every window. Latencies are kept to 0.1 %, not rounded to milliseconds.",
    "Intervals come from a bootstrap over blocks and calls. A ratio whose interval contains 1 is no difference shown,"
    " and so is one that may be chance among so many comparisons.",
    "No verdict where the load generator was busy, where the server counted other calls than we did, where fewer than"
    " three blocks ran, where connections are unequal, or where a route's answers disagree with the reference.",
)
PUBLISHED_RULES = (
    "Routes in a fixed order, each cell once: what the machine did meanwhile is in the numbers.",
    "A new client inside the clock of every call: HTTP opens a connection each time, gRPC channels of one process share"
    " one.",
    "30 calls with one caller, 60 with more, ramp included; throughput with one caller is batch / p50.",
    "The server's counters include the warm-up calls.",
    "One block has no interval, so there is no verdict.",
)
OPEN_LOOP_RULE = (
    "Open loop: calls begin by a schedule, and a latency counts from the scheduled start, however late it was."
)
PHOTO_RULES = (
    "Preprocessing boundary: JPEG routes send a photo that the server decodes and resizes; tensor routes send FP32"
    " tensors that were prepared before, and that work is in no column.",
    "Model and tensors are FP32, but TensorRT, where it is a provider, computes in FP16; that the routes agree,"
    " whatever a provider does inside, was checked first.",
)
COMMON_RULES = (
    "Requests are encoded before the clock starts; what that costs is a column of its own.",
    "Connections are counted, and bytes are those on the wire. Nothing is assumed.",
    "A small machine runs clients and servers on the same cores: it shows which way takes less work, not what a GPU"
    " would do.",
)
THIS_RUN = "this run"
_MEASURES = {P50: "p50", PER_SECOND: "images/s"}


def write(folder: Path, run: Run, analysis: Analysis, *, pages: bool = True) -> Result:
    """Write a run into `folder`: result.json first, then what is made of it; raises ResultError, older files stay."""
    text = results.encode(Result.of(run, analysis))
    results.put(folder / results.RESULT, text)
    try:
        result = results.decode(text)
    except results.ResultError as error:
        raise results.ResultError(
            f"{folder / results.RESULT} is written, but no report can be made of it: {error}"
        ) from error
    if pages:
        results.put(folder / "cells.csv", results.cells_csv(result))
        results.put(folder / "report.md", markdown(result))
        results.put(folder / "report.html", html(result))
    return result


def html(result: Result) -> str:
    """The page, with plots."""
    return render.html(page(result))


def markdown(result: Result) -> str:
    """The tables, verdicts and factors."""
    return render.markdown(page(result, drawn=False))


@dataclass(frozen=True, slots=True)
class Verdict:
    """A ratio as the page shows it."""

    ratio: Ratio

    @property
    def word(self) -> str:
        """One of SIGNS, of speed: a lower time is faster, a lower throughput slower."""
        if self.ratio.verdict in (SAME, NONE):
            return self.ratio.verdict
        return FASTER if (self.ratio.verdict == "lower") == (self.ratio.measure == P50) else SLOWER

    @property
    def time(self) -> plots.Ratio | None:
        """The ratio as time: throughput is turned round, so that below 1 always means that the first is faster."""
        ratio = self.ratio
        if not ratio.value:
            return None
        time = Interval(ratio.value, ratio.low, ratio.high)
        time = time if ratio.measure == P50 else time.turned()
        return plots.Ratio(case(ratio), f"{ratio.a_name} / {ratio.b_name}", time.value, time.low, time.high, self.word)

    @property
    def times(self) -> str:
        return f"{self.time.value:.2f}×" if self.time else ""

    def __str__(self) -> str:
        """In words, with its case and the factors that differ."""
        ratio = self.ratio
        why = f" ({'; '.join(ratio.why)})" if ratio.why else ""
        users = "" if ratio.users == 1 else f", {callers(ratio.users)}"
        what = f"{ratio.a_name} / {ratio.b_name}, batch {ratio.batch}{users}, {_MEASURES[ratio.measure]}"
        return f"{what}: {ratio.text}{why}"


def case(ratio: Ratio) -> str:
    """`batch 8`, or `16 callers`."""
    return f"batch {ratio.batch}" if ratio.users == 1 else callers(ratio.users)


@dataclass(frozen=True, slots=True)
class Part:
    """One setting (everything but row, batch and number of users): its cells and its verdicts."""

    rows: Sequence[Row]
    verdicts: Sequence[Verdict]
    """Serial cells are compared by their latency, concurrent ones by their throughput: each pair once."""
    against: Mapping[tuple[str, str], Verdict]
    """(id, measure) -> its verdict against the reference."""

    @property
    def serial(self) -> list[Row]:
        """Those with one caller."""
        return [row for row in self.rows if row["users"] == 1]

    @property
    def concurrent(self) -> list[Row]:
        """Those with the smallest batch, any number of callers; none when there was one caller only."""
        smallest = min((row["batch"] for row in self.rows), default=1)
        found = [row for row in self.rows if row["batch"] == smallest]
        return found if any(row["users"] > 1 for row in found) else []

    @property
    def name(self) -> str:
        cell = self.rows[0].cell
        target = {"edge": "through Envoy", "direct": "straight to the servers"}.get(
            cell.target, f"through {cell.target}"
        )
        words = [CONNECTIONS.get(cell.policy, cell.policy), target, f"{cell.photo} photos"]
        words += [f"open loop at {cell.rate:g} requests/s"] if cell.rate else []
        return ", ".join([*words, *filter(None, (cell.size, cell.distance, "all at once" * cell.gather))])


def parts(result: Result) -> list[Part]:
    """The settings of a result, each once, in the order of its cells."""
    found = []
    for mine in results.settings(results.rows(result)):
        ids = {row["id"] for row in mine}
        verdicts = [Verdict(ratio) for ratio in result.analysis.ratios if ratio.a in ids]
        against = {(v.ratio.a, str(v.ratio.measure)): v for v in verdicts if v.ratio.b_name == REFERENCE}
        shown = [v for v in verdicts if v.ratio.measure == (P50 if v.ratio.users == 1 else PER_SECOND)]
        found.append(Part(mine, shown, against))
    return found


def page(result: Result, *, drawn: bool = True) -> model.Page:
    """Everything that the report says; without plots where they are not shown."""
    rows, found = results.rows(result), parts(result)
    marks = list(dict.fromkeys(mark for row in rows for mark in row["marks"]))
    verdicts = [Verdict(ratio) for ratio in result.analysis.ratios]
    study = STUDIES.get(result.study)
    name = {"fiveway": "5-way comparison", "aa": "A/A", "truth": "Cross-check"}.get(result.study, result.study)
    name += "" if result.method == "fair" else ", the published way"
    title = f"{name}: {result.environment.model.name} on {result.environment.machine}"
    answer = _headline(found[0] if found else None, verdicts, result.analysis.quick_runs)
    made = model.Page(
        title, name, answer, names=list(dict.fromkeys(row["name"] for row in rows)),
        footer=f"{title} · {result.started_at} · made by fiveway from result.json beside this page",
    )  # fmt: skip
    made.add(model.Text(answer, only=MARKDOWN), model.Text(results.label(result), style="label"))
    made.add(*(model.Text(warning, style="warning") for warning in _warnings(result, rows)))
    if found and (cards := _answers(found[0])):
        made.add(model.Cards(cards))
    for number, part in enumerate(found):
        made.add(*_results(part, marks, first=number == 0, alone=len(found) == 1, drawn=drawn))
        if number == 0 and result.analysis.quick_runs:
            made.add(quick_runs(result.analysis.quick_runs))
    if marks:
        made.add(model.Items(marks, "† no verdict may rest on this cell:", numbered="mark"))
    if verdicts:
        made.add(
            model.Items([str(one) for one in verdicts], "Verdicts", folded=f"All {len(verdicts)} comparisons in words")
        )
    if result.analysis.hypotheses:
        made.add(
            model.Heading("What the published study claimed", "claims", "Claims"),
            model.Claims(result.analysis.hypotheses),
        )
    if study and (table := _published_table(study, rows)):
        source = study.source.rstrip(".")
        made.add(
            model.Heading("Published beside ours", "published", "Published and ours"),
            model.Text(
                "Other devices, another model and another distance: the milliseconds are not comparable, the ratio"
                " between two protocols is.", only=HTML,
            ),
            _published_plot(study, found[0]) if drawn else None,
            table,
            model.Text(f"Published: {source}."),
        )  # fmt: skip
    made.add(model.Heading("Factors", "factors", "Factors", only=HTML), _factors(rows))
    if result.parity:
        made.add(_parity(result))
    made.add(
        model.Heading("Environment", "environment", "Environment"),
        model.Table(["fact", "here"], _environment(result), style="words"),
        model.Heading("How it was measured", "method", "How it was measured", only=HTML),
        model.Text(
            "The rules in short; docs/measuring.md has them all, with what each number is and is not.", only=HTML
        ),
        model.Items(_rules(result, rows), only=HTML),
        model.Heading("How to reproduce", "reproduce", "Reproduce"),
        model.Code(_commands(result)),
    )
    return made


def table(result: Result, folder: str) -> str:
    """The README's table in Markdown, of the result's first setting; `folder` is where the result lies."""
    part = parts(result)[0]
    made = model.Page("")
    made.add(model.Text(results.label(result) + " All of it:", link=(folder, folder)))
    for words, one in zip(("p50 latency in ms, one caller:", "Images per second:"), numbers(part, []), strict=False):
        made.add(model.Text(words), replace(one, caption=""))
    if any(row["marks"] for row in part.rows):
        made.add(model.Text("† no verdict may rest on this cell; the report says why."))
    return render.markdown(made).partition("\n")[2].strip()


def quick_runs(found: Sequence[QuickRuns]) -> model.Table:
    """A row per ratio of an A/A result, with the quick runs that showed no difference."""
    lines = [
        [
            f"batch {row.batch}, {callers(row.users)}",
            "p50" if row.measure == P50 else "images per second",
            f"{row.same} of {row.runs}",
            "–" if row.width is None else f"± {100 * (row.width**0.5 - 1):.0f} %",
        ]
        for row in found
    ]
    head = ["cell", "measure", "no difference shown", "median interval"]
    return model.Table(head, lines, "Quick runs, each judged alone", left=2)


def _results(
    part: Part, marks: Sequence[str], *, first: bool, alone: bool, drawn: bool
) -> Iterable[model.Block | None]:
    """The tables and plots of one setting."""
    name = part.name
    where = ("results", "Results") if first else ()
    yield model.Heading("Results" if alone else f"Results: {name}", *where, only=HTML)
    if alone:
        yield model.Text(f"{name[0].upper()}{name[1:]}.", style="small", only=HTML)
    if part.against:
        yield model.Text(
            f"The colour and the sign of a cell are its verdict against {REFERENCE} in the same column, as time: 0.48×"
            " takes 0.48 times as long. Below each number is its interval.", only=HTML,
        )  # fmt: skip
    pairs = _pairs(part.verdicts)
    if part.against or pairs:
        yield model.Legend(only=HTML)
    for one in numbers(part, marks):
        yield one if alone else replace(one, caption=f"{one.caption}: {name}")
    same = any(verdict.ratio.kind == "same" for verdict in part.verdicts)
    if pairs:
        title = "Two names of one route" if same else "Pairs on one server that differ in one thing"
        yield replace(pairs, caption=title)
    if drawn:
        yield from _drawings(part, same)


def numbers(part: Part, marks: Sequence[str]) -> Iterable[model.Table]:
    """p50 by batch, throughput and cost by callers."""
    priced = [row for row in part.rows if row["batch"] == 1 and row[COST]]
    by = {
        "p50 latency in ms": (part.serial, P50, "batch"),
        "Images per second": (part.concurrent, PER_SECOND, "users"),
        "Cost per million images": (priced, COST, "users"),
    }
    for caption, (rows, measure, factor) in by.items():

        def heading(row: Row, factor: str = factor) -> str:
            return f"batch {row['batch']}" if factor == "batch" else callers(row["users"])

        def cell(row: Row, measure: str = measure) -> model.Entry:
            verdict = part.against.get((row["id"], measure))
            return model.entry(
                row[measure], row, marks, verdict.word if verdict else "", verdict.times if verdict else ""
            )

        if rows:
            yield model.pivot(rows, heading, cell, caption, lambda row, factor=factor: int(row[factor]))  # type: ignore[misc]


def _pairs(verdicts: Sequence[Verdict]) -> model.Table | None:
    """A line per pair of rows that is not against the reference: its verdicts by case, in the order of the result."""
    lines: dict[str, dict[str, Verdict]] = {}
    for verdict in verdicts:
        if verdict.ratio.b_name != REFERENCE:
            pair = f"{verdict.ratio.a_name} against {verdict.ratio.b_name}"
            lines.setdefault(pair, {})[case(verdict.ratio)] = verdict
    cases = list(dict.fromkeys(key for found in lines.values() for key in found))
    return model.Table(
        ["pair", *cases],
        [[pair, *(_judged(found[key]) if key in found else "–" for key in cases)] for pair, found in lines.items()],
        only=HTML,
    ) if lines else None  # fmt: skip


def _judged(verdict: Verdict) -> model.Entry:
    time = verdict.time
    between = f"{time.low:.2f}–{time.high:.2f}" if time and time.low and time.high else "no interval"
    return model.Entry(verdict.times or "–", between, verdict=verdict.word)


def _drawings(part: Part, same: bool) -> Iterable[model.Picture | None]:
    many = len({row["name"] for row in part.rows}) > 1
    protocols = [verdict for verdict in part.verdicts if verdict.ratio.kind in ("protocol", "same")]
    times = sorted((time for verdict in protocols if (time := verdict.time)), key=lambda time: time.group)
    sides = ("first faster", "second faster") if same else ("gRPC faster", "HTTP faster")
    flight = "at most so many calls in flight" if part.rows[0]["rate"] else "each caller with one call in flight"
    drawings = (
        (
            plots.latency(part.serial) if many else None,
            "Latency by batch",
            "First per call, then per image, which shows what a batch saves. Bars are intervals; gRPC is dashed with"
            " square marks; a hollow mark is a cell without a verdict. Routes are drawn side by side so that they do"
            " not hide each other.",
        ),
        (
            plots.throughput(part.concurrent) if many else None,
            "Throughput by callers",
            f"Wall-clock images per second in steady state, {flight}. Bars are intervals; a hollow mark is a cell"
            " without a verdict.",
        ),
        (
            plots.forest(times, *sides),
            "One name against the other" if same else "gRPC against HTTP, same server and model",
            "Time of the first as a multiple of the second, with its interval; throughput is turned round, so that left"
            " always means that the first is faster. Where the interval contains 1, the line is grey on a band: no"
            " difference shown. Dotted: no verdict.",
        ),
        (
            plots.split(part.serial),
            "Where the time goes",
            "Means over the whole window, in the order of a call. Client encode happens before the clock starts; the"
            " number at the end is the sum of all parts. The residue is what the sources do not explain; where they"
            " overlap it is below zero, counted in the sum and not drawn.",
        ),
        (
            plots.payload(part.serial or part.rows),
            "Bytes on the wire",
            "Counted at the network interfaces, all protocol layers included. Filled: sent to the server. Hollow:"
            " received.",
        ),
    )
    for plot, title, caption in drawings:
        if plot:
            yield model.Picture(title, caption, plot, only=HTML)


def _headline(part: Part | None, verdicts: Sequence[Verdict], quick: Sequence[QuickRuns]) -> str:
    """The answer in one sentence: which routes answer the smallest call fastest, or that a name equals itself."""
    if quick or (verdicts and all(verdict.ratio.kind == "same" for verdict in verdicts)):
        same = sum(row.same for row in quick) if quick else sum(verdict.word == SAME for verdict in verdicts)
        runs = (
            f"{sum(row.runs for row in quick)} comparisons of quick runs" if quick else f"{len(verdicts)} comparisons"
        )
        return f"A route against itself: no difference shown in {same} of {runs}."
    found = [(row, p50) for row in (part.serial if part else []) if (p50 := row.found.p50_ms) and not row["marks"]]
    smallest = min((row["batch"] for row, _ in found), default=0)
    found = [(row, p50) for row, p50 in found if row["batch"] == smallest]
    if not found:
        return "No cell is fit for a verdict."
    best, least = min(found, key=lambda pair: pair[1].value)
    leaders = [(row, p50) for row, p50 in found if (p50.low or p50.value) <= (least.high or least.value)]
    what = "one image" if smallest == 1 else f"{smallest} images"
    if len(leaders) == 1:
        fastest = "" if len(found) == 1 else " fastest,"
        return f"{best['name']} answers {what}{fastest} in {digits(least.value)} ms."
    span = f"{digits(least.value)} to {digits(max(p50.value for _, p50 in leaders))} ms"
    names = [row["name"] for row, _ in leaders]
    return f"{', '.join(names[:-1])} and {names[-1]} answer {what} fastest, in {span}: their intervals overlap."


def _answers(part: Part) -> list[model.Card]:
    """A card per question that the cells can answer."""
    cards = []
    for kind, (question, first, second) in QUESTIONS.items():
        found = [verdict for verdict in part.verdicts if verdict.ratio.kind == kind]
        if not found:
            continue
        words = [verdict.word for verdict in found]
        counts = [f"{words.count(word)} {word}" for word in SIGNS if word in words]
        long = f"Of {len(found)} comparisons: {', '.join(counts)}."
        decided = [time.value for v in found if v.word in (FASTER, SLOWER) and (time := v.time)]
        if decided:
            span = " to ".join(dict.fromkeys(f"{limit(decided):.2f}" for limit in (min, max)))
            long += f" Where one is shown, {first} takes {span} times as long as {second}."
        cards.append(model.Card(question, _short(words, first), long))
    return [*cards, *_most(part.serial)]


def _short(words: Sequence[str], first: str) -> str:
    start = first[0].upper() + first[1:] if first.startswith("the ") else first
    shown = {word for word in words if word in (FASTER, SLOWER)}
    if len(shown) == 2:
        return "It depends"
    if shown:
        every = "" if len(set(words)) == 1 else ", where a difference is shown"
        return f"{start} is {shown.pop()}{every}"
    return "No difference shown" if SAME in words else "No verdict"


def _most(serial: Sequence[Row]) -> list[model.Card]:
    """Where most of the time goes in the smallest call."""
    rows = [row for row in serial if row["split"] and sum(row["split"].values()) > 0]
    rows = [row for row in rows if row["batch"] == min(row["batch"] for row in rows)]
    if not rows:
        return []
    largest = {row["name"]: max(row["split"].items(), key=lambda part: part[1]) for row in rows}
    shares = {row["name"]: 100 * largest[row["name"]][1] / sum(row["split"].values()) for row in rows}
    parts = {part for part, _ in largest.values()}
    question, batch = "Where does the time go?", f"At batch {rows[0]['batch']}"
    if len(parts) > 1:
        words = [f"{name} {shares[name]:.0f} % {part}" for name, (part, _) in largest.items()]
        return [model.Card(question, "It depends on the route", f"{batch}: {', '.join(words)}.")]
    limits = list(dict.fromkeys(f"{limit(shares.values()):.0f} %" for limit in (min, max)))
    depends = "" if len(limits) == 1 else ", depending on the route"
    long = f"{batch} it is {' to '.join(limits)} of a call{depends}."
    return [model.Card(question, f"{parts.pop().capitalize()} takes the most", long)]


def _published_table(study: Study, rows: Sequence[Row]) -> model.Table | None:
    """Our numbers beside the published ones: a line per cell and measure that the study has, in the order of cells."""
    asked = [(row, measure, measure.published(results.factors(row))) for row in rows for measure in study.measures]
    found = [(row, measure, theirs) for row, measure, theirs in asked if theirs]
    sources = list(dict.fromkeys(source for _, _, theirs in found for source in theirs))
    lines = [
        [
            f"{row['name']}, {_case(row, measure)}", measure.name, bracketed(measure(row.found)),
            *(digits(theirs.get(source)) for source in sources),
        ]
        for row, measure, theirs in found
    ]  # fmt: skip
    return model.Table(["cell", "measure", "here", *sources], lines, left=2) if found else None


def _case(row: Row, measure: Measure) -> str:
    batch = row["users"] == 1 and measure.of != PER_SECOND
    more = [row["size"] or (row["photo"] if row["gather"] else ""), row["distance"]]
    return ", ".join(filter(None, (f"batch {row['batch']}" if batch else callers(row["users"]), *more)))


def _published_plot(study: Study, part: Part) -> model.Picture | None:
    """gRPC / HTTP as published, per device, and as measured here."""
    known = {(row["name"], row["batch"], row["users"]): results.factors(row) for row in part.rows}
    measures = {measure.of: measure for measure in study.measures}
    lines: dict[str, dict[str, plots.Ratio]] = {}
    for verdict in sorted(part.verdicts, key=lambda verdict: verdict.ratio.a_name):
        ratio, time = verdict.ratio, verdict.time
        measure = measures.get(ratio.measure)
        if ratio.kind != "protocol" or time is None or measure is None:
            continue
        a, b = (measure.published(known[name, ratio.batch, ratio.users]) for name in (ratio.a_name, ratio.b_name))
        more_is_less = measure.of == PER_SECOND and not measure.inverse
        if more_is_less:
            a, b = b, a
        said = {who: replace(time, value=a[who] / b[who], low=None, high=None) for who in a if who in b}
        if said:
            lines[f"{time.group}, {time.label}"] = {THIS_RUN: time} | said
    caption = (
        "The same ratio, as time. Filled with its interval: this run. Open: the published tables, which have no"
        " intervals."
    )
    plot = plots.published(THIS_RUN, lines, "gRPC faster", "HTTP faster")
    return model.Picture("gRPC against HTTP: published and here", caption, plot, only=HTML) if plot else None


def _factors(rows: Sequence[Row]) -> model.Table:
    """What was counted beside the clock: a difference in one of these is a cause to look at before the protocol."""
    columns: dict[str, Callable[[Row], str]] = {
        "calls": lambda row: f"{row['requests']:,}",
        "failed": lambda row: str(row["failures"]),
        "blocks": lambda row: str(row["blocks"]),
        "connections": lambda row: digits(row["connections"]),
        "at the edge": lambda row: digits(row["edge_connections"]),
        "sent, B/image": lambda row: digits(row["sent_bytes_per_image"]),
        "received, B/image": lambda row: digits(row["received_bytes_per_image"]),
        "client CPU, % of a core": lambda row: "–" if row["client_cpu"] is None else f"{100 * row['client_cpu']:.0f}",
        "calls per model run": lambda row: digits(row["calls_per_execution"]),
        "p90, ms": lambda row: bracketed(row["p90_ms"]),
        "p99, ms": lambda row: bracketed(row["p99_ms"]),
        "marks and notes": lambda row: "; ".join(row["marks"] + row["notes"]) or "–",
    }
    lines = [[row["id"], *(text(row) for text in columns.values())] for row in rows]
    folded = f"All {len(rows)} cells: connections, bytes, client CPU, tails"
    return model.Table(["cell", *columns], lines, folded=folded, only=HTML)


def _parity(result: Result) -> model.Table:
    lines = [
        [model.Entry(name, route=True), "✓ yes" if fact.agrees else "✗ no",
         "–" if fact.cosine is None else f"{fact.cosine:.6f}", fact.why or "–"]
        for name, fact in result.parity.items()
    ]  # fmt: skip
    head = ["route", "agrees", "worst cosine to the reference", "why"]
    return model.Table(head, lines, "Do the routes give the same answer? Checked before any timing", only=HTML)


def _warnings(result: Result, rows: Sequence[Row]) -> list[str]:
    """What a reader must know before the numbers."""
    found = []
    if result.ended != "finished":
        found.append(f"The run ended early: {result.ended}. This is what was measured until then.")
    if result.method != "fair":
        found.append(
            "Measured the published way on purpose: a new client for every call, routes in a fixed order, 30 calls, one"
            " block. Its differences are not differences between protocols; it is here to be held against a fair run."
        )
    if result.environment.model.weights == "random":
        found.append("Random weights: the times are real, the answers mean nothing.")
    if result.environment.dirty:
        found.append("The checkout had uncommitted changes.")
    parity = result.parity.items()
    found += [f"{route} disagrees with the reference: {fact.why}" for route, fact in parity if not fact.agrees]
    return found + [f"{row['id']}: {problem}" for row in rows for problem in row.problems]


def _rules(result: Result, rows: Sequence[Row]) -> list[str]:
    return [
        *(FAIR_RULES if result.method == "fair" else PUBLISHED_RULES),
        *([OPEN_LOOP_RULE] if any(row["rate"] for row in rows) else []),
        *(() if result.of_tensors else PHOTO_RULES),
        *COMMON_RULES,
    ]


def _environment(result: Result) -> list[list[str]]:
    """Label and text of every fact."""
    facts = result.environment
    model, device = facts.model, facts.device
    lines = {
        "started": result.started_at,
        "ended": result.ended,
        "method": result.method,
        "commit": f"{facts.commit or 'unknown'}{' with uncommitted changes' if facts.dirty else ''}",
        "machine": f"{facts.machine}: {facts.cpu or 'unknown CPU'}, {facts.cores} cores, {facts.memory_gib} GiB",
        "kernel": facts.kernel,
        "device": f"{device.count} x {device.name}, driver {device.driver}" if device else "no GPU",
        "accelerator": facts.accelerator,
        "target": ", ".join(facts.targets),
        "model": f"{model.name}, {model.weights or 'unknown'} weights",
        "model checksum": model.checksum,
        "Triton's model config": model.config_sha256,
        "execution providers": results.providers(facts),
        "Triton": facts.triton,
        "Envoy": facts.envoy.version,
        "Envoy config": facts.envoy.config_sha256,
        "Docker": "none: servers and load ran as plain processes" if facts.native else facts.docker,
        "load generator": _limits(facts.client_limits),
        **{f"service {name}": f"{_limits(one)}; {one.image}" for name, one in (facts.services or {}).items()},
        "versions": ", ".join(f"{name} {version or 'absent'}" for name, version in facts.versions.items()),
    }
    return [[name, text or "unknown"] for name, text in lines.items()]


def _limits(facts: Limits) -> str:
    cpus = f"{facts.cpus:g} cores" if facts.cpus else "no CPU limit"
    cpus += f" (CPU set {facts.cpuset})" if facts.cpuset else ""
    memory = f"{facts.memory_bytes / 2**30:.3g} GiB" if facts.memory_bytes else "no memory limit"
    replicas = f"{facts.replicas} x " if isinstance(facts, Service) and facts.replicas > 1 else ""
    return f"{replicas}{cpus}, {memory}"


def _commands(result: Result) -> list[str]:
    """The commands that measure this again."""
    facts = result.environment
    words = ["./scripts/bench", result.study]
    for name, value in sorted(result.options.items()):
        if value is None or value is False or value == []:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(",".join(str(one) for one in value) if isinstance(value, list) else str(value))
    knobs = f"MODEL={shlex.quote(facts.model.name)} ACCELERATOR={shlex.quote(facts.accelerator or 'cpu')}"
    checkout = [f"git checkout {facts.commit}"] if facts.commit else []
    return [*checkout, f"{knobs} ./scripts/up", shlex.join(words)]
