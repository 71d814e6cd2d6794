"""The report of a run: what it says comes from the result alone, the analysis put into words, tables and plots.

scripts/bench report RESULT makes report.html, report.md and cells.csv beside a result.json.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill

from jinja2 import Environment, PackageLoader, StrictUndefined

from bench import words
from bench.figures import callers, digits, share
from bench.measure.measured import GATE, OTHERS, Run
from bench.report import markdown as md
from bench.report import plots, results
from bench.report.results import Row, grouped
from bench.report.tables import Entry, Table, entry, pivot, times
from bench.result import CPU_PARTS, EVERY, NO_DIFFERENCE, SAME, SPEEDS, Analysis, Pooled, QuickRuns, Ratio, Result
from bench.studies import study_of
from bench.studies.fiveway import REFERENCE
from bench.studies.study import ANSWER, CONNECTIONS, P50, PER_SECOND, Measure, Study, distance_text

IDLE_SHOWN = 0.05
"""CPU-milliseconds per second below which an idle service is not named."""
COST = "cost_per_million_images"
SIGNS = dict(zip(SPEEDS, "▼▲=~?", strict=True))
"""Beside the colour, the sign of a verdict: a faster one takes less time."""
LATENCY, THROUGHPUT = "p50 latency in ms", "Images per second"
SETTING = ("policy", "target", "photo", "rate", "size", "distance", "gather")
"""The factors that one table holds still: all but name, batch and users."""
UNNUMBERED = "† No verdict may rest on this cell:"
QUESTIONS = {
    "protocol": ("gRPC or HTTP?", "gRPC", "HTTP"),
    "format": ("A tensor to Triton, or a JPEG to PyTorch?", "the tensor", "the JPEG"),
    "engine": ("The trt or the onnx model?", "trt", "onnx"),
    "edge": ("What does Envoy cost?", "a call through Envoy", "a direct call"),
    "same": ("Is a route equal to itself?", "the first name", "the second"),
}


def write(folder: Path, run: Run, analysis: Analysis, *, pages: bool = True) -> Result:
    """Write a run into `folder`: result.json first, then what is made of it; raises ResultError, older files stay."""
    text = results.encode(Result.of(run, analysis))
    results.put(folder / results.RESULT, text)
    try:
        result = results.decode(text)
    except results.ResultError as error:
        said = f"{folder / results.RESULT} is written, but no report can be made of it: {error}"
        raise results.ResultError(said) from error
    if pages:
        results.put(folder / "cells.csv", results.cells_csv(result))
        results.put(folder / "report.md", markdown(result))
        results.put(folder / "report.html", html(result))
    return result


def html(result: Result) -> str:
    """One page with plots, which loads nothing."""
    loader = PackageLoader("bench.report", ".")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    pages.filters["css"] = lambda verdict: re.sub(r"\W+", "-", verdict).strip("-")
    return pages.get_template("report.html.j2").render(report=Report(result), signs=SIGNS, reference=REFERENCE)


def markdown(result: Result) -> str:
    """The tables, verdicts and claims, without plots and the longest tables."""
    report = Report(result)
    tables = [part.captioned for part in report.parts]
    if tables and report.quick_runs:
        tables[0].append(report.quick_runs)
    return md.page(
        report.title,
        md.escaped(report.answer),
        *map(md.escaped, (report.more, report.label, *report.warnings)),
        *(f"**{question}** {md.escaped(f'{answer} {more}')}" for question, answer, more in report.cards),
        *(f"## {md.escaped(one.caption)}\n\n{md.table(one)}" for part in tables for one in part),
        md.items(report.marks, UNNUMBERED),
        report.heavy,
        report.idle,
        md.items(report.verdicts, "## Verdicts"),
        "## Published findings" if report.claims else "",
        *md.claims(report.claims),
        *(("## Published numbers and these", md.table(report.published), report.source) if report.published else ()),
        "## Environment",
        md.table(report.environment),
        "## How to reproduce",
        md.commands(report.commands),
    )


def heavy(study: Study, rows: Iterable[Row]) -> str:
    """What ‡ means; empty where no number has it."""
    found = any(row["client_heavy"] for row in rows)
    return f"‡ A load process used more than {share(GATE)} of a core. {study.no_gate}" if found else ""


def said(ratio: Ratio) -> str:
    """A ratio in words, with its case and the factors that differ."""
    why = f" They differ in {words.differing(ratio)}." if ratio.why else ""
    measure = "p50" if ratio.measure == P50 else "images per second"
    return f"Batch {ratio.batch}, {callers(ratio.users)}, {measure}: {ratio.text}.{besides(ratio, ratio.a_name)}{why}"


def besides(found: Ratio | Pooled, name: str) -> str:
    """What the ratio of `name` is with the client's encoding, and in CPU time: sentences, each behind a space."""
    cpu, encoded = found.cpu.get(EVERY), ""
    if found.encoded:
        encoded = f" With the encoding of the requests, {name} is {words.interval(found.encoded)}."
    return encoded + (f" In CPU time, {name} takes {words.interval(cpu, words.AMOUNT)}." if cpu else "")


@dataclass(frozen=True, slots=True)
class Part:
    """One setting: its cells and what was compared."""

    rows: Sequence[Row]
    ratios: Sequence[Ratio]
    """Serial cells are compared by their latency, concurrent ones by their throughput: each pair once."""
    against: Mapping[tuple[str, str], Ratio]
    """(id, measure) -> its ratio to the reference."""
    alone: bool
    """The result has no other setting."""
    photos: bool = True
    """Its requests are made of photos."""

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
        targets = {"edge": "through Envoy", "direct": "straight to the servers"}
        said = [CONNECTIONS.get(cell.policy, cell.policy), targets.get(cell.target, f"through {cell.target}")]
        said += [f"{cell.photo} photos" * self.photos, f"open loop at {cell.rate:g} requests/s" if cell.rate else ""]
        distance = distance_text(cell.distance) if cell.distance else ""
        return ", ".join(filter(None, (*said, cell.size, distance, "all at once" * cell.gather)))

    @property
    def tables(self) -> list[Table]:
        """p50 by batch, throughput and cost by callers."""
        priced = [row for row in self.rows if row["batch"] == 1 and row[COST]]
        chosen = (
            (LATENCY, self.serial, P50, "batch"),
            (THROUGHPUT, self.concurrent, PER_SECOND, "users"),
            ("Cost per million images", priced, COST, "users"),
        )
        return [self._table(caption, rows, measure, by) for caption, rows, measure, by in chosen if rows]

    def _table(self, caption: str, rows: Sequence[Row], measure: str, by: str) -> Table:
        def heading(row: Row) -> str:
            return f"batch {row['batch']}" if by == "batch" else callers(row["users"])

        def cell(row: Row) -> Entry:
            return entry(row[measure], row, self.against.get((row["id"], measure)))

        return pivot(rows, heading, cell, caption, lambda row: int(row[by]))

    @property
    def captioned(self) -> list[Table]:
        """The tables, with the setting's name where there are several."""
        tables = self.tables
        return tables if self.alone else [replace(one, caption=f"{one.caption}: {self.name}") for one in tables]

    @property
    def same(self) -> bool:
        """Whether one route was measured under two names."""
        return any(ratio.kind == "same" for ratio in self.ratios)

    @property
    def pairs(self) -> Table | None:
        """A line per pair of rows without the reference: its ratios by case, in the order of the result."""
        lines: dict[str, dict[str, Entry]] = {}
        for ratio in self.ratios:
            if ratio.b_name != REFERENCE:
                time = ratio.time
                limits = f"{time.low:.2f}–{time.high:.2f}" if time and time.low and time.high else "no interval"
                pair = lines.setdefault(f"{ratio.a_name} against {ratio.b_name}", {})
                pair[ratio.case] = Entry(times(ratio) or "–", limits, verdict=ratio.speed)
        cases = list(dict.fromkeys(case for pair in lines.values() for case in pair))
        caption = "Two names of one route" if self.same else "Pairs on one server that differ in one factor"
        made = [[name, *(pair.get(case, "–") for case in cases)] for name, pair in lines.items()]
        return Table(["pair", *cases], made, caption) if lines else None

    @property
    def plots(self) -> dict[str, str]:
        """Name -> SVG, empty where there is nothing to draw."""
        many = len({row["name"] for row in self.rows}) > 1
        protocols = [ratio for ratio in self.ratios if ratio.kind in ("protocol", "same")]
        sides = ("first faster", "second faster") if self.same else ("gRPC faster", "HTTP faster")
        return {
            "latency": plots.latency(self.serial) if many else "",
            "throughput": plots.throughput(self.concurrent) if many else "",
            "forest": plots.forest(protocols, *sides),
            "split": plots.split(self.serial),
            "cost": plots.cost(self.serial),
            "payload": plots.payload(self.serial or self.rows),
        }


def parts(result: Result) -> list[Part]:
    """The settings of a result, each once, in the order of its cells."""
    groups = grouped(results.rows(result), lambda row: tuple(row[name] for name in SETTING))
    found = []
    for rows in groups.values():
        ids = {row["id"] for row in rows}
        ratios = [ratio for ratio in result.analysis.ratios if ratio.a in ids]
        against = {(one.a, str(one.measure)): one for one in ratios if one.b_name == REFERENCE}
        shown = [one for one in ratios if one.measure == (P50 if one.users == 1 else PER_SECOND)]
        found.append(Part(rows, shown, against, len(groups) == 1, not result.of_tensors))
    return found


def readme_table(result: Result, folder: str) -> str:
    """The README's table in Markdown, of the result's first setting; `folder` is where the result lies."""
    part = parts(result)[0]
    captions = {LATENCY: "p50 latency in ms, one caller:", THROUGHPUT: "Images per second:"}
    about = f"{md.escaped(results.label(result))} Full report: [{Path(folder).name}]({folder})."
    blocks = [fill(about, 120, break_long_words=False, break_on_hyphens=False)]
    for table in part.tables:
        if table.caption in captions:
            blocks += [captions[table.caption], md.table(table)]
    if any(row["marks"] for row in part.rows):
        blocks.append("† No verdict may rest on this cell. The report says why.")
    return "\n\n".join(blocks)


def half(width: float | None) -> str:
    """An interval's upper limit divided by its lower one, as the distance to either side: `± 4 %`."""
    return "–" if width is None else f"± {100 * (width**0.5 - 1):.0f} %"


def quick_runs(found: Sequence[QuickRuns]) -> Table:
    """A row per ratio of an A/A result, with the quick runs that showed no difference."""
    parts = [part for part in CPU_PARTS if any(part in row.cpu_widths for row in found)]
    lines = [
        [
            f"batch {row.batch}, {callers(row.users)}",
            "p50" if row.measure == P50 else "images per second",
            f"{row.same} of {row.runs}",
            *(half(width) for width in (row.width, *(row.cpu_widths.get(part) for part in parts))),
        ]
        for row in found
    ]
    head = ["cell", "measure", "no difference shown", "median interval", *(f"of CPU time: {part}" for part in parts)]
    return Table(head, lines, "Quick runs, each judged alone", left=2)


class Report:
    """What a report says of a result, piece by piece; markdown() and report.html.j2 have the order."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.study = study_of(result.study)
        self.rows, self.parts = results.rows(result), parts(result)
        self.claims = result.analysis.hypotheses
        self.label = results.label(result)
        self.sentences = self.study.answer(result)
        name = {"fiveway": "5-way comparison", "aa": "A/A", "truth": "Cross-check"}.get(result.study, result.study)
        self.name = name if result.method == "fair" else f"{name}, the published way"
        model = result.environment.model.name if results.model(result)[1] else "no model"
        self.title = f"{self.name}: {model} on {result.environment.machine}"
        self.marks = list(dict.fromkeys(mark for row in self.rows for mark in row["marks"]))
        """Why cells get no verdict; numbers in the page's tables lead here."""
        self.heavy = heavy(self.study, self.rows)
        self.verdicts = [said(ratio) for ratio in result.analysis.ratios]
        self.quick_runs = quick_runs(found) if (found := result.analysis.quick_runs) else None
        self.published = _published_table(self.study, self.rows)
        self.source = f"Published: {self.study.source.rstrip('.')}."

    def colour(self, name: str) -> str:
        """The colour of a row, as CSS."""
        return plots.css(plots.colour(name, [row["name"] for row in self.rows]))

    @property
    def answer(self) -> str:
        """The study's answer; without one, the routes that answer the smallest call fastest. For A/A, the share without
        a difference."""
        ratios, quick = self.result.analysis.ratios, self.result.analysis.quick_runs
        if quick:
            runs, same = sum(row.runs for row in quick), sum(row.same for row in quick)
            return f"A route measured against itself shows no difference in {same} of {runs} comparisons of quick runs."
        if ratios and all(ratio.kind == "same" for ratio in ratios):
            same = sum(ratio.verdict in (SAME, NO_DIFFERENCE) for ratio in ratios)
            return f"A route measured against itself shows no difference in {same} of {len(ratios)} comparisons."
        if self.sentences:
            return " ".join(self.sentences[:ANSWER])
        fit = [row for row in (self.parts[0].serial if self.parts else []) if row["p50_ms"] and not row["marks"]]
        smallest = min((row["batch"] for row in fit), default=0)
        p50s = {row["name"]: p50 for row in fit if row["batch"] == smallest and (p50 := row.found.p50_ms)}
        if not p50s:
            return "No cell allows a verdict."
        least = min(p50s.values(), key=lambda p50: p50.value)
        leaders = [name for name, p50 in p50s.items() if (p50.low or p50.value) <= (least.high or least.value)]
        what = "one image" if smallest == 1 else f"{smallest} images"
        if len(leaders) == 1:
            return f"{leaders[0]} answers {what}{' fastest,' * (len(p50s) > 1)} in {digits(least.value)} ms."
        span = f"{digits(least.value)} to {digits(max(p50s[name].value for name in leaders))} ms"
        return f"{', '.join(leaders[:-1])} and {leaders[-1]} answer {what} fastest, in {span}. Their intervals overlap."

    @property
    def more(self) -> str:
        """What the study adds to its answer."""
        return " ".join(self.sentences[ANSWER:])

    @property
    def warnings(self) -> list[str]:
        """Warnings that a reader must know before the numbers."""
        result, found = self.result, []
        if result.ended != "finished":
            found.append(f"The run ended early: {result.ended}. The report shows what was measured until then.")
        if result.method != "fair":
            found.append(
                "Measured by the published method on purpose: a new client for every call, routes in a fixed order, 30"
                " calls, one block. Its differences are not differences between protocols. Compare it with a fair run."
            )
        if result.environment.model.weights == "random":
            found.append("Random weights: the times are real, but the answers mean nothing.")
        if result.environment.dirty:
            found.append("The checkout had uncommitted changes.")
        facts = result.environment
        limited = {name for name, one in (facts.services or {}).items() if one.cpus and one.cpus < (facts.cores or 0)}
        if limited:
            found.append(f"These may not use all of the machine's {facts.cores} cores: {', '.join(sorted(limited))}.")
        if "prometheus" in (facts.services or {}):
            found.append("Metrics were on: Prometheus asked the servers every 5 s, and took CPU time beside them.")
        if facts.traces:
            found.append("Traces were on: every request made spans, and took CPU time for them.")
        parity = result.parity.items()
        found += [f"{route} disagrees with the reference: {fact.why}" for route, fact in parity if not fact.agrees]
        visits = ((cell.id, visit.problem) for cell in result.cells for visit in cell.visits if visit.problem)
        return found + [f"{id_}: {problem}" for id_, problem in dict.fromkeys(visits)]

    @property
    def cards(self) -> list[tuple[str, str, str]]:
        """(question, answer, more) for what the cells of the first setting can answer: sentences."""
        if not self.parts:
            return []
        cards = []
        for kind, (question, first, second) in QUESTIONS.items():
            # In other studies `format` is another pair than a tensor and a JPEG.
            ratios = [r for r in self.parts[0].ratios if r.kind == kind and (kind != "format" or r.b_name == REFERENCE)]
            if not ratios:
                continue
            each = words.several(first, second, ratios, "cells")
            pooled = {one.kind: one for one in self.result.analysis.pooled if one.ratios > 1}.get(kind)
            if pooled:
                whole = f"Over {pooled.ratios} cells, {words.between(first, second, pooled)}."
                cards.append((question, whole, f"{besides(pooled, first).strip()} Cell by cell, {each}.".strip()))
            else:
                cards.append((question, words.sentence(each), ""))
        return cards + _most(self.parts[0].serial)

    @property
    def published_plot(self) -> str:
        """gRPC / HTTP as published, per device, and as measured here in the first setting."""
        part, measures = self.parts[0], {measure.of: measure for measure in self.study.measures}
        cells = {row["id"]: row.cell for row in part.rows}
        theirs = {}
        for ratio in part.ratios:
            measure = measures.get(ratio.measure)
            if ratio.kind == "protocol" and measure:
                a, b = (measure.published(cells[id_]) for id_ in (ratio.a, ratio.b))
                if measure.of == PER_SECOND and not measure.inverse:
                    a, b = b, a
                theirs[ratio.a, ratio.b] = {who: a[who] / b[who] for who in a if who in b}
        shown = [ratio for ratio in part.ratios if theirs.get((ratio.a, ratio.b))]
        return plots.forest(shown, "gRPC faster", "HTTP faster", theirs)

    @property
    def factors(self) -> Table:
        """The counters beside the clock: a difference in one of them is a cause to check before the protocol."""
        columns: dict[str, Callable[[Row], str]] = {
            "calls": lambda row: f"{row['requests']:,}",
            "failed": lambda row: str(row["failures"]),
            "blocks": lambda row: str(row["blocks"]),
            "connections": lambda row: digits(row["connections"]),
            "at the edge": lambda row: digits(row["edge_connections"]),
            "sent, B/image": lambda row: digits(row["sent_bytes_per_image"]),
            "received, B/image": lambda row: digits(row["received_bytes_per_image"]),
            "CPU, ms/image": lambda row: str(row["cpu_ms"].get(EVERY, "–")),
            "GPU, J/image": lambda row: str(row["energy_j"] or "–"),
            "GPU in use, %": lambda row: "–" if (used := row["gpu_utilization"]) is None else f"{100 * used:.0f}",
            "client CPU, % of a core": lambda row: "–" if (cpu := row["client_cpu"]) is None else f"{100 * cpu:.0f}",
            "calls per model run": lambda row: digits(row["calls_per_execution"]),
            "p90, ms": lambda row: str(row["p90_ms"] or "–"),
            "p99, ms": lambda row: str(row["p99_ms"] or "–"),
            "marks and notes": lambda row: "; ".join(row["marks"] + row["notes"]) or "–",
        }
        lines = [[row["id"], *(text(row) for text in columns.values())] for row in self.rows]
        return Table(["cell", *columns], lines)

    @property
    def idle(self) -> str:
        """What the services take without a call, and how often other programs disturbed; empty if not known."""
        found = self.result.analysis.idle_cpu
        each = ", ".join(f"{service} {digits(ms)}" for service, ms in found.items() if ms >= IDLE_SHOWN)
        said = "Without a call, while other routes were measured, services took in CPU-milliseconds per second"
        visits = [visit for cell in self.result.cells for visit in cell.visits]
        again, disturbed = sum(visit.repeated for visit in visits), sum(visit.disturbed for visit in visits)
        others = (
            f"Other programs used more than {share(OTHERS)} of a core in {disturbed} of {len(visits)} visits."
            f" Turns that were made again: {again}."
        )
        return " ".join([f"{said}: {each}."] * bool(each) + [others] * bool(disturbed))

    @property
    def parity(self) -> Table | None:
        lines = [
            [
                route,
                "✓ yes" if one.agrees else "✗ no",
                "–" if one.cosine is None else f"{one.cosine:.6f}",
                one.why or "–",
            ]
            for route, one in self.result.parity.items()
        ]
        head = ["route", "agrees", "worst cosine to the reference", "why"]
        caption = "Do the routes give the same answer? Checked before any timing"
        return Table(head, lines, caption, routes=True) if lines else None

    @property
    def environment(self) -> Table:
        facts = self.result.environment
        model = facts.model
        lines = {
            "started": self.result.started_at,
            "ended": self.result.ended,
            "method": self.result.method,
            "commit": f"{facts.commit or 'unknown'}{' with uncommitted changes' if facts.dirty else ''}",
            "machine": f"{facts.machine}: {facts.cpu or 'unknown CPU'}, {facts.cores} cores, {facts.memory_gib} GiB",
            "kernel": facts.kernel,
            "device": facts.gpus,
            "accelerator": facts.accelerator,
            "target": ", ".join(facts.targets),
            "model": f"{model.name}, {model.weights or 'unknown'} weights",
            "model checksum": model.checksum,
            "Triton's model config": model.config_sha256,
            "execution providers": results.providers(facts),
            **{f"model behind {name}": str(engine) for name, engine in (facts.engines or {}).items()},
            "Triton": facts.triton,
            "Envoy": facts.envoy.version,
            "Envoy config": facts.envoy.config_sha256,
            "Docker": "none: servers and load ran as plain processes" if facts.native else facts.docker,
            "load generator": str(facts.client_limits),
            **{f"service {name}": f"{one}; {one.image}" for name, one in (facts.services or {}).items()},
            "versions": ", ".join(f"{name} {version or 'absent'}" for name, version in facts.versions.items()),
        }
        return Table(["fact", "here"], [[name, text or "unknown"] for name, text in lines.items()], left=2)

    @property
    def commands(self) -> list[str]:
        """The command that measures this again."""
        facts = self.result.environment
        command = ["./scripts/bench", self.result.study]
        for name, value in sorted(self.result.options.items()):
            if value is None or value is False or value == []:
                continue
            command.append(f"--{name.replace('_', '-')}")
            if value is not True:
                command.append(",".join(map(str, value)) if isinstance(value, list) else str(value))
        knobs = f"MODEL={shlex.quote(facts.model.name)} ACCELERATOR={shlex.quote(facts.accelerator or 'cpu')}"
        checkout = [f"git checkout {facts.commit}"] if facts.commit else []
        return [*checkout, f"{knobs} ./scripts/up", shlex.join(command)]


def _most(serial: Sequence[Row]) -> list[tuple[str, str, str]]:
    """The card that says where most of the time goes in the smallest call; none without a time split."""
    rows = [row for row in serial if row["split"] and sum(row["split"].values()) > 0]
    rows = [row for row in rows if row["batch"] == min(row["batch"] for row in rows)]
    if not rows:
        return []
    largest = grouped(rows, lambda row: str(max(row["split"], key=row["split"].__getitem__)))
    said = []
    for part, found in largest.items():
        shares = [100 * row["split"][part] / sum(row["split"].values()) for row in found]
        span = " to ".join(dict.fromkeys(f"{share:.0f}" for share in (min(shares), max(shares))))
        where = f" with {', '.join(row['name'] for row in found)}" if len(largest) > 1 else ""
        said.append(f"{part} takes {span} % of a call{where}")
    answer = "It depends on the route." if len(said) > 1 else f"{next(iter(largest)).capitalize()} takes the most."
    return [("Where does the time go?", answer, f"At batch {rows[0]['batch']} {'; '.join(said)}.")]


def _published_table(study: Study, rows: Sequence[Row]) -> Table | None:
    """Our numbers beside the published ones: a line per cell and measure that the study has, in the order of cells."""
    asked = [(row, measure, measure.published(row.cell)) for row in rows for measure in study.measures]
    found = [(row, measure, theirs) for row, measure, theirs in asked if theirs]
    sources = list(dict.fromkeys(source for _, _, theirs in found for source in theirs))
    lines = [
        [
            f"{row['name']}, {_case(row, measure)}",
            measure.name,
            str(measure(row.found) or "–"),
            *(digits(theirs.get(source)) for source in sources),
        ]
        for row, measure, theirs in found
    ]
    return Table(["cell", "measure", "here", *sources], lines, left=2) if found else None


def _case(row: Row, measure: Measure) -> str:
    batch = row["users"] == 1 and measure.of != PER_SECOND
    more = [row["size"] or (row["photo"] if row["gather"] else ""), row["distance"]]
    return ", ".join(filter(None, (f"batch {row['batch']}" if batch else callers(row["users"]), *more)))
