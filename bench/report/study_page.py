"""The page of a study, docs/studies/<study>.md, and its plot: made of a result alone, so that they cannot drift.

scripts/bench page RESULT [RESULT ...] > docs/studies/<study>.md
scripts/bench plot RESULT > docs/studies/<study>.svg
"""

import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.analysis.hypotheses import CANNOT_TELL, NOT_REPRODUCED, REPRODUCED
from bench.report import results
from bench.report.report import CONNECTIONS
from bench.report.results import Row, bracketed, digits, escaped
from bench.studies import STUDIES
from bench.studies.study import Measure, Study

WORDS = {
    REPRODUCED: "are reproduced",
    NOT_REPRODUCED: "are not reproduced",
    CANNOT_TELL: "cannot be told from our data",
}
# Okabe and Ito's blue and orange (Color Universal Design, 2008).
OURS, THEIRS = "#0072b2", "#d55e00"


def page(result: Mapping[str, Any], folder: str, *others: tuple[Mapping[str, Any], str]) -> str:
    """The page in Markdown; `folder` is where the result lies, results/<date>/<machine>/<run>. `others` are results of
    the same study, with another model or of some rows again: their tables and verdicts come after. Raises ResultError.
    """
    study = _study(result)
    lines = [
        f"# {study.question}",
        f"<!-- Made by ./scripts/bench page {' '.join([folder, *(where for _, where in others)])}: change a result or"
        " the study, not this page. -->",
        *_measured(study, result, folder),
        f"![{escaped(study.question)}]({study.name}.svg)",
        *_found(study, result),
    ]
    for other, where in others:
        if _study(other) is not study:
            raise results.ResultError(f"{where} is of {other['study']}, not of {study.name}: give results of one study")
        lines += [f"## {_again(result, other)}"]
        lines += [*_measured(study, other, where), *_found(study, other)]
    if study.flaws:
        lines += ["## What was wrong with the original, and what shows it"]
        lines += ["\n".join(f"- {flaw.rstrip('.')}. Shown by: {factor.rstrip('.')}." for flaw, factor in study.flaws)]
    if study.advice:
        lines += ["## What to do", "\n".join(f"- {sentence}" for sentence in study.advice)]
    lines += ["## Run it", f"```console\n$ ./scripts/bench {study.name}\n```"]
    return "\n\n".join(lines) + "\n"


def _again(first: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """What is different in another result of the same study."""
    model, names = other["environment"]["model"]["name"], {cell["name"] for cell in other["cells"]}
    if model != first["environment"]["model"]["name"]:
        return f"The same with {model}"
    if names != {cell["name"] for cell in first["cells"]}:
        return f"Again, {' and '.join(sorted(names))} alone"
    return "Again"


def _measured(study: Study, result: Mapping[str, Any], folder: str) -> list[str]:
    """The answer, and where it is from."""
    results.check(result)
    about = f"{escaped(results.label(result))} All of it: [{folder}](../../{folder}/report.md)."
    return [" ".join(_answer(study, result, results.rows(result))), about]


def _found(study: Study, result: Mapping[str, Any]) -> list[str]:
    """Tables, marks and claims."""
    rows = results.rows(result)
    lines = []
    for measure in study.measures:
        lines.append(f"## {measure.name}")
        for title, found in _tables(study, rows).items():
            head = [title] if title else []
            lines += [*head, _table(study, measure, found, beside=measure is study.measures[0])]
    if theirs := dict.fromkeys(label for row in rows for label in study.published(row)):
        lines.append(f"In italics what was published ({', '.join(theirs)}): {study.source.rstrip('.')}.")
    lines += ["## What a call carries and costs", _costs(study, rows)]
    if any(row["marks"] for row in rows):
        marks = dict.fromkeys(
            f"- {row['name']}, {_where(study, row)}: {escaped(m)}" for row in rows for m in row["marks"]
        )
        lines += ["† no verdict may rest on this cell:", "\n".join(marks)]
    if claims := result["analysis"]["hypotheses"]:
        lines += ["## What was claimed", "\n\n".join(_claim(one) for one in claims)]
    return lines


def plot(result: Mapping[str, Any]) -> str:
    """The first measure of every row as SVG: ours with its interval, and what was published. Raises ResultError."""
    results.check(result)
    study = _study(result)
    measure = study.measures[0]
    groups = {
        (title, heading): [row for row in found if _heading(study, row) == heading]
        for title, found in _tables(study, results.rows(result)).items()
        for heading in _headings(study, found)
    }
    heights = [0.9 + 0.27 * len(found) for found in groups.values()]
    with mpl.rc_context({"svg.hashsalt": study.name, "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(8.5, sum(heights)), layout="constrained", facecolor="white")
        all_axes = figure.subplots(len(groups), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, ((title, heading), found) in zip(all_axes, groups.items(), strict=True):
            for place, row in enumerate(reversed(found)):
                if ours := measure(row):
                    low, high = ours["low"] or ours["value"], ours["high"] or ours["value"]
                    axes.plot([low, high], [place, place], color=OURS, linewidth=3, alpha=0.5)
                    axes.plot(ours["value"], place, "o", color=OURS, markersize=5)
                for value in study.published(row).values():
                    axes.plot(value, place, "D", color=THEIRS, markersize=4, fillstyle="none")
            axes.set_yticks(range(len(found)), [row["name"] for row in reversed(found)])
            axes.set_title(", ".join(filter(None, (heading, title))), loc="left", fontsize=9)
            axes.set_xscale("log")
            axes.grid(axis="x", which="both", alpha=0.2)
            axes.spines[["top", "right"]].set_visible(False)
            axes.set_ylim(-0.6, len(found) - 0.4)
        words = ", log scale. Dot and bar: ours with its 95 % interval."
        published = " Diamond: published." if any(study.published(row) for row in results.rows(result)) else ""
        all_axes[-1].set_xlabel(measure.name + words + published)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    # Matplotlib names shapes by a hash of their place, whose last bits change from run to run.
    for number, name in enumerate(dict.fromkeys(re.findall(r'id="([a-z][0-9a-f]{10})"', svg))):
        svg = svg.replace(name, f"shape{number}")
    return svg


def _study(result: Mapping[str, Any]) -> Study:
    try:
        return STUDIES[result["study"]]
    except KeyError:
        raise results.ResultError(f"{result['study']} has no page: give a result of {', '.join(STUDIES)}") from None


def _answer(study: Study, result: Mapping[str, Any], rows: Sequence[Row]) -> list[str]:
    """Three sentences: what the study says itself, how its claims came out, and which row is in front where."""
    said = study.answer(result)
    return [*([f"**{said}**"] if said else []), *_verdicts(result), *_front(study, rows)]


def _verdicts(result: Mapping[str, Any]) -> list[str]:
    claims = result["analysis"]["hypotheses"]
    if not claims:
        return []
    counted = Counter(one["verdict"] for one in claims)
    words = [f"{counted[verdict]} {WORDS[verdict]}" for verdict in WORDS if counted[verdict]]
    return [f"Of {len(claims)} published findings {', '.join(words)}."]


def _front(study: Study, rows: Sequence[Row]) -> list[str]:
    """Which row is fastest where, by the estimates."""
    measure = study.measures[0]
    first: Counter[str] = Counter()
    for found in _tables(study, rows).values():
        for heading in _headings(study, found):
            known = [(value, row) for row in found if _heading(study, row) == heading if (value := measure(row))]
            if len(known) > 1:
                less = measure.inverse or measure.of != "images_per_s"
                best = (min if less else max)(known, key=lambda pair: pair[0]["value"] or 0.0)[1]
                first[best["name"]] += 1
    if not first:
        return []
    parts = [f"{name} in {times}" for name, times in first.most_common()]
    return [f"By the estimates in front, of {first.total()} comparisons: {', '.join(parts)}."]


def _tables(study: Study, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Title -> the rows of one table: what they share besides the columns' factors."""
    tables: dict[str, list[Row]] = {}
    for row in rows:
        tables.setdefault(_shared(study, row, rows), []).append(row)
    return tables


def _shared(study: Study, row: Row, rows: Sequence[Row]) -> str:
    """In words, the factors that vary in this study and are no column of its tables."""
    names = ("gather", "users", "batch", "policy", "target", "photo", "size", "distance")
    varying = [name for name in names if name not in study.columns and len({other[name] for other in rows}) > 1]
    return ", ".join(filter(None, (_word(study, name, row) for name in varying)))


def _word(study: Study, name: str, row: Row) -> str:
    """A factor as a reader says it."""
    value = str(row[name])
    words = {
        "users": results.callers(row["users"]),
        "gather": "all at once" if row["gather"] else "each at its own pace",
        "batch": f"batch {value}",
        "policy": CONNECTIONS.get(value, value),
        "distance": value or "nothing between",
        "size": _size(study, value) or row["photo"],
        "photo": "" if row["size"] else value,
    }
    return words.get(name, value)


def _size(study: Study, size: str) -> str:
    """`100,000 values`, `1 value`; words as they are."""
    if not size.isdecimal():
        return size
    return f"{int(size):,} {study.unit.removesuffix('s') if size == '1' else study.unit}"


def _heading(study: Study, row: Row) -> str:
    return ", ".join(filter(None, dict.fromkeys(_word(study, name, row) for name in study.columns)))


def _headings(study: Study, rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(_heading(study, row) for row in rows))


def _where(study: Study, row: Row) -> str:
    return ", ".join(filter(None, (_heading(study, row), _shared(study, row, [row]))))


def _table(study: Study, measure: Measure, rows: Sequence[Row], *, beside: bool) -> str:
    """A line per row, a column per heading: `8.40 (8.21–8.57) *9.1*`, the published number in italics."""
    headings = _headings(study, rows)
    lines = [["", *headings], ["---"] + ["---:"] * len(headings)]
    for name in dict.fromkeys(row["name"] for row in rows):
        mine = {_heading(study, row): row for row in rows if row["name"] == name}
        line = [name]
        for heading in headings:
            row = mine.get(heading)
            text = bracketed(measure(row)) + (" †" if row["marks"] else "") if row else "–"
            if row and beside:
                text += "".join(f" *{digits(value)}*" for value in study.published(row).values())
            line.append(text)
        lines.append(line)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _costs(study: Study, rows: Sequence[Row]) -> str:
    """Bytes, client encode and decode, connections and CPU of every cell."""
    head = ["row", "cell", "bytes sent", "bytes received", "encode, ms", "decode, ms", "connections", "client CPU"]
    head += study.declared
    lines = [head, ["---", "---"] + ["---:"] * (len(head) - 2)]
    for row in rows:
        sent, received = (row[f"{way}_bytes_per_image"] for way in ("sent", "received"))
        times = [digits(row[name]) for name in ("encode_ms", "decode_ms")]
        cpu = "–" if row["client_cpu"] is None else f"{100 * row['client_cpu']:.0f} %"
        where = ", ".join(filter(None, (_heading(study, row), _shared(study, row, rows))))
        batch = row["batch"]
        bytes_ = [digits(None if count is None else count * batch) for count in (sent, received)]
        if (kb := study.published_kb(row)) is not None:
            bytes_[1] += f" *{digits(kb * 1024)}*"
        lines.append([row["name"], where, *bytes_, *times, digits(row["connections"]), cpu])
        lines[-1] += [f"{known[row['name']]:g}" if row["name"] in known else "–" for known in study.declared.values()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _claim(one: Mapping[str, str]) -> str:
    """The finding, our verdict, and a line per ratio that it is judged on."""
    about = f"**{one['id']}: {escaped(one['claim'])}** Published: {escaped(one['published_verdict'])}."
    cause = f" Cause: {escaped(one['cause'])}" if one["cause"] else ""
    # A semicolon in brackets is between an interval and its cell.
    found = "\n".join(f"- {escaped(ratio)}" for ratio in re.split(r"; (?![^(]*\))", one["text"].removesuffix(".")))
    return f"{about} Here: **{one['verdict']}**.{cause}\n\n{found}"
