"""The commands of scripts/bench and their options."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import aa, truth
from bench.analysis.analysis import analyse
from bench.measure import plan
from bench.measure.environment import collect
from bench.measure.launcher import Window, launcher
from bench.measure.measured import INTERRUPTED, RUNNING, Cell, Run, Visit
from bench.measure.plan import Plan
from bench.measure.progress import Progress
from bench.measure.run import carry_out, problems
from bench.report import documents, results, study_page, summary
from bench.report import report as pages
from bench.result import Analysis
from bench.studies import STUDIES
from locustfiles import serving, settings
from locustfiles.calls import model_of
from locustfiles.clients.policy import POLICIES, POOLED
from locustfiles.payloads import photo_sizes
from locustfiles.routes import MAX_BATCH, ROUTES
from locustfiles.study_routes import WAYS
from locustfiles.study_routes.fiveway import BATCHES, CONCURRENCY
from locustfiles.study_routes.fiveway import ROWS as FIVEWAY

AA = "aa"
_WHICH = "which routes; default: those of the five that make sense for the served model"


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="scripts/bench", description="Measure, judge and keep.")
    studies = top.add_subparsers(title="studies", required=True, metavar="STUDY")

    one = studies.add_parser("fiveway", help="the 5-way comparison", formatter_class=_Defaults)
    one.add_argument("--quick", action="store_true", help="fewer cells, shorter: a useful table in under 5 minutes")
    one.add_argument("--routes", type=_names, metavar="A,B", help=_WHICH)
    one.add_argument("--batches", type=_numbers, metavar="N,N", help="images per request, with one user")
    one.add_argument("--concurrency", type=_numbers, metavar="N,N", help="users at once, at batch 1")
    one.add_argument("--photo", default=photo_sizes()[0], help=f"size of the photos: {', '.join(photo_sizes())}")
    one.add_argument("--policy", type=_names, default=[POOLED], metavar="P,P", help=f"{', '.join(POLICIES)}")
    one.add_argument(
        "--rate", type=float, help="open loop: requests per second; --concurrency is then the most at once"
    )
    one.add_argument(
        "--method", choices=[plan.FAIR, plan.PUBLISHED_METHOD], default=plan.FAIR, help="published: as the study did"
    )
    one.add_argument("--price-per-hour", type=float, metavar="X", help="adds the cost per million images")
    _distances(one, "the profile `transport` has the proxy")
    _common(one)
    one.set_defaults(run=fiveway)

    for study in STUDIES.values():
        if study.name == "fiveway":  # with options of its own, above
            continue
        command = studies.add_parser(study.name, help=study.question, formatter_class=_Defaults)
        command.add_argument("--quick", action="store_true", help="fewer cells, shorter: to see that it works")
        command.add_argument(
            "--routes", type=_names, metavar="A,B", help=f"which rows; default: all of {', '.join(study.routes)}"
        )
        command.add_argument(
            "--policy", type=_names, metavar="P,P", help=f"instead of the study's: {', '.join(POLICIES)}"
        )
        _distances(command, "instead of the study's")
        _common(command)
        command.set_defaults(run=of_study, study=study.name, target=None)

    two = studies.add_parser("aa", help="one route against itself under two names", formatter_class=_Defaults)
    two.add_argument("--route", default="onnx-http", help="which route")
    two.add_argument("--runs", type=int, default=20, help="quick runs in a row")
    two.add_argument("--batches", type=_numbers, default=[1], metavar="N,N", help="images per request, with one user")
    two.add_argument("--concurrency", type=_numbers, default=[8], metavar="N,N", help="users at once, at batch 1")
    _common(two)
    two.set_defaults(run=against_itself)

    three = studies.add_parser("truth", help="the same cells by wrk and a raw gRPC client", formatter_class=_Defaults)
    three.add_argument("--routes", type=_names, metavar="A,B", help=_WHICH)
    three.add_argument("--concurrency", type=_numbers, default=list(CONCURRENCY), metavar="N,N", help="users at once")
    _common(three)
    three.set_defaults(run=cross_check)

    again = studies.add_parser("report", help="judge a result again and write its pages again")
    again.add_argument("result", type=Path)
    again.add_argument("--price-per-hour", type=float, metavar="X")
    again.set_defaults(run=report)

    table = studies.add_parser("readme", help="the README from stdin, with its table made from a result, to stdout")
    table.add_argument("result", type=Path)
    table.set_defaults(run=readme)

    made = studies.add_parser("page", help="docs/studies/<study>.md, made from a result, to stdout")
    made.add_argument("result", type=Path)
    made.add_argument("other", type=Path, nargs="*", help="of the same study with another model")
    made.set_defaults(run=page)

    drawn = studies.add_parser("plot", help="docs/studies/<study>.svg, made from a result, to stdout")
    drawn.add_argument("result", type=Path)
    drawn.set_defaults(run=plot)

    where = studies.add_parser(
        "devices", help="docs/gpu.md from stdin, with its table made from every result, to stdout"
    )
    where.set_defaults(run=devices)
    return top


class _Defaults(argparse.ArgumentDefaultsHelpFormatter):
    pass


def _common(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--target",
        type=_names,
        default=[settings.EDGE],
        metavar="T,T",
        help="edge, direct, or http://host:port of an edge elsewhere; a study has its own",
    )
    command.add_argument("--host", default="http://edge:8080", help="the edge of this stack")
    command.add_argument("--blocks", type=int, help="how often each cell is visited (at least 3 for a verdict)")
    command.add_argument("--seconds", type=float, help="length of each visit at batch 1; twice as long at batch 32")
    command.add_argument("--seed", type=int, default=1, help="of the order of the visits and of open-loop schedules")
    command.add_argument("--results", type=Path, default=Path("/results"), help=argparse.SUPPRESS)


def _distances(command: argparse.ArgumentParser, more: str) -> None:
    command.add_argument(
        "--distance",
        type=_names,
        metavar="D,D",
        help=f"round trip and bandwidth between client and edge, like 0ms-100mbit,150ms-100mbit; {more}",
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in _names(text)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers like 1,8,16") from None


def fiveway(options: argparse.Namespace) -> int:
    routes = options.routes or settings.fit(FIVEWAY, serving.now())
    batches = options.batches
    if batches is None:
        largest = largest_batch(routes[0], options) if routes else 1
        batches = [batch for batch in (plan.QUICK_BATCHES if options.quick else BATCHES) if batch <= largest]
    concurrency = options.concurrency if options.concurrency is not None else CONCURRENCY
    cells = []
    for target in options.target:
        for policy in options.policy:
            for route in routes:
                base = Cell(route, route, policy=policy, target=target, photo=options.photo, rate=options.rate)
                for distance in options.distance or [""]:
                    cells += plan.matrix(replace(base, distance=distance), batches, concurrency)
    check(cells, options)
    if options.method == plan.PUBLISHED_METHOD:
        return measure(plan.published(cells, options.seed), options)
    blocks, window = plan.QUICK_BLOCKS if options.quick else plan.FULL_BLOCKS, _window(options, options.quick)
    return measure(Plan("fiveway", tuple(cells), options.blocks or blocks, window, options.seed), options)


def of_study(options: argparse.Namespace) -> int:
    """Any study of bench/studies."""
    study = STUDIES[options.study]
    cells = list(study.cells(options.quick))
    if options.routes:
        if unknown := [name for name in options.routes if name not in study.routes]:
            raise settings.BadSetting(f"{study.name} has no {unknown[0]}: choose from {', '.join(study.routes)}")
        cells = [cell for cell in cells if cell.route in options.routes]
    for name, values in (("policy", options.policy), ("distance", options.distance), ("target", options.target)):
        if values:
            cells = list(dict.fromkeys(replace(cell, **{name: value}) for cell in cells for value in values))
    options.target = list(dict.fromkeys(cell.target for cell in cells))
    check(cells, options)
    seconds = study.seconds / (3 if options.quick else 1)
    warm_s = study.warm_s / (2 if options.quick else 1)
    blocks = options.blocks or (plan.QUICK_BLOCKS if options.quick else study.blocks)

    def window(cell: Cell) -> Window:
        return Window(options.seconds or max(seconds, study.least(cell)), warm_s)

    return measure(Plan(study.name, tuple(cells), blocks, window, options.seed), options)


def against_itself(options: argparse.Namespace) -> int:
    cells = aa.cells(options.route, options.batches, options.concurrency, options.target)
    check(cells, options)
    window = _window(options, quick=True)
    blocks = options.runs * (options.blocks or plan.QUICK_BLOCKS)
    return measure(Plan(AA, tuple(cells), blocks, window, options.seed), options)


def largest_batch(route: str, options: argparse.Namespace) -> int:
    """The most items in one request that the served model takes; raises BadSetting, CallError, OSError."""
    chosen = settings.parse(
        {"batch": 1, "photo": photo_sizes()[0], "target": options.target[0], "policy": POOLED, "host": options.host},
        [route],
    )
    return MAX_BATCH if chosen.serving.images else model_of(ROUTES[route], chosen).largest


def check(cells: Sequence[Cell], options: argparse.Namespace) -> None:
    """Refuse what cannot be run, before anything runs; raises BadSetting, and CallError where the model is unknown."""
    if not cells:
        raise settings.BadSetting("nothing to measure: name at least one route, and one batch or concurrency")
    for cell in cells:
        chosen = {name: getattr(cell, name) for name in ("batch", "photo", "target", "policy", "size", "distance")}
        parsed = settings.parse(chosen | {"host": options.host}, [cell.route])
        if not parsed.serving.images and not WAYS[cell.route].modelless:
            model_of(WAYS[cell.route], parsed)
        if cell.users < 1:
            raise settings.BadSetting(f"concurrency {cell.users}: choose 1 or more users")
    for name in ("blocks", "seconds", "rate", "runs", "price_per_hour"):
        value = getattr(options, name, None)
        if value is not None and value <= 0:
            raise settings.BadSetting(f"--{name.replace('_', '-')} {value:g}: choose more than 0")


def measure(chosen: Plan, options: argparse.Namespace) -> int:
    """Carry the plan out, keep it, say what came out."""
    price = getattr(options, "price_per_hour", None)
    environment = collect(vars(options))
    folder = new_folder(
        options.results, environment, chosen.study if chosen.method == plan.FAIR else f"{chosen.study}-published"
    )
    steps = chosen.blocks * len(chosen.cells)

    def save(run: Run) -> None:
        pages.write(folder, run, judged(run, price), pages=run.ended != RUNNING)

    with launcher(options.host, options.seed) as load, Progress(steps) as progress:
        minutes = chosen.seconds / 60
        progress.say(f"{len(chosen.cells)} cells x {chosen.blocks} blocks, about {minutes:.0f} min")
        progress.say("Ctrl-C keeps what was measured")
        run = carry_out(chosen, load, environment, _as_text(options), progress, save)
    summary.show(results.load(folder))
    print(f"\n{shown(folder / 'report.html')}")
    wrong = problems(run)
    for line in wrong:
        print(f"fiveway: {line}", file=sys.stderr)
    if run.ended == INTERRUPTED:
        return truth.INTERRUPTED_STATUS
    return 1 if wrong else 0


def judged(run: Run, price_per_hour: float | None) -> Analysis:
    """The analysis of a run; of an A/A run, that of its quick runs too."""
    found = analyse(run, price_per_hour=price_per_hour)
    if run.study == AA:
        found.quick_runs = aa.judge(run, run.options["blocks"] or plan.QUICK_BLOCKS)
    return found


def cross_check(options: argparse.Namespace) -> int:
    cells = [
        Cell(route, route, users=users, target=target)
        for target in options.target
        for route in options.routes or settings.fit(FIVEWAY, serving.now())
        for users in options.concurrency
    ]
    check(cells, options)
    window = _window(options, quick=False)
    environment = collect(vars(options))
    folder = new_folder(options.results, environment, "truth")
    blocks = options.blocks or plan.FULL_BLOCKS
    with launcher(options.host, options.seed) as load, Progress(2 * blocks * len(cells)) as progress:

        def visit(cell: Cell, block: int) -> Visit:
            return load.visit(cell, window(cell), block, 0)

        rows = truth.cross_check(
            cells,
            visit,
            blocks=blocks,
            seconds=options.seconds or plan.FULL_WINDOW.seconds,
            host=options.host,
            seed=options.seed,
            progress=progress,
        )
    return truth.keep(folder, rows, environment, _as_text(options))


def report(options: argparse.Namespace) -> int:
    run = results.load(options.result).run
    folder = options.result if options.result.is_dir() else options.result.parent
    pages.write(folder, run, judged(run, options.price_per_hour))
    print(shown(folder / "report.html"))
    return 0


def readme(options: argparse.Namespace) -> int:
    result = results.load(options.result)
    print(documents.update_readme(sys.stdin.read(), result, str(options.result)), end="")
    return 0


def page(options: argparse.Namespace) -> int:
    first, *others = ((results.load(path), str(path)) for path in (options.result, *options.other))
    print(study_page.page(*first, *others), end="")
    return 0


def plot(options: argparse.Namespace) -> int:
    print(study_page.plot(results.load(options.result)), end="")
    return 0


def devices(_: argparse.Namespace) -> int:
    print(documents.update_devices(sys.stdin.read(), Path("/")), end="")
    return 0


def new_folder(results_folder: Path, environment: dict[str, Any], name: str) -> Path:
    """results/<date>/<machine>/<name>-<time>."""
    now = datetime.now(UTC)
    return results_folder / now.strftime("%Y-%m-%d") / environment["machine"] / f"{name}-{now.strftime('%H%M%S')}"


def shown(path: Path) -> str:
    """A path in here as the user knows it: /results in the container is results in the checkout."""
    return str(path).removeprefix("/")


def _window(options: argparse.Namespace, quick: bool) -> Callable[[Cell], Window]:
    window = plan.QUICK_WINDOW if quick else plan.FULL_WINDOW
    if options.seconds:
        window = replace(window, seconds=options.seconds)
    return lambda cell: plan.scaled(window, cell.batch)


def _as_text(options: argparse.Namespace) -> dict[str, Any]:
    """The options as they were given, for the result."""
    return {name: value for name, value in vars(options).items() if name not in ("run", "results", "study")}
