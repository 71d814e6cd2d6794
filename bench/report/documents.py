"""The tables of documents that are made of results: README's, and the one of docs/gpu.md."""

from pathlib import Path

from bench.report import markdown, report, results
from bench.report.results import ResultError
from bench.report.tables import Table
from bench.result import Result

BEGIN, END = "<!-- fiveway table -->", "<!-- /fiveway table -->"
DEVICES_BEGIN, DEVICES_END = "<!-- devices table -->", "<!-- /devices table -->"


def update_readme(readme: str, result: Result, folder: str) -> str:
    """`readme` with the table between its markers; raises ResultError when it has not exactly one pair of them."""
    return _between(readme, "README", BEGIN, END, report.readme_table(result, folder))


def update_devices(page: str, root: Path) -> str:
    """docs/gpu.md with a row for every result below `root`/results; raises ResultError as update_readme does."""
    lines = []
    for path in sorted(root.glob("results/*/*/*/result.json")):
        result, folder = results.load(path), path.parent.relative_to(root)
        study = result.study if result.method == "fair" else f"{result.study}, {result.method}"
        about = [
            f"{result.environment.gpus}: {result.environment.machine}",
            study,
            *(text or "–" for text in results.model(result)),
        ]
        lines.append([result.started_at[:10], *about, f"[{folder.name}](../{folder}/report.md)"])
    head = ["date", "device", "study", "model", "providers", "result"]
    return _between(page, "page", DEVICES_BEGIN, DEVICES_END, markdown.table(Table(head, lines, left=len(head))))


def _between(text: str, what: str, begin: str, end: str, new: str) -> str:
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
        raise ResultError(f"the {what} needs one line {begin} and below it one line {end}: the table goes between them")
    return f"{text.partition(begin)[0]}{begin}\n{new}\n{end}{text.partition(end)[2]}"
