"""The page of a study, docs/studies/<study>.md, and its plot: made of a result alone, so that they cannot drift.

scripts/bench page RESULT [RESULT ...] > docs/studies/<study>.md
scripts/bench plot RESULT > docs/studies/<study>.svg
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from bench.report import plots, render, results
from bench.report.model import Block, Claims, Code, Entry, Heading, Items, Page, Picture, Table, Text, entry, pivot
from bench.report.report import CONNECTIONS
from bench.report.results import ResultError, Row, callers, digits
from bench.result import Result
from bench.studies import STUDIES
from bench.studies.study import CANNOT_TELL, NOT_REPRODUCED, REPRODUCED, Measure, Study

WORDS = {
    REPRODUCED: "are reproduced",
    NOT_REPRODUCED: "are not reproduced",
    CANNOT_TELL: "cannot be told from our data",
}


def page(result: Result, folder: str, *others: tuple[Result, str]) -> str:
    """The page in Markdown; `folder` is where the result lies, results/<date>/<machine>/<run>. `others` are results of
    the same study, with another model or of some rows again: their tables and verdicts come after. Raises ResultError.
    """
    study = _study(result)
    made = Page(
        study.question,
        made_by=f"Made by ./scripts/bench page {' '.join([folder, *(where for _, where in others)])}: change a result"
        " or the study, not this page.",
    )
    made.add(*_measured(study, result, folder), Picture(study.question, file=f"{study.name}.svg"))
    made.add(*_found(study, result))
    for other, where in others:
        if _study(other) is not study:
            raise ResultError(f"{where} is of {other.study}, not of {study.name}: give results of one study")
        made.add(Heading(_again(result, other)), *_measured(study, other, where), *_found(study, other))
    if study.flaws:
        made.add(Items(study.flaws, "What was wrong with the original, and what shows it"))
    if study.advice:
        made.add(Items(study.advice, "What to do"))
    made.add(Heading("Run it"), Code([f"$ ./scripts/bench {study.name}"]))
    return render.markdown(made)


def plot(result: Result) -> str:
    """The first measure of every row as SVG: ours with its interval, and what was published. Raises ResultError."""
    study, rows = _study(result), results.rows(result)
    measure = study.measures[0]
    groups = {
        ", ".join(filter(None, (heading, title))): [
            (row["name"], measure(row.found), _theirs(measure, row).values()) for row in found if measure(row.found)
        ]
        for (title, heading), found in _columns(study, rows)
    }
    published = " Diamond: published." if any(_theirs(measure, row) for row in rows) else ""
    axis = f"{measure.name}, log scale. Dot and bar: ours with its 95 % interval.{published}"
    return plots.beside({title: lines for title, lines in groups.items() if lines}, axis)


def _again(first: Result, other: Result) -> str:
    """What is different in another result of the same study."""
    model, names = other.environment.model.name, {cell.name for cell in other.cells}
    if model != first.environment.model.name:
        return f"The same with {model}"
    if names != {cell.name for cell in first.cells}:
        return f"Again, {' and '.join(sorted(names))} alone"
    return "Again"


def _measured(study: Study, result: Result, folder: str) -> list[Block]:
    """The answer (what the study says itself, how its claims came out, which row is in front where), and its source."""
    counted: Counter[str] = Counter(one.verdict for one in result.analysis.hypotheses)
    said = []
    if counted:
        words = [f"{counted[verdict]} {WORDS[verdict]}" for verdict in WORDS if counted[verdict]]
        said.append(f"Of {counted.total()} published findings {', '.join(words)}.")
    said += _front(study, results.rows(result))
    return [
        Text(" ".join(said), study.answer(result)),
        Text(f"{results.label(result)} All of it:", link=(folder, f"../../{folder}/report.md")),
    ]


def _found(study: Study, result: Result) -> Iterable[Block]:
    """Tables, marks and claims."""
    rows = results.rows(result)
    for measure in study.measures:
        yield Heading(measure.name)
        for title, found in _tables(study, rows).items():
            if title:
                yield Text(title)
            yield _table(study, measure, found)
    if theirs := dict.fromkeys(source for row in rows for one in study.measures for source in _theirs(one, row)):
        yield Text(f"In italics what was published ({', '.join(theirs)}): {study.source.rstrip('.')}.")
    yield replace(_costs(study, rows), caption="What a call carries and costs")
    if marks := dict.fromkeys(
        f"{row['name']}, {_heading(study, row)}: {mark}" for row in rows for mark in row["marks"]
    ):
        yield Items(list(marks), "† no verdict may rest on this cell:")
    if result.analysis.hypotheses:
        yield Heading("What was claimed")
        yield Claims(result.analysis.hypotheses)


def _theirs(measure: Measure, row: Row) -> dict[str, float]:
    return dict(measure.published(results.factors(row)))


def _study(result: Result) -> Study:
    if result.study not in STUDIES:
        raise ResultError(f"{result.study} has no page: give a result of {', '.join(STUDIES)}")
    return STUDIES[result.study]


def _front(study: Study, rows: Sequence[Row]) -> list[str]:
    """Which row is fastest where, by the estimates."""
    measure = study.measures[0]
    first: Counter[str] = Counter()
    best = min if measure.inverse or measure.of != "images_per_s" else max
    for _, found in _columns(study, rows):
        known = [(value.value, row["name"]) for row in found if (value := measure(row.found))]
        if len(known) > 1:
            first[best(known, key=lambda pair: pair[0])[1]] += 1
    parts = [f"{name} in {times}" for name, times in first.most_common()]
    return [f"By the estimates in front, of {first.total()} comparisons: {', '.join(parts)}."] if parts else []


def _tables(study: Study, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Title -> the rows of one table: what they share besides the columns' factors."""
    tables: dict[str, list[Row]] = {}
    for row in rows:
        tables.setdefault(_shared(study, row, rows), []).append(row)
    return tables


def _columns(study: Study, rows: Sequence[Row]) -> list[tuple[tuple[str, str], list[Row]]]:
    """((table, column), its rows), table by table."""
    columns: dict[tuple[str, str], list[Row]] = {}
    for title, found in _tables(study, rows).items():
        for row in found:
            columns.setdefault((title, _heading(study, row)), []).append(row)
    return list(columns.items())


def _shared(study: Study, row: Row, rows: Sequence[Row]) -> str:
    """In words, the factors that vary in this study and are no column of its tables."""
    names = ("gather", "users", "batch", "policy", "target", "photo", "size", "distance")
    varying = [name for name in names if name not in study.columns and len({other[name] for other in rows}) > 1]
    return ", ".join(filter(None, (_word(study, name, row) for name in varying)))


def _word(study: Study, name: str, row: Row) -> str:
    """A factor as a reader says it."""
    value = str(row[name])
    words = {
        "users": callers(row["users"]),
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


def _table(study: Study, measure: Measure, rows: Sequence[Row]) -> Table:
    """A line per row, a column per heading: ours with its interval, and the published number."""

    def cell(row: Row) -> Entry:
        published = tuple(digits(value) for value in _theirs(measure, row).values())
        return replace(entry(measure(row.found), row), published=published)

    return pivot(rows, lambda row: _heading(study, row), cell)


def _costs(study: Study, rows: Sequence[Row]) -> Table:
    """Bytes, client encode and decode, connections and CPU of every cell."""
    head = ["row", "cell", "bytes sent", "bytes received", "encode, ms", "decode, ms", "connections", "client CPU"]
    lines: list[list[Entry | str]] = []
    for row in rows:
        per_image = (row[f"{way}_bytes_per_image"] for way in ("sent", "received"))
        sent, received = (digits(None if count is None else count * row["batch"]) for count in per_image)
        kb = study.published_kb(results.factors(row))
        cpu = "–" if row["client_cpu"] is None else f"{100 * row['client_cpu']:.0f} %"
        numbers = [digits(row[name]) for name in ("encode_ms", "decode_ms", "connections")]
        known = [str(f"{of[row['name']]:g}") if row["name"] in of else "–" for of in study.declared.values()]
        theirs = Entry(received, published=() if kb is None else (digits(kb * 1024),))
        where = ", ".join(filter(None, (_heading(study, row), _shared(study, row, rows))))
        lines.append([row["name"], where, sent, theirs, *numbers, cpu, *known])
    return Table([*head, *study.declared], lines, left=2)
