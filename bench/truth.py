"""Truth: the same cells by independent generators, and how far off Locust's p50 is in each.

wrk for HTTP, and for gRPC a small client in Go (generators/raw): other languages, other protocol stacks, other clocks,
the same bytes. A block visits each cell twice, with Locust and with its generator, taking turns at going first.

    generator's histogram -> Visit, as Locust's is -> statistics.ratio: Locust's p50 / the generator's, paired by block
"""

import json
import math
import random
import signal
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bench.analysis import statistics
from bench.measure import generators
from bench.measure.cells import settings_of
from bench.measure.launcher import LoadError, Window
from bench.measure.measured import INTERRUPTED, Cell, Visit, merge, now
from bench.measure.progress import Progress
from bench.report import results
from bench.result import Interval
from locustfiles import bounded
from locustfiles.calls import endpoint_of, requests_of
from locustfiles.clients import DEADLINE_S, Payload
from locustfiles.clients.policy import POOLED, PUBLISHED
from locustfiles.recorder import MIN_CALLS, Histogram
from locustfiles.routes import ROUTES

SCHEMA, STUDY = 1, "truth"
GOAL = 0.05
"""How far Locust's p50 may be off."""
WARM_S = 1
LIMIT_S = WARM_S + DEADLINE_S + 15
"""How long a generator may take beyond its window: its warm-up, one call until its deadline, and a busy machine."""
INTERRUPTED_STATUS = 128 + signal.SIGINT

P50 = "p50_ms"
WRK, RAW = "wrk", "go"
GENERATORS: Mapping[str, str] = {"HTTP": WRK, "gRPC": RAW}
WRK_SCRIPT = Path(__file__).with_name("generators") / "wrk.lua"


class GeneratorError(Exception):
    """A generator could not measure a cell; the text is one line."""


def target(cell: Cell, host: str) -> tuple[str, list[bytes]]:
    """A cell's URL and its requests, head and body, as locustfiles.clients.http sends them. Raises as requests_of."""
    route = ROUTES[cell.route]
    chosen = settings_of(cell, host)
    to = endpoint_of(route, chosen)

    def request(payload: Payload) -> bytes:
        length = str(len(payload.body))
        lines = {"host": to.address, "user-agent": "fiveway", **to.headers, **payload.headers, "content-length": length}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"POST {to.path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + payload.body

    return f"http://{to.address}{to.path}", list(map(request, requests_of(route, chosen)))


def unfit(cell: Cell) -> str:
    """Why no generator can measure this cell; empty if one can."""
    http = ROUTES[cell.route].format.protocol == "HTTP"
    if cell.rate is not None:
        return "an open loop: the generators are closed loops, choose no rate"
    if http and cell.policy != POOLED:
        return f"policy {cell.policy}: wrk keeps one connection per user, choose {POOLED}"
    if cell.policy == PUBLISHED:
        return f"policy {PUBLISHED}: the client in Go connects for every call or for none, choose another"
    return ""


def wrk_command(users: int, url: str, seconds: float, files: Sequence[Path]) -> list[str]:
    """wrk for whole seconds, with one connection per user, kept."""
    load = ["-t1", f"-c{users}", f"-d{seconds:g}s", "--timeout", f"{DEADLINE_S:g}s"]
    return [WRK, *load, "-s", str(WRK_SCRIPT), url, "--", *map(str, files)]


def read(users: int, stdout: str, result: Visit) -> None:
    """Fill in a Visit from the last line that wrk printed; raises GeneratorError.

    {"requests", "failures", "errors": {what: calls}, "seconds", "latencies_us": [[latency, calls], ...]}

    wrk adds calls that were never made, to make up for those that a slow server kept it from making. Locust does not:
    they are taken out again (`uncorrected`), and what is left must be the calls that wrk counted.
    """
    lines = [line for line in stdout.splitlines() if line.startswith("{")]
    try:
        found = json.loads(lines[-1])
        requests, seconds, result.failures = int(found["requests"]), float(found["seconds"]), int(found["failures"])
        result.errors = {str(text): int(count) for text, count in found["errors"].items()}
        steps = {int(latency): int(count) for latency, count in found["latencies_us"]}
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise GeneratorError(f"{WRK} printed something else than its result ({error!r})") from None
    if requests >= users:
        steps = uncorrected(steps, round(seconds * 1e6) // (requests // users))
    late = result.errors.get("timeout", 0)
    if not requests - late <= sum(steps.values()) <= requests or min(steps.values(), default=0) < 0:
        raise GeneratorError(f"{WRK} recorded {sum(steps.values())} latencies of {requests} calls: use wrk 4.1")
    latency = Histogram()
    for microseconds, count in steps.items():
        latency.record(microseconds / 1e6, count)
    result.latency, result.requests, result.steady_requests = latency.encode(), latency.count, float(latency.count)
    result.steady_s = result.counted_s = seconds
    if result.requests:
        result.mean_ms = sum(microseconds * count for microseconds, count in steps.items()) / result.requests / 1e3


def uncorrected(steps: Mapping[int, int], interval_us: int) -> dict[int, int]:
    """Latency in us -> calls, without those that wrk 4 added (stats_correct in its stats.c).

    For each call of n >= 2 * interval it added one of n - interval, n - 2 * interval, ... as long as they were longer
    than the interval. Nothing added to the longest latency: from the top down each step is known when it is its turn.
    """
    left = dict(steps)
    for longest in sorted(steps, reverse=True):
        if longest < 2 * interval_us:
            break
        for added in range(longest - interval_us, interval_us, -interval_us):
            left[added] = left.get(added, 0) - left[longest]
    return {latency: count for latency, count in left.items() if count}


def generate(cell: Cell, host: str, block: int, seconds: float) -> Visit:
    """One visit to a cell by its generator; a visit that measured nothing says why in `problem`."""
    result = Visit(block, 0, now())
    generator = GENERATORS[ROUTES[cell.route].format.protocol]
    try:
        if generator == WRK:
            _by_wrk(cell, host, max(1, math.ceil(seconds)), result)
        else:
            program = generators.Program(RAW, ROUTES[cell.route], settings_of(cell, host), cell)
            with generators.Load(program, Window(seconds, WARM_S)) as load:
                load.warm()
                merge(result, [load.run()])
        if result.failures:
            most = " ".join(max(result.errors, key=result.errors.__getitem__).split())[:200]
            raise GeneratorError(f"{generator}: {result.failures} calls failed, most with {most}")
        if not result.requests:
            raise GeneratorError(f"{generator}: no call ended in {seconds:g} s")
    except (GeneratorError, LoadError) as error:
        result.problem = str(error)
    except OSError as error:
        result.problem = f"{error}: the model builder makes the inputs (start the stack first)"
    return result


def _by_wrk(cell: Cell, host: str, seconds: int, result: Visit) -> None:
    """Raises GeneratorError and OSError."""
    url, bodies = target(cell, host)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, str(i)) for i in range(len(bodies))]
        for file, body in zip(files, bodies, strict=True):
            file.write_bytes(body)
        if WARM_S:
            run(wrk_command(cell.users, url, WARM_S, files), WARM_S + LIMIT_S)
        read(cell.users, run(wrk_command(cell.users, url, seconds, files), seconds + LIMIT_S), result)


def run(command: Sequence[str], limit_s: float) -> str:
    """stdout of a generator; raises GeneratorError if it fails. All of its processes have ended then."""
    name = command[0]
    try:
        done = bounded.run(command, limit_s, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise GeneratorError(f"{name} cannot be started ({error.strerror}): the image fiveway-bench has it") from None
    except subprocess.TimeoutExpired:
        raise GeneratorError(f"{name} did not end in {limit_s:g} s and was killed: does the route answer?") from None
    if done.returncode:
        why = (done.stderr.strip() or done.stdout.strip() or "without a word").splitlines()[-1]
        raise GeneratorError(f"{name} ended with status {done.returncode}: {why[:200]}")
    return done.stdout


def cross_check(
    cells: Sequence[Cell],
    measure: Callable[[Cell, int], Visit],
    *,
    blocks: int,
    seconds: float,
    progress: Progress,
    host: str = "http://edge:8080",
    seed: int = 1,
) -> list[dict[str, Any]]:
    """A row per cell: Locust's p50 and the generator's, and the error of Locust's (see `row`).

    `measure` makes one visit with Locust: cell, block (from 1). Takes 2 steps of `progress` per cell and block. Ctrl-C
    and LoadError end it early: the rows say so, and hold what was measured until then.
    """
    locust, truth = (defaultdict[Cell, list[Visit]](list) for _ in range(2))
    why = {cell: unfit(cell) for cell in cells}
    ended = ""
    try:
        for block, cell, own_turn in _turns([cell for cell in cells if not why[cell]], blocks, seed):
            progress.next(f"block {block}/{blocks}: {cell.id}, {'Locust' if own_turn else 'the generator'}")
            visit = measure(cell, block) if own_turn else generate(cell, host, block, seconds)
            (locust if own_turn else truth)[cell].append(visit)
            if visit.problem:
                progress.say(f"{cell.id}: {visit.problem}")
    except KeyboardInterrupt:
        ended = INTERRUPTED
    except LoadError as error:
        ended = str(error)
    return [row(cell, locust[cell], truth[cell], why[cell] or ended) for cell in cells]


def _turns(cells: Sequence[Cell], blocks: int, seed: int) -> Iterator[tuple[int, Cell, bool]]:
    """(block, cell, is it Locust's turn?): cells in an order drawn by chance, each side first in every other block."""
    for block in range(1, blocks + 1):
        order = list(enumerate(cells))
        random.Random(f"{seed}/{block}").shuffle(order)
        for i, cell in order:
            locust_first = (i + block) % 2 == 1
            yield block, cell, locust_first
            yield block, cell, not locust_first


def row(cell: Cell, locust: Sequence[Visit], truth: Sequence[Visit], ended: str = "") -> dict[str, Any]:
    """The row of one cell.

    Only blocks that both measured count. `error` is Locust's p50 / the generator's - 1. `within_goal` is about its
    value alone, and null without one; `goal` is the verdict of its interval (see `verdict`).
    """
    sides = ([visit for visit in visits if not visit.problem] for visits in (locust, truth))
    both = [statistics.windows(visits, cell.batch) for visits in sides]
    common = set.intersection(*({window.block for window in windows} for windows in both))
    ours, theirs = ([window for window in windows if window.block in common] for windows in both)
    by_locust, by_truth = (statistics.estimates(windows, {P50: 50.0}) for windows in (ours, theirs))
    truth_requests, locust_requests = (sum(window.calls for window in windows) for windows in (theirs, ours))
    ratio = statistics.ratio(by_locust[P50], by_truth[P50]) if common else None
    error = None
    if ratio and min(truth_requests, locust_requests) >= MIN_CALLS[50]:
        found = ratio.interval
        error = Interval(found.value - 1, found.low and found.low - 1, found.high and found.high - 1)
    marks = [ended] if ended else []
    marks += dict.fromkeys(visit.problem for visit in (*locust, *truth) if visit.problem)
    failures = sum(visit.failures for visit in locust)
    if failures:
        marks.append(f"{failures} of Locust's calls failed")
    if error is None and not marks:
        marks.append(f"fewer than {MIN_CALLS[50]} calls: measure longer")
    return {
        "id": cell.id,
        **{name: getattr(cell, name) for name in ("route", "batch", "users", "policy", "target", "photo")},
        "generator": GENERATORS[ROUTES[cell.route].format.protocol],
        "blocks": len(ours),
        "truth_requests": truth_requests,
        "locust_requests": locust_requests,
        **{
            f"{side}_{measure}": found[measure].interval if common else None
            for measure in (P50, statistics.IMAGES_PER_S)
            for side, found in (("truth", by_truth), ("locust", by_locust))
        },
        "locust_client_cpu": max((visit.client_cpu for visit in locust), default=None),
        "error": error,
        "within_goal": abs(error.value) <= GOAL if error else None,
        "goal": verdict(error),
        "marks": marks,
    }


def verdict(error: Interval | None) -> str:
    """`met` or `missed` where the whole interval of the error is within the goal or beyond it, else `inconclusive`.

    A noisy machine, or fewer than three blocks, shows nothing: a small error may be luck.
    """
    if not error or error.low is None or error.high is None:
        return "inconclusive"
    if max(-error.low, error.high) <= GOAL:
        return "met"
    return "missed" if error.low > GOAL or error.high < -GOAL else "inconclusive"


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows as a Markdown table: cell, both p50 in ms, the error in percent, the verdict and what was in its way."""
    lines = [f"| cell | generator | its p50, ms | Locust's p50, ms | Locust's error | goal: within {GOAL:.0%} |"]
    lines.append("|---|---|---:|---:|---:|---|")
    for found in rows:
        p50 = [_text(found[f"{side}_p50_ms"], ".2f") for side in ("truth", "locust")]
        error = _text(found["error"] and found["error"].times(100), "+.1f", " %")
        why = f" ({'; '.join(found['marks'])})" if found["marks"] else ""
        columns = [found["id"], found["generator"], *p50, error, found["goal"] + why]
        lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines)


def keep(
    folder: Path, rows: Sequence[Mapping[str, Any]], environment: Mapping[str, Any], options: Mapping[str, Any]
) -> int:
    """Print the table, write truth.json and truth.md into a new folder, and give the exit status.

    0: every cell was measured, whatever the errors are. 1: one was not. 130: interrupted. Raises results.ResultError.
    """
    print(table(rows))
    about = {"schema": SCHEMA, "study": STUDY, "goal": GOAL, "options": options, "environment": environment}
    text = msgspec.json.format(msgspec.json.encode(about | {"rows": rows}, enc_hook=str), indent=1)
    results.put(folder / "truth.json", text + b"\n")
    results.put(folder / "truth.md", table(rows) + "\n")
    print(f"\n{folder / 'truth.json'}")
    if any(INTERRUPTED in found["marks"] for found in rows):
        return INTERRUPTED_STATUS
    return int(any(found["marks"] for found in rows))


def _text(interval: Interval | None, form: str, unit: str = "") -> str:
    """`8.40 (8.21 to 8.57)`, without the limits where they are not known; a dash without a value."""
    if interval is None:
        return "–"
    low, high = interval.low, interval.high
    limits = "" if low is None or high is None else f" ({low:{form}} to {high:{form}})"
    return f"{interval.value:{form}}{limits}{unit}"
