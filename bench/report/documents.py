"""The parts of documents that are made from results: README's table, and the devices of docs/gpu.md."""

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
    """docs/gpu.md with the devices of the results below `root`/results: a row per result on a GPU, and a line per
    machine without one. Raises ResultError as update_readme does."""
    rows, cpus = [], dict[str, str]()
    for path in sorted(root.glob("results/*/*/*/result.json")):
        result, folder = results.load(path), path.parent.relative_to(root)
        about, day = result.environment, result.started_at[:10]
        if about.accelerator == "cpu":
            cpus[about.machine] = day  # the last one: folders are named after dates
        elif about.accelerator == "gpu":
            study = result.study if result.method == "fair" else f"{result.study}, {result.method}"
            ran = (f"{about.gpus}: {about.machine}", study, *(text or "–" for text in results.model(result)))
            rows.append([day, *ran, f"[{folder.name}](../{folder}/report.md)"])
    head = ["date", "device", "study", "model", "providers", "result"]
    devices = markdown.table(Table(head, rows, left=len(head))) if rows else "**No GPU has been measured yet.**"
    machines = markdown.items((f"{name}, last on {day}" for name, day in cpus.items()), "Measured without a GPU:")
    return _between(page, "page", DEVICES_BEGIN, DEVICES_END, "\n\n".join(filter(None, (devices, machines))))


def _between(text: str, what: str, begin: str, end: str, new: str) -> str:
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
        raise ResultError(f"the {what} needs one line {begin} and below it one line {end}: the table goes between them")
    return f"{text.partition(begin)[0]}{begin}\n{new}\n{end}{text.partition(end)[2]}"
