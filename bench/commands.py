"""The commands of scripts/bench and their options."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from bench import aa, endpoint, explain, truth
from bench.analysis.analysis import analyse
from bench.measure import plan
from bench.measure.cells import parsed_settings
from bench.measure.environment import collect
from bench.measure.launcher import Launcher, Window
from bench.measure.measured import INTERRUPTED, RUNNING, Cell, Run, Visit
from bench.measure.plan import Plan
from bench.measure.progress import Progress
from bench.measure.run import carry_out, problems
from bench.report import documents, performance, results, study_page, summary
from bench.report import report as pages
from bench.result import Analysis
from bench.studies import STUDIES
from bench.studies.endpoint import matrix
from bench.studies.fiveway import QUICK_BATCHES, QUICK_CONCURRENCY
from bench.studies.study import cross
from locustfiles import serving, settings
from locustfiles.calls import model_of
from locustfiles.clients.policy import POLICIES, POOLED
from locustfiles.payloads import photo_sizes
from locustfiles.routes import MAX_BATCH
from locustfiles.study_routes import STUDY_ROUTES, WAYS
from locustfiles.study_routes.clients import ASKED_BY
from locustfiles.study_routes.clients import CLIENTS as CLIENT_NAMES
from locustfiles.study_routes.fiveway import BATCHES, CONCURRENCY, FIVE
from locustfiles.study_routes.fiveway import ROWS as FIVEWAY_ROWS

AA, ENDPOINT, FIVEWAY = "aa", "endpoint", "fiveway"
TARGET_HELP = (
    "where to send requests: edge, direct (past Envoy), or another edge, http://host:port or https://host:port"
)
DISTANCE_HELP = (
    "added latency and bandwidth between client and edge instead of the study's, like 0ms-100mbit,150ms-100mbit;"
    " needs the profile `transport`"
)
LIGHT = "light"
CLIENT_HELP = (
    f"client libraries instead of the study's, each for the routes whose protocol it speaks: {LIGHT} (this project's),"
    f" {', '.join(CLIENT_NAMES)}"
)
PRICE_HELP = "price of the serving machine, in any currency; adds the cost per million images"
RESULT_HELP = "folder of a run, or its result.json"


def parsers() -> tuple[argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]]:
    """Of a whole command line, and of each command by its name."""
    top = argparse.ArgumentParser(
        prog="scripts/bench", description="Measure a study on the running stack and write its report."
    )
    commands = top.add_subparsers(title="studies", required=True, metavar="STUDY", dest="command")
    _studies(commands)
    _checks(commands)
    _views(commands)
    return top, commands.choices


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options of a command line; one that the command does not know ends the program with those that it knows."""
    top, commands = parsers()
    options, unknown = top.parse_known_args(arguments)
    if unknown:
        command = commands[options.command]
        known = [action for action in command._actions if action.option_strings and action.help != argparse.SUPPRESS]
        choices = ", ".join(action.option_strings[-1] for action in known)
        command.error(f"unknown {' '.join(unknown)}: choose from {choices}")
    return options


type _Commands = argparse._SubParsersAction[argparse.ArgumentParser]


class _Defaults(argparse.ArgumentDefaultsHelpFormatter):
    """Adds the default to an option's help."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return super()._get_help_string(action) if action.default else action.help


def _studies(commands: _Commands) -> None:
    """A command per study; the 5-way comparison has a matrix, a load and a method to choose besides, and `endpoint` the
    address of a server."""
    for name, study in STUDIES.items():
        if name == ENDPOINT:
            continue
        command = _command(commands, name, study.question, fiveway if name == FIVEWAY else of_study)
        command.set_defaults(study=name, target=None)
        command.add_argument("--quick", action="store_true", help="fewer and shorter cells, to see that it works")
        rows = f"rows to measure; default: those that the model supports, of {', '.join(STUDY_ROUTES[name])}"
        command.add_argument("--routes", type=_names, metavar="A,B", help=rows)
        policies = f"connection policies instead of the study's: {', '.join(POLICIES)}"
        command.add_argument("--policy", type=_names, metavar="P,P", help=policies)
        command.add_argument("--distance", type=_names, metavar="D,D", help=DISTANCE_HELP)
        command.add_argument("--client", type=_names, metavar="C,C", help=CLIENT_HELP)
        if name == FIVEWAY:
            _matrix(command)
            command.add_argument(
                "--photo", default=photo_sizes()[0], help=f"size of the photos: {', '.join(photo_sizes())}"
            )
            command.add_argument(
                "--rate", type=float, help="open loop: requests per second, with at most --concurrency in flight"
            )
            method = "published: as the published study did, without verdicts"
            command.add_argument("--method", choices=[plan.FAIR, plan.PUBLISHED_METHOD], default=plan.FAIR, help=method)
            command.add_argument("--price-per-hour", type=float, metavar="X", help=PRICE_HELP)
    command = _command(
        commands, ENDPOINT, "gRPC or HTTP for a model of any server of the protocol KServe v2", of_endpoint
    )
    endpoint.arguments(command)
    command.add_argument("--quick", action="store_true", help="fewer and shorter cells, to see that it works")
    calls = "the most calls of the whole run, warm-ups not counted"
    command.add_argument("--calls", type=int, default=100_000, metavar="N", help=calls)
    _matrix(command)
    command = commands.add_parser("explain", help="where the time of a call to any such server goes (scripts/explain)")
    command.set_defaults(run=explain.run)
    endpoint.arguments(command)


def _checks(commands: _Commands) -> None:
    """How the instrument itself is checked."""
    same = _command(
        commands, AA, "measure one route against itself: the result should be no difference", against_itself
    )
    same.add_argument("--route", default="onnx-http", help="route to measure")
    same.add_argument("--runs", type=int, default=20, help="number of quick runs")
    _matrix(same, batches=[1], concurrency=[8])
    other = _command(
        commands, truth.STUDY, "measure the same cells with wrk and a raw gRPC client, to check Locust", cross_check
    )
    other.add_argument(
        "--routes",
        type=_names,
        metavar="A,B",
        help="routes to measure; default: those of the 5-way comparison that the model supports",
    )
    other.add_argument("--concurrency", type=_numbers, default=list(CONCURRENCY), metavar="N,N", help="callers at once")


def _views(commands: _Commands) -> None:
    """Documents made from results: `report` writes beside its result, the others to stdout."""
    command = commands.add_parser("report", help="judge a result again and rewrite its report")
    command.set_defaults(run=report)
    command.add_argument("result", type=Path, help=RESULT_HELP)
    command.add_argument("--price-per-hour", type=float, metavar="X", help=PRICE_HELP)
    for name, text, view in (
        ("readme", "print the README (from stdin) with its table made from a result", readme),
        ("page", "print docs/studies/<study>.md made from a result", page),
        ("plot", "print docs/studies/<study>.svg made from a result", plot),
        ("devices", "print docs/gpu.md (from stdin) with its table made from every result", devices),
        ("performance", "print docs/performance.md made from results and a budgets.json", goals),
    ):
        command = commands.add_parser(name, help=text)
        command.set_defaults(run=partial(put_out, view))
        if name != "devices":
            several = "+" if name == "performance" else None
            command.add_argument("result", type=Path, nargs=several, help=RESULT_HELP)
        if name == "page":
            command.add_argument("other", type=Path, nargs="*", help="results of the same study with another model")


def _command(
    commands: _Commands, name: str, text: str, run: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """A command that measures, with the options that all of these have."""
    command = commands.add_parser(name, help=text, formatter_class=_Defaults)
    command.set_defaults(run=run)
    command.set_defaults(target=[settings.EDGE], host="http://edge:8080")
    if name != ENDPOINT:
        command.add_argument("--target", type=_names, metavar="T,T", help=TARGET_HELP)
        command.add_argument("--host", help="address of this stack's edge")
    command.add_argument("--blocks", type=int, help="visits to each cell; a verdict needs at least 3")
    command.add_argument("--seconds", type=float, help="length of a visit; longer for more callers and larger batches")
    command.add_argument("--seed", type=int, default=1, help="seed of the order of visits and of open-loop schedules")
    command.add_argument("--results", type=Path, default=Path("/results"), help=argparse.SUPPRESS)
    return command


def _matrix(
    command: argparse.ArgumentParser, batches: Sequence[int] | None = None, concurrency: Sequence[int] | None = None
) -> None:
    images, users = "images per request, with one caller", "callers at once, at batch 1"
    command.add_argument("--batches", type=_numbers, default=batches, metavar="N,N", help=images)
    command.add_argument("--concurrency", type=_numbers, default=concurrency, metavar="N,N", help=users)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in _names(text)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers like 1,8,16") from None


def fiveway(options: argparse.Namespace) -> int:
    """The 5-way comparison, whose matrix the command line chooses, by a fair or by the published method."""
    # The published method's client is grpcio in every row.
    rows = FIVE if options.method == plan.PUBLISHED_METHOD else FIVEWAY_ROWS
    routes = options.routes or settings.fit(rows, serving.now())
    options.target, options.policy = options.target or [settings.EDGE], options.policy or [POOLED]
    batches = options.batches
    if batches is None:
        largest = largest_batch(routes[0], options) if routes else 1
        batches = [batch for batch in (QUICK_BATCHES if options.quick else BATCHES) if batch <= largest]
    concurrency = options.concurrency
    if concurrency is None:
        concurrency = QUICK_CONCURRENCY if options.quick else CONCURRENCY
    factors = {"target": options.target, "policy": options.policy, "route": routes}
    factors["distance"] = options.distance or [""]
    bases = cross(Cell("", "", photo=options.photo, rate=options.rate), **factors)
    cells = asked_by([cell for base in bases for cell in plan.matrix(base, batches, concurrency)], options.client)
    check(cells, options)
    if options.method == plan.PUBLISHED_METHOD:
        return measure(plan.published(cells, options.seed), options)
    blocks, window = plan.QUICK_BLOCKS if options.quick else plan.FULL_BLOCKS, _window(options, options.quick)
    return measure(Plan(FIVEWAY, tuple(cells), options.blocks or blocks, window, options.seed), options)


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
    cells = asked_by(cells, options.client)
    options.target = list(dict.fromkeys(cell.target for cell in cells))
    check(cells, options)
    # The quick form takes a sixth of the seconds, and a quarter of the warm-up.
    seconds, warm_s, blocks = study.seconds, study.warm_s, study.blocks
    if options.quick:
        seconds, warm_s, blocks = seconds / 6, warm_s / 4, plan.QUICK_BLOCKS

    def window(cell: Cell) -> Window:
        visit_s = max(seconds, study.least(cell))
        if study.turns and not options.seconds:
            return replace(plan.in_turns(visit_s, cell), warm_s=warm_s)
        return Window(options.seconds or visit_s, warm_s)

    blocks = options.blocks or blocks
    return measure(Plan(study.name, tuple(cells), blocks, window, options.seed, together=study.together), options)


def of_endpoint(options: argparse.Namespace) -> int:
    """A server that is not the stack's."""
    routes, study = endpoint.stand_in(options), STUDIES[ENDPOINT]
    options.target = [settings.DIRECT]
    largest = largest_batch(routes[0], options)
    usual = study.cells(options.quick)
    batches = options.batches or sorted({cell.batch for cell in usual if cell.batch <= largest})
    cells = matrix(routes, batches, options.concurrency or sorted({cell.users for cell in usual}))
    check(cells, options)
    options.target = [options.url]
    blocks = options.blocks or (plan.QUICK_BLOCKS if options.quick else study.blocks)
    window = _window(options, options.quick)
    return measure(Plan(ENDPOINT, tuple(cells), blocks, window, options.seed, most_calls=options.calls), options)


def against_itself(options: argparse.Namespace) -> int:
    cells = aa.cells(options.route, options.batches, options.concurrency, options.target)
    check(cells, options)
    window = _window(options, quick=True)
    options.blocks = options.blocks or plan.QUICK_BLOCKS
    return measure(Plan(AA, tuple(cells), options.runs * options.blocks, window, options.seed), options)


def largest_batch(route: str, options: argparse.Namespace) -> int:
    """The largest batch that the served model takes; raises BadSetting, CallError, OSError."""
    chosen = parsed_settings(Cell(route, route, target=options.target[0]), options.host)
    return MAX_BATCH if chosen.serving.images else model_of(WAYS[route], chosen).largest


def asked_by(cells: Sequence[Cell], clients: Sequence[str] | None) -> list[Cell]:
    """The cells of each route, by those of the clients that speak its protocol; as they are where none does. Raises
    BadSetting."""
    if unknown := [client for client in clients or () if client not in (LIGHT, *CLIENT_NAMES)]:
        raise settings.BadSetting(f"there is no client {unknown[0]}: choose from {LIGHT}, {', '.join(CLIENT_NAMES)}")
    found: list[Cell] = []
    for cell in cells:
        known = {LIGHT: WAYS[cell.route], **ASKED_BY.get(cell.route, {})}
        rows = [known[client].name for client in clients or () if client in known] or [cell.name]
        found += [replace(cell, name=name, route=name) for name in rows]
    return list(dict.fromkeys(found))


def check(cells: Sequence[Cell], options: argparse.Namespace) -> None:
    """Refuse what cannot be run, before anything runs; raises BadSetting, and CallError where the model is unknown."""
    if not cells:
        raise settings.BadSetting("nothing to measure: give at least one route, and one batch or concurrency")
    for cell in cells:
        parsed = parsed_settings(cell, options.host)
        if not parsed.serving.images and not WAYS[cell.route].modelless:
            model_of(WAYS[cell.route], parsed)
        if cell.users < 1:
            raise settings.BadSetting(f"concurrency {cell.users}: choose 1 or more users")
    for name in ("blocks", "seconds", "rate", "runs", "price_per_hour", "calls"):
        value = getattr(options, name, None)
        if value is not None and value <= 0:
            raise settings.BadSetting(f"--{name.replace('_', '-')} {value:g}: choose more than 0")


def measure(chosen: Plan, options: argparse.Namespace) -> int:
    """Carry the plan out, keep it, say what came out."""
    price = getattr(options, "price_per_hour", None)
    environment = collect(options.target)
    name = chosen.study if chosen.method == plan.FAIR else f"{chosen.study}-published"
    folder = new_folder(options.results, environment, name)

    def save(run: Run) -> None:
        pages.write(folder, run, judged(run, price), pages=run.ended != RUNNING)

    with Launcher(options.host, options.seed) as load, Progress(chosen.blocks * len(chosen.cells)) as progress:
        progress.say(f"{len(chosen.cells)} cells x {chosen.blocks} blocks, about {chosen.seconds / 60:.0f} min")
        progress.say("Ctrl-C keeps what was measured")
        run = carry_out(chosen, load, environment, _as_text(options), progress, save)
    summary.show(results.load(folder))
    print(f"\n{shown(folder / 'report.html')}")
    wrong = problems(run)
    for line in wrong:
        print(f"fiveway: {line}", file=sys.stderr)
    return truth.INTERRUPTED_STATUS if run.ended == INTERRUPTED else bool(wrong)


def judged(run: Run, price_per_hour: float | None) -> Analysis:
    """The analysis of a run; of an A/A run, that of its quick runs too."""
    found = analyse(run, price_per_hour=price_per_hour)
    if run.study == AA:
        found.quick_runs = aa.judge(run, run.options["blocks"])
    return found


def cross_check(options: argparse.Namespace) -> int:
    routes = options.routes or settings.fit(FIVE, serving.now())
    cells = cross(Cell("", ""), target=options.target, route=routes, users=options.concurrency)
    check(cells, options)
    environment = collect(options.target)
    folder = new_folder(options.results, environment, truth.STUDY)
    blocks, seconds = options.blocks or plan.FULL_BLOCKS, options.seconds or plan.FULL_S
    with Launcher(options.host, options.seed) as load, Progress(2 * blocks * len(cells)) as progress:

        def visit(cell: Cell, block: int) -> Visit:
            return load.visit(cell, Window(seconds, plan.WARM_S), block, 0)

        rows = truth.cross_check(
            cells, visit, blocks=blocks, seconds=seconds, host=options.host, seed=options.seed, progress=progress
        )
    return truth.keep(folder, rows, environment, _as_text(options))


def report(options: argparse.Namespace) -> int:
    run = results.load(options.result).run
    folder = options.result if options.result.is_dir() else options.result.parent
    pages.write(folder, run, judged(run, options.price_per_hour))
    print(shown(folder / "report.html"))
    return 0


def put_out(view: Callable[[argparse.Namespace], str], options: argparse.Namespace) -> int:
    print(view(options), end="")
    return 0


def readme(options: argparse.Namespace) -> str:
    return documents.update_readme(sys.stdin.read(), results.load(options.result), str(options.result))


def page(options: argparse.Namespace) -> str:
    first, *others = ((results.load(path), str(path)) for path in (options.result, *options.other))
    return study_page.page(*first, *others)


def plot(options: argparse.Namespace) -> str:
    return study_page.plot(results.load(options.result))


def goals(options: argparse.Namespace) -> str:
    return performance.page(options.result)


def devices(_: argparse.Namespace) -> str:
    return documents.update_devices(sys.stdin.read(), Path("/"))


def new_folder(results_folder: Path, environment: dict[str, Any], name: str) -> Path:
    """results/<date>/<machine>/<name>-<time>."""
    now = datetime.now(UTC)
    return results_folder / now.strftime("%Y-%m-%d") / environment["machine"] / f"{name}-{now.strftime('%H%M%S')}"


def shown(path: Path) -> str:
    """A path in the container as the user knows it: /results is results/ in the checkout."""
    return str(path).removeprefix("/")


def _window(options: argparse.Namespace, quick: bool) -> Callable[[Cell], Window]:
    seconds = options.seconds or (plan.QUICK_S if quick else plan.FULL_S)
    return partial(plan.in_turns, seconds)


def _as_text(options: argparse.Namespace) -> dict[str, Any]:
    """The options as they were given, for the result."""
    return {name: value for name, value in vars(options).items() if name not in ("run", "results", "study", "command")}
