"""The report of a result: one self-contained HTML page, and the same tables in Markdown.

What it says comes from the result alone: the numbers and verdicts of the analysis, put into words, tables and plots.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from bench.measure.measured import from_json, of_tensors
from bench.report import plots, results
from bench.report.plots import Plot, Ratio
from bench.report.results import Row, bracketed, by_batch, by_users, digits, escaped
from bench.studies import published

REFERENCE = "jpeg-http"
P50, THROUGHPUT = "p50_ms", "images_per_s"
FASTER, SLOWER, SAME, NONE = "faster", "slower", "no difference shown", "no verdict"
SIGNS = {FASTER: "▼", SLOWER: "▲", SAME: "=", NONE: "?"}
"""Beside the colour, the sign of a verdict: a faster one takes less time."""

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


@dataclass(frozen=True, slots=True)
class Verdict:
    """A ratio as the page shows it."""

    ratio: Mapping[str, Any]
    word: str
    """One of SIGNS."""

    @property
    def sign(self) -> str:
        return SIGNS[self.word]

    @property
    def time(self) -> Ratio | None:
        """The ratio as time: throughput is turned round, so that below 1 always means that the first is faster."""
        value, low, high = (self.ratio[name] for name in ("value", "low", "high"))
        if not value:
            return None
        if self.ratio["measure"] == THROUGHPUT:
            value, low, high = 1 / value, high and 1 / high, low and 1 / low
        return Ratio(case(self.ratio), f"{self.ratio['a_name']} / {self.ratio['b_name']}", value, low, high, self.word)


def html(result: Mapping[str, Any]) -> str:
    """The page; raises ResultError when the result is not whole."""
    results.check(result)
    loader = Environment(
        loader=PackageLoader("bench.report", "."), autoescape=select_autoescape(default=True),
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    loader.filters |= {"digits": digits, "bracketed": bracketed, "css": _css}
    loader.globals["callers"] = results.callers
    return loader.get_template("report.html.j2").render(_page(result))


def markdown(result: Mapping[str, Any]) -> str:
    """The tables, verdicts and factors in Markdown; raises ResultError when the result is not whole."""
    results.check(result)
    page = _page(result, drawn=False)
    lines = [f"# {escaped(page['title'])}"]
    lines += [escaped(text) for text in (page["answer"], page["label"], *page["warnings"])]
    for answer in page["answers"]:
        lines.append(f"**{answer['question']}** {answer['short']}. {escaped(answer['long'])}")
    for part in page["parts"]:
        heading = "" if len(page["parts"]) == 1 else f": {part['name']}"
        if part["serial"]:
            table = results.pivot(part["serial"], "batch", P50, "batch {}".format)
            lines += [f"## p50 latency in ms{heading}", table]
        if part["concurrent"]:
            table = results.pivot(part["concurrent"], "users", THROUGHPUT, results.callers)
            lines += [f"## Images per second{heading}", table]
        if part["costs"]:
            table = results.pivot(part["costs"], "users", "cost_per_million_images", results.callers)
            lines += [f"## Cost per million images{heading}", table]
    if page["quick_runs"]:
        lines += ["## Quick runs, each judged alone", results.quick_runs(result)]
    if page["marks"]:
        lines += ["† no verdict may rest on this cell:", "\n".join(f"- {escaped(mark)}" for mark in page["marks"])]
    if page["verdicts"]:
        lines += ["## Verdicts", "\n".join(f"- {escaped(_sentence(v))}" for v in page["verdicts"])]
    if page["hypotheses"]:
        lines += ["## What the published study claimed"] + [
            f"**{one['id']}: {escaped(one['claim'])}** Published: {escaped(one['published_verdict'])}."
            f" Here: {one['verdict']}. {escaped(one['text'])} Cause: {escaped(one['cause'])}"
            for one in page["hypotheses"]
        ]
    if page["beside"]:
        devices = page["devices"]
        head = [["cell", "measure", "here", *devices], ["---", "---"] + ["---:"] * (1 + len(devices))]
        body = [
            [
                escaped(row["label"]),
                row["what"],
                row["ours"],
                *(digits(row["published"].get(device)) for device in devices),
            ]
            for row in page["beside"]
        ]
        lines += ["## Published beside ours", _table(head + body), f"Published: {published.SOURCE}."]
    lines += ["## Environment", _table([["", ""], ["---", "---"], *([n, escaped(v)] for n, v in page["environment"])])]
    commands = [" ".join(command.splitlines()) for command in page["commands"]]
    lines += ["## How to reproduce", "```console\n" + "\n".join(commands) + "\n```"]
    return "\n\n".join(line for line in lines if line) + "\n"


def _page(result: Mapping[str, Any], *, drawn: bool = True) -> dict[str, Any]:
    """Everything that the page says; without plots where they are not shown."""
    rows = results.rows(result)
    verdicts = [Verdict(ratio, _word(ratio)) for ratio in result["analysis"]["ratios"]]
    marks = list(dict.fromkeys(mark for row in rows for mark in row["marks"]))
    parts = [_part(rows, verdicts, setting, drawn) for setting in results.settings(rows)]
    first = parts[0] if parts else None
    beside = published.beside(result["analysis"], [cell for cell, _ in from_json(result).cells])
    beside = beside if result["analysis"]["hypotheses"] else []
    return {
        "result": result,
        "title": f"{_study(result)}: {result['environment']['model']['name']} on {result['environment']['machine']}",
        "study": _study(result),
        "answer": _headline(first, verdicts, result["analysis"].get("quick_runs", [])),
        "quick_runs": result["analysis"].get("quick_runs", []),
        "answers": _answers(first) if first else [],
        "warnings": _warnings(result, rows),
        "label": results.label(result),
        "parts": parts,
        "marks": marks,
        "verdicts": verdicts,
        "sentence": _sentence,
        "hypotheses": result["analysis"]["hypotheses"],
        "hypothesis_signs": {"reproduced": "✓", "not reproduced": "✗", "cannot tell": "?"},
        "rows": rows,
        "names": list(dict.fromkeys(row["name"] for row in rows)),
        "beside": [_beside(row) for row in beside],
        "devices": list(published.devices()) if beside else [],
        "source": published.SOURCE,
        "published_plot": _published_plot(first, beside) if drawn and first else None,
        "environment": _environment(result),
        "parity": result["parity"],
        "rules": [
            *(FAIR_RULES if result["method"] == "fair" else PUBLISHED_RULES),
            *([OPEN_LOOP_RULE] if any(row["rate"] for row in rows) else []),
            *(PHOTO_RULES if not of_tensors(result["environment"]) else ()),
            *COMMON_RULES,
        ],
        "commands": _commands(result),
        "reference": REFERENCE,
        "measures": {P50: "p50", THROUGHPUT: "images/s"},
    }


def _part(rows: Sequence[Row], verdicts: Sequence[Verdict], setting: tuple[Any, ...], drawn: bool) -> dict[str, Any]:
    """One setting (everything but row, batch and number of users): its tables, its verdicts and its plots."""
    mine = [row for row in rows if results.setting(row) == setting]
    ids = {row["id"] for row in mine}
    judged = [verdict for verdict in verdicts if verdict.ratio["a"] in ids]
    against = {(v.ratio["a"], v.ratio["measure"]): v for v in judged if v.ratio["b_name"] == REFERENCE}
    judged = [verdict for verdict in judged if _shown(verdict.ratio)]
    policy, target, photo, rate, size, distance, gather = setting
    serial, concurrent = by_batch(mine), by_users(mine)
    protocols = [verdict for verdict in judged if verdict.ratio["kind"] in ("protocol", "same")]
    times = sorted((time for verdict in protocols if (time := verdict.time)), key=lambda time: time.group)
    sides = (
        ("first faster", "second faster")
        if judged and judged[0].ratio["kind"] == "same"
        else ("gRPC faster", "HTTP faster")
    )
    many = len({row["name"] for row in mine}) > 1
    return {
        "name": f"{CONNECTIONS.get(policy, policy)}, {_target(target)}, {photo} photos"
        + (f", open loop at {rate:g} requests/s" if rate else "")
        + "".join(f", {more}" for more in (size, distance, "all at once" * gather) if more),
        "rate": rate,
        "rows": mine,
        "serial": serial,
        "concurrent": concurrent,
        "costs": [row for row in mine if row["batch"] == 1 and row["cost_per_million_images"]],
        "judged": judged,
        "against": against,
        "pairs": _pairs(judged),
        "latency": plots.latency(serial) if drawn and many else None,
        "throughput": plots.throughput(concurrent) if drawn and many else None,
        "split": plots.split(serial) if drawn else None,
        "payload": plots.payload(serial or mine) if drawn else None,
        "forest": plots.forest(times, *sides) if drawn else None,
    }


def _shown(ratio: Mapping[str, Any]) -> bool:
    """Serial cells are compared by their latency, concurrent ones by their throughput: each pair once."""
    return bool(ratio["measure"] == (P50 if ratio["users"] == 1 else THROUGHPUT))


def _pairs(judged: Sequence[Verdict]) -> list[dict[str, Any]]:
    """A line per pair of rows that is not against the reference: its verdicts by case, in the order of the result."""
    lines: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in judged:
        if verdict.ratio["b_name"] != REFERENCE:
            lines.setdefault((verdict.ratio["a_name"], verdict.ratio["b_name"]), []).append(verdict)
    cases = list(dict.fromkeys(case(v.ratio) for found in lines.values() for v in found))
    return [
        {"a": a, "b": b, "cases": cases, "by_case": {case(verdict.ratio): verdict for verdict in found}}
        for (a, b), found in lines.items()
    ]


def case(ratio: Mapping[str, Any]) -> str:
    """`batch 8`, or `16 callers`."""
    return f"batch {ratio['batch']}" if ratio["users"] == 1 else results.callers(ratio["users"])


def _word(ratio: Mapping[str, Any]) -> str:
    if ratio["verdict"] in (SAME, NONE):
        return str(ratio["verdict"])
    return FASTER if (ratio["verdict"] == "lower") == (ratio["measure"] == P50) else SLOWER


def _headline(
    part: Mapping[str, Any] | None, verdicts: Sequence[Verdict], quick_runs: Sequence[Mapping[str, Any]]
) -> str:
    """The answer in one sentence: which routes answer the smallest call fastest, or that a name equals itself."""
    if quick_runs:
        same, runs = (sum(row[name] for row in quick_runs) for name in ("same", "runs"))
        return f"A route against itself: no difference shown in {same} of {runs} comparisons of quick runs."
    if verdicts and all(verdict.ratio["kind"] == "same" for verdict in verdicts):
        same = sum(verdict.word == SAME for verdict in verdicts)
        return f"A route against itself: no difference shown in {same} of {len(verdicts)} comparisons."
    found = [row for row in (part["serial"] if part else []) if row[P50] and not row["marks"]]
    smallest = [row for row in found if row["batch"] == min(row["batch"] for row in found)]
    if not smallest:
        return "No cell is fit for a verdict."
    best = min(smallest, key=lambda row: row[P50]["value"])
    limit = best[P50]["high"] or best[P50]["value"]
    leaders = [row for row in smallest if (row[P50]["low"] or row[P50]["value"]) <= limit]
    what = "one image" if best["batch"] == 1 else f"{best['batch']} images"
    if len(smallest) == 1:
        return f"{best['name']} answers {what} in {digits(best[P50]['value'])} ms."
    if len(leaders) == 1:
        return f"{best['name']} answers {what} fastest, in {digits(best[P50]['value'])} ms."
    span = f"{digits(best[P50]['value'])} to {digits(max(row[P50]['value'] for row in leaders))} ms"
    return f"{_and([row['name'] for row in leaders])} answer {what} fastest, in {span}: their intervals overlap."


def _answers(part: Mapping[str, Any]) -> list[dict[str, str]]:
    """A card per question that the cells can answer."""
    cards = []
    for kind, (question, first, second) in QUESTIONS.items():
        found = [verdict for verdict in part["judged"] if verdict.ratio["kind"] == kind]
        if not found:
            continue
        words = [verdict.word for verdict in found]
        counts = [f"{words.count(word)} {word}" for word in SIGNS if word in words]
        long = f"Of {len(found)} comparisons: {', '.join(counts)}."
        decided = [time for v in found if v.word in (FASTER, SLOWER) and (time := v.time)]
        if decided:
            low, high = min(time.value for time in decided), max(time.value for time in decided)
            span = f"{low:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{low:.2f} to {high:.2f}"
            long += f" Where one is shown, {first} takes {span} times as long as {second}."
        cards.append({"question": question, "short": _short(words, first), "long": long})
    if spent := _most(part["serial"]):
        cards.append(spent)
    return cards


def _short(words: Sequence[str], first: str) -> str:
    start = first[0].upper() + first[1:] if first.startswith("the ") else first
    shown = {word for word in words if word in (FASTER, SLOWER)}
    if len(shown) == 2:
        return "It depends"
    if shown:
        every = "" if len(set(words)) == 1 else ", where a difference is shown"
        return f"{start} is {shown.pop()}{every}"
    return "No difference shown" if SAME in words else "No verdict"


def _most(serial: Sequence[Row]) -> dict[str, str] | None:
    """Where most of the time goes in the smallest call."""
    rows = [row for row in serial if row["split"] and sum(row["split"].values()) > 0]
    rows = [row for row in rows if row["batch"] == min(row["batch"] for row in rows)]
    if not rows:
        return None
    largest = {row["name"]: max(row["split"].items(), key=lambda part: part[1]) for row in rows}
    shares = {row["name"]: 100 * largest[row["name"]][1] / sum(row["split"].values()) for row in rows}
    parts = {part for part, _ in largest.values()}
    question, batch = "Where does the time go?", f"At batch {rows[0]['batch']}"
    if len(parts) > 1:
        words = [f"{name} {shares[name]:.0f} % {part}" for name, (part, _) in largest.items()]
        return {"question": question, "short": "It depends on the route", "long": f"{batch}: {', '.join(words)}."}
    low, high = (f"{limit(shares.values()):.0f} %" for limit in (min, max))
    span = low if low == high else f"{low} to {high}"
    short = f"{parts.pop().capitalize()} takes the most"
    depends = "" if low == high else ", depending on the route"
    return {"question": question, "short": short, "long": f"{batch} it is {span} of a call{depends}."}


def _published_plot(part: Mapping[str, Any], beside: Sequence[Mapping[str, Any]]) -> Plot | None:
    """gRPC / HTTP as published, per device, and as measured here."""
    known = {(row["route"], row["batch"], row["users"], row["measure"]): row["published"] for row in beside}
    lines: dict[str, dict[str, Ratio]] = {}
    for verdict in sorted(part["judged"], key=lambda v: v.ratio["a_name"]):
        ratio, time = verdict.ratio, verdict.time
        if ratio["kind"] != "protocol" or time is None:
            continue
        a, b = (
            known.get((ratio[name], ratio["batch"], ratio["users"], ratio["measure"])) for name in ("a_name", "b_name")
        )
        if a and b:
            theirs = {device: a[device] / b[device] for device in a if device in b}
            if ratio["measure"] == THROUGHPUT:
                theirs = {device: 1 / value for device, value in theirs.items()}
            said = {who: replace(time, value=value, low=None, high=None) for who, value in theirs.items()}
            lines[f"{time.group}, {time.label}"] = {"this run": time} | said
    return plots.published("this run", lines, "gRPC faster", "HTTP faster")


def _beside(row: Mapping[str, Any]) -> dict[str, Any]:
    what = {P50: "p50, ms", THROUGHPUT: "images/s"}.get(row["measure"], "server compute, ms")
    label = (
        f"{row['name']}, {case(row)}"
        if row["users"] > 1 or row["measure"] != THROUGHPUT
        else f"{row['name']}, 1 caller"
    )
    return {"label": label, "what": what, "ours": bracketed(row["ours"]), "published": row["published"]}


def _warnings(result: Mapping[str, Any], rows: Sequence[Row]) -> list[str]:
    """What a reader must know before the numbers."""
    environment, found = result["environment"], []
    if result["ended"] != "finished":
        found.append(f"The run ended early: {result['ended']}. This is what was measured until then.")
    if result["method"] != "fair":
        found.append(
            "Measured the published way on purpose: a new client for every call, routes in a fixed order, 30 calls, one"
            " block. Its differences are not differences between protocols; it is here to be held against a fair run."
        )
    if environment["model"]["weights"] == "random":
        found.append("Random weights: the times are real, the answers mean nothing.")
    if environment["dirty"]:
        found.append("The checkout had uncommitted changes.")
    found += [
        f"{route} disagrees with the reference: {fact['why']}"
        for route, fact in result["parity"].items()
        if not fact["agrees"]
    ]
    found += [f"{row['id']}: {problem}" for row in rows for problem in dict.fromkeys(row["problems"])]
    return found


def _environment(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Label and text of every fact."""
    facts, services = result["environment"], result["environment"]["services"] or {}
    model, limits, device = facts["model"], facts["client_limits"], facts["device"]
    commit = f"{facts['commit'] or 'unknown'}{' with uncommitted changes' if facts['dirty'] else ''}"
    lines = [
        ("started", result["started_at"]),
        ("ended", result["ended"]),
        ("method", result["method"]),
        ("commit", commit),
        (
            "machine",
            f"{facts['machine']}: {facts['cpu'] or 'unknown CPU'}, {facts['cores']} cores, {facts['memory_gib']} GiB",
        ),
        ("kernel", facts["kernel"]),
        ("device", f"{device['count']} x {device['name']}, driver {device['driver']}" if device else "no GPU"),
        ("accelerator", facts["accelerator"]),
        ("target", ", ".join(facts["targets"])),
        ("model", f"{model['name']}, {model['weights'] or 'unknown'} weights"),
        ("model checksum", model["checksum"]),
        ("Triton's model config", model["config_sha256"]),
        ("execution providers", results.providers(facts)),
        ("Triton", facts["triton"]),
        ("Envoy", facts["envoy"]["version"]),
        ("Envoy config", facts["envoy"]["config_sha256"]),
        ("Docker", "none: servers and load ran as plain processes" if facts.get("native") else facts["docker"]),
        ("load generator", _limits(limits)),
        *((f"service {name}", f"{_limits(service)}; {service['image']}") for name, service in services.items()),
        ("versions", ", ".join(f"{name} {version or 'absent'}" for name, version in facts["versions"].items())),
    ]
    return [(name, text or "unknown") for name, text in lines]


def _limits(facts: Mapping[str, Any]) -> str:
    cpus = f"{facts['cpus']:g} cores" if facts["cpus"] else "no CPU limit"
    cpus += f" (CPU set {facts['cpuset']})" if facts.get("cpuset") else ""
    memory = f"{facts['memory_bytes'] / 2**30:.3g} GiB" if facts["memory_bytes"] else "no memory limit"
    replicas = f"{facts['replicas']} x " if facts.get("replicas", 1) > 1 else ""
    return f"{replicas}{cpus}, {memory}"


def _commands(result: Mapping[str, Any]) -> list[str]:
    """The commands that measure this again."""
    facts = result["environment"]
    words = ["./scripts/bench", result["study"]]
    for name, value in sorted(result["options"].items()):
        if value is None or value is False or value == []:
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(",".join(str(one) for one in value) if isinstance(value, list) else str(value))
    knobs = f"MODEL={shlex.quote(facts['model']['name'])} ACCELERATOR={shlex.quote(facts['accelerator'] or 'cpu')}"
    return [
        *([f"git checkout {facts['commit']}"] if facts["commit"] else []),
        f"{knobs} ./scripts/up",
        shlex.join(words),
    ]


def _sentence(verdict: Verdict) -> str:
    """A ratio in words, with its case and the factors that differ."""
    ratio = verdict.ratio
    measure = "p50" if ratio["measure"] == P50 else "images/s"
    why = f" ({'; '.join(ratio['why'])})" if ratio["why"] else ""
    callers = "" if ratio["users"] == 1 else f", {results.callers(ratio['users'])}"
    return f"{ratio['a_name']} / {ratio['b_name']}, batch {ratio['batch']}{callers}, {measure}: {ratio['text']}{why}"


def _study(result: Mapping[str, Any]) -> str:
    name = {"fiveway": "5-way comparison", "aa": "A/A", "truth": "Cross-check"}.get(result["study"], result["study"])
    return str(name) if result["method"] == "fair" else f"{name}, the published way"


def _target(target: str) -> str:
    return {"edge": "through Envoy", "direct": "straight to the servers"}.get(target, f"through {target}")


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _css(name: str, names: Sequence[str] = ()) -> str:
    return plots.css(plots.colour(name, names))


def _table(lines: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
