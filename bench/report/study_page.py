"""The page of a study, docs/studies/<study>.md, and its plot: made from a result alone, so that they always agree with
it.

scripts/bench page RESULT [RESULT ...] > docs/studies/<study>.md
scripts/bench plot RESULT > docs/studies/<study>.svg
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from bench.figures import digits, share
from bench.report import markdown as md
from bench.report import plots, results
from bench.report.report import UNNUMBERED, heavy
from bench.report.results import ResultError, Row, grouped
from bench.report.tables import Entry, Table, entry, pivot
from bench.result import CPU_PARTS, Result
from bench.studies import STUDIES
from bench.studies.study import ANSWER, PER_SECOND, VERDICTS, Measure, Study, factor


def page(result: Result, folder: str, *others: tuple[Result, str]) -> str:
    """The page in Markdown; `folder` is where the result lies, results/<date>/<machine>/<run>. `others` are results of
    the same study, with another model or of some rows again: their tables and verdicts come after. Raises ResultError.
    """
    study = _study(result)
    folders = " ".join([folder, *(where for _, where in others)])
    blocks = [f"<!-- Made by ./scripts/bench page {folders}: change a result or the study, not this page. -->"]
    question = md.escaped(study.question)
    blocks += [*_answer(study, result, folder), f"![{question}]({study.name}.svg)", *_found(study, result)]
    for other, where in others:
        if _study(other) is not study:
            raise ResultError(f"{where} is of {other.study}, not of {study.name}: give results of one study")
        blocks += [f"## {_again(result, other)}", *_answer(study, other, where), *_found(study, other)]
    blocks.append(md.items(study.flaws, "## Faults of the original, and what shows them"))
    blocks.append(md.items(study.advice, "## What to do"))
    return md.page(study.question, *blocks, "## Run it", md.commands([f"$ ./scripts/bench {study.name}"]))


def plot(result: Result) -> str:
    """The first measure of every row as SVG: ours with its interval, and what was published. Raises ResultError."""
    study, rows = _study(result), results.rows(result)
    measure = study.measures[0]
    groups = {}
    for (title, heading), found in _columns(study, rows).items():
        if lines := [(row["name"], ours, _theirs(measure, row)) for row in found if (ours := measure(row.found))]:
            groups[", ".join(filter(None, (heading, title)))] = lines
    published = " Diamond: published." if any(_theirs(measure, row) for row in rows) else ""
    return plots.beside(
        groups, f"{measure.name}, log scale. Dot and bar: measured here, with the 95 % interval.{published}"
    )


def _study(result: Result) -> Study:
    if result.study not in STUDIES:
        raise ResultError(f"{result.study} has no page: give a result of {', '.join(STUDIES)}")
    return STUDIES[result.study]


def _again(first: Result, other: Result) -> str:
    """The heading for another result of the same study."""
    model, names = other.environment.model.name, {cell.name for cell in other.cells}
    if model != first.environment.model.name:
        return f"The same with {md.escaped(model)}"
    if names != {cell.name for cell in first.cells}:
        return f"Again, {md.escaped(' and '.join(sorted(names)))} alone"
    return "Again"


def _answer(study: Study, result: Result, folder: str) -> Iterator[str]:
    """The study's answer, how its claims came out, which row is fastest where, and where the numbers are from."""
    sentences = list(map(md.escaped, study.answer(result)))
    said = [f"**{' '.join(sentences[:ANSWER])}**"] if sentences else []
    said += [" ".join(sentences[ANSWER:])] if sentences[ANSWER:] else []
    if counted := Counter(str(one.verdict) for one in result.analysis.hypotheses):
        words = [f"{counted[verdict]} {verdict}" for verdict in VERDICTS if counted[verdict]]
        said.append(f"Published findings: {', '.join(words)}.")
    if first := _front(study, results.rows(result)):
        (best, most), *others = first.most_common()
        parts = [f"{best} in {most} of {first.total()} columns", *(f"{name} in {times}" for name, times in others)]
        said.append(f"Fastest by the estimates: {md.escaped(', '.join(parts))}.")
    yield "\n\n".join(said)
    yield f"{md.escaped(results.label(result))} Full report: [{folder}](../../{folder}/report.md)."


def _front(study: Study, rows: Sequence[Row]) -> Counter[str]:
    """In how many columns each row is fastest, by the estimates."""
    measure = study.measures[0]
    best = min if measure.inverse or measure.of != PER_SECOND else max
    first: Counter[str] = Counter()
    for found in _columns(study, rows).values():
        known = {row["name"]: ours.value for row in found if (ours := measure(row.found))}
        if len(known) > 1:
            first[best(known, key=known.__getitem__)] += 1
    return first


def _found(study: Study, result: Result) -> Iterator[str]:
    """Tables, marks and claims."""
    rows = results.rows(result)
    for measure in study.measures:
        yield f"## {md.escaped(measure.name)}"
        for title, found in _tables(study, rows).items():
            yield md.escaped(title)
            yield md.table(_table(study, measure, found))
    if theirs := dict.fromkeys(who for row in rows for one in study.measures for who in one.published(row.cell)):
        yield md.escaped(
            f"In italics: the published numbers ({', '.join(theirs)}). Source: {study.source.rstrip('.')}."
        )
    yield "## Bytes, connections and CPU of a call"
    yield md.table(_costs(study, rows))
    marks = (f"{row['name']}, {_heading(study, row)}: {mark}" for row in rows for mark in row["marks"])
    yield md.items(dict.fromkeys(marks), UNNUMBERED)
    yield heavy(study, rows)
    if result.analysis.hypotheses:
        yield "## Published findings"
        yield from md.claims(result.analysis.hypotheses)


def _theirs(measure: Measure, row: Row) -> list[float]:
    return list(measure.published(row.cell).values())


def _tables(study: Study, rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Title -> the rows of one table. The title names what they share besides the columns' factors."""
    return grouped(rows, lambda row: _shared(study, row, rows))


def _columns(study: Study, rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """(table, column) -> its rows, table by table."""
    by_table = chain.from_iterable(_tables(study, rows).values())
    return grouped(by_table, lambda row: (_shared(study, row, rows), _heading(study, row)))


def _shared(study: Study, row: Row, rows: Sequence[Row]) -> str:
    """In words: the factors that vary in this study and are not columns of its tables."""
    names = ("gather", "users", "batch", "policy", "target", "photo", "size", "distance")
    varying = [name for name in names if name not in study.columns and len({other[name] for other in rows}) > 1]
    return ", ".join(filter(None, (factor(study, name, row.cell) for name in varying)))


def _heading(study: Study, row: Row) -> str:
    return ", ".join(filter(None, dict.fromkeys(factor(study, name, row.cell) for name in study.columns)))


def _table(study: Study, measure: Measure, rows: Sequence[Row]) -> Table:
    """A line per row, a column per heading: ours with its interval, and the published number."""

    def cell(row: Row) -> Entry:
        return entry(measure(row.found), row, published=[digits(value) for value in _theirs(measure, row)])

    return pivot(rows, lambda row: _heading(study, row), cell)


def _costs(study: Study, rows: Sequence[Row]) -> Table:
    """Bytes, client encode and decode, connections and CPU of every cell."""
    head = ["row", "cell", "bytes sent", "bytes received", "encode, ms", "decode, ms", "connections", "client CPU"]
    parts = [part for part in CPU_PARTS if any(part in row["cpu_ms"] for row in rows)]
    lines: list[list[Entry | str]] = []
    for row in rows:
        where = ", ".join(filter(None, (_heading(study, row), _shared(study, row, rows))))
        counts = (row["sent_bytes_per_image"], row["received_bytes_per_image"])
        sent, received = (digits(None if count is None else count * row["batch"]) for count in counts)
        kb = study.published_kb(row.cell)
        theirs = Entry(received, published=() if kb is None else (digits(kb * 1024),))
        numbers = [digits(row[name]) for name in ("encode_ms", "decode_ms", "connections")]
        cpu = "–" if row["client_cpu"] is None else share(row["client_cpu"])
        spent = [str(row["cpu_ms"].get(part, "–")) for part in parts]
        known = [f"{of[row['name']]:g}" if row["name"] in of else "–" for of in study.declared.values()]
        lines.append([row["name"], where, sent, theirs, *numbers, cpu, *spent, *known])
    return Table([*head, *(f"CPU, ms/image: {part}" for part in parts), *study.declared], lines, left=2)
