"""From a Run to cells with intervals, and ratios with verdicts and reasons: "analysis" in result.json.

A ratio gets a verdict only if neither cell has a *mark* (a reason against one), and if the two cells differ in the
claimed factor alone.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any, Final, Literal

from bench import words
from bench.analysis import claims, cost, knee, statistics
from bench.analysis.statistics import IMAGES_PER_S, MIN_BLOCKS, Estimate, Window
from bench.figures import share
from bench.measure import split
from bench.measure.measured import GATE, Cell, Run, Visit
from bench.measure.plan import PUBLISHED_METHOD
from bench.result import CPU_PARTS, NO_VERDICT, Analysis, Found, Interval, Pooled, Ratio, RatioVerdict, no_difference
from bench.studies import study_of
from locustfiles.clients.policy import COLD
from locustfiles.recorder import MIN_CALLS
from locustfiles.study_routes import WAYS

LOST = 0.01
"""The share of calls that may fail, or start late in an open loop. Above it the other calls do not represent the
cell."""
P50: Final = "p50_ms"
PERCENTS: Mapping[str, tuple[float, int]] = {f"p{percent:g}_ms": (percent, MIN_CALLS[percent]) for percent in MIN_CALLS}
"""Percentile -> the percentage, and how many calls it needs."""
MEANS = ("mean_ms", "connections", "edge_connections", "gpu_utilization", "encode_ms", "decode_ms")
"""Numbers of a cell that are plain means of its visits'."""
SERVER_CPU = "server.cpu"
"""The Server-Timing stage with the server's CPU time per call."""
ITSELF, PROTOCOL, FORMAT, EDGE = "same", "protocol", "format", "edge"

SHOWN = 0.05
"""A factor is named as a reason if it differs by this share of the larger value, a part of the time by this share of
the call."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A cell with its measurements."""

    cell: Cell
    visits: Sequence[Visit]
    windows: list[Window]
    estimates: Mapping[str, Estimate]
    encoded: Estimate | None
    """What a caller waits who encodes each request itself, in ms per call."""
    cpu: Mapping[str, Estimate]
    """CPU time per image by part."""
    found: Found
    """Its entry in the analysis."""


def analyse(run: Run, *, price_per_hour: float | None = None) -> Analysis:
    """Cells, ratios and hypotheses of a run. The same run always gives the same numbers. The price is that of the
    serving machine, in any currency; costs are in the same currency.
    """
    study = study_of(run.study)
    cells = [_measure(run, cell, visits, price_per_hour) for cell, visits in run.cells]
    judged = [
        (_ratio(run, kind, a, b, measure), a, b)
        for kind, a, b in _pairs(cells, study.pairs)
        # In an open loop the schedule sets the throughput.
        for measure in ((P50, IMAGES_PER_S) if a.cell.rate is None else (P50,))
    ]
    ratios = [ratio for ratio, _, _ in judged]
    doubt_what_may_be_chance(ratios)
    found = [one.found for one in cells]
    by_id = {cell.id: cell for cell, _ in run.cells}
    verdicts = claims.judge(study, by_id, [*ratios, *claims.sizes(study, by_id, found)], found)
    if study.of_photos and (run.environment.get("model") or {}).get("takes") == "tensors":
        verdicts = []
    knees = knee.knees((one.cell, one.estimates) for one in cells) if study.knees else []
    pooled = _pooled(judged, study.pooled_over)
    return Analysis(statistics.CONFIDENCE, found, ratios, verdicts, pooled, cost.idle(run), knees=knees)


def _measure(run: Run, cell: Cell, all_visits: Sequence[Visit], price: float | None) -> Measured:
    visits = [visit for visit in all_visits if not visit.problem]
    windows = statistics.windows(visits, cell.batch)
    estimates = _estimates(run, cell, windows)
    intervals = {name: estimate.interval for name, estimate in estimates.items()}
    cpu = cost.estimates(cell, visits)
    throughput = intervals.get(IMAGES_PER_S)
    requests, failures = sum(v.requests for v in visits), sum(v.failures for v in visits)
    images = (requests + failures) * cell.batch
    # Every call has bytes: 0 means that they could not be counted.
    counts = (sum(getattr(v, f"{way}_bytes") for v in visits) for way in ("sent", "received"))
    sent, received = (count / images if count and images else None for count in counts)
    splits = [parts for visit in visits if (parts := split.split(visit))]
    executions = sum(v.model_executions or 0 for v in visits)
    numbers: dict[str, Any] = {name: intervals.get(name) for name in PERCENTS}
    numbers |= {name: _mean(getattr(v, name) for v in visits) for name in MEANS}
    marks, notes = _doubts(run, cell, visits, windows)
    problems = [f"block {v.block} measured nothing: {v.problem}" for v in all_visits if v.problem]
    found = Found(
        id=cell.id,
        marks=marks,
        notes=problems + notes,
        requests=requests,
        failures=failures,
        blocks=len(windows),
        **numbers,
        images_per_s=throughput,
        sent_bytes_per_image=sent,
        received_bytes_per_image=received,
        client_cpu=max((v.client_cpu for v in visits), default=None),
        client_heavy=bool(study_of(run.study).no_gate) and any(v.client_cpu > GATE for v in visits),
        client_cpu_ms=_plain(_mean(v.client_cpu * v.counted_s / v.requests * 1e3 for v in visits if v.requests)),
        server_cpu_ms=_plain(_mean(v.stages_ms.get(SERVER_CPU) for v in visits)),
        cpu_ms={part: estimate.interval for part, estimate in cpu.items()},
        energy_j=_interval(cost.energy(cell, visits)),
        split={part: sum(parts[part] for parts in splits) / len(splits) for part in splits[0]} if splits else None,
        calls_per_execution=sum(v.requests for v in visits if v.model_executions) / executions if executions else None,
        # Price per hour / 3600 / images per second * 1e6: the slowest throughput is the highest cost.
        cost_per_million_images=throughput.turned(price / 3600 * 1e6) if throughput and price is not None else None,
    )
    return Measured(cell, visits, windows, estimates, _encoded(cell, visits, estimates), cpu, found)


def _estimates(run: Run, cell: Cell, windows: Sequence[Window]) -> dict[str, Estimate]:
    """Throughput, and each percentile that has enough calls. With the published method, serial throughput is batch /
    p50, as published."""
    calls = sum(window.calls for window in windows)
    percents = {name: percent for name, (percent, least) in PERCENTS.items() if calls >= least}
    found = statistics.estimates(windows, percents)
    if run.method == PUBLISHED_METHOD and cell.users == 1 and P50 in found:
        p50 = found[P50]
        per_second = {block: cell.batch / ms * 1e3 for block, ms in p50.by_block.items()}
        found[IMAGES_PER_S] = replace(p50, by_block=per_second)
    return found


def _encoded(cell: Cell, visits: Sequence[Visit], estimates: Mapping[str, Estimate]) -> Estimate | None:
    """The main measure as ms per call, with the encoding, which is before the clock. None where it was not measured."""
    main = estimates.get(P50 if cell.users == 1 else IMAGES_PER_S)
    if not main or not all(visit.encode_ms for visit in visits):
        return None
    encode_ms = {visit.block: visit.encode_ms for visit in visits}
    numbers = main.by_block.items()
    ms = {block: number if cell.users == 1 else cell.users * cell.batch / number * 1e3 for block, number in numbers}
    return Estimate({block: ms[block] + encode_ms[block] for block in ms}, main.resolution)


def _doubts(run: Run, cell: Cell, visits: Sequence[Visit], windows: Sequence[Window]) -> tuple[list[str], list[str]]:
    """The reasons against a verdict on this cell (marks), and remarks that do not prevent one (notes): a line each."""
    marks: list[str] = []
    measured = {window.block for window in windows}
    notes = [f"block {v.block} has no call in its steady window" for v in visits if v.block not in measured]
    if len(windows) < MIN_BLOCKS:
        marks.append(f"{_count(len(windows), 'block')} measured: a verdict needs at least {MIN_BLOCKS}")
    parity = run.parity.get(cell.route)
    if parity is None:
        notes.append("its answers were not compared with a reference")
    elif not parity["agrees"]:
        apart, factor = parity["why"] or "see parity", _factor(run, cell)
        if factor:
            notes.append(f"{factor}: its answers are not the reference's ({apart})")
        else:
            marks.append(f"its answers do not agree with the reference: {apart}")
    busiest = max((v.client_cpu for v in visits), default=0.0)
    if busiest > GATE:
        used = f"a load process used {share(busiest)} of a core"
        if study_of(run.study).no_gate:
            notes.append(used)
        else:
            marks.append(f"{used} (at most {share(GATE)}): it measured itself too")
    calls, failures = sum(v.requests + v.failures for v in visits), sum(v.failures for v in visits)
    if failures:
        errors = sum((Counter(v.errors) for v in visits), Counter[str]())
        worst = max(errors, key=errors.__getitem__, default="no error text")
        (notes if failures <= LOST * calls else marks).append(f"{failures} of {calls} calls failed: {worst}")
    counted = [
        f"block {v.block}: the server counted {v.server_requests} calls, the clients {v.requests}"
        for v in visits
        if v.server_requests not in (None, v.requests)
    ]
    if run.method != PUBLISHED_METHOD:
        marks += _first(counted)
    marks += _first(
        f"block {v.block}: the edge accepted {v.edge_connections} connections, the clients opened {v.connections}"
        for v in visits
        if None not in (v.edge_connections, v.connections) and v.edge_connections != v.connections
    )
    missed, unanswered = sum(v.missed for v in visits), sum(v.unanswered for v in visits)
    if cell.rate is not None and missed + unanswered:
        late = f"{missed} of {calls + unanswered} calls began late, all users were busy"
        if unanswered:
            oldest = max(v.oldest_unanswered_s for v in visits)
            late += f", and {unanswered} never (the oldest had waited {oldest:.1f} s)"
        if missed + unanswered > LOST * (calls + unanswered):
            marks.append(f"{late}: more users or a lower rate")
        else:
            notes.append(late)
    recorded, least = sum(window.calls for window in windows), PERCENTS[P50][1]
    if recorded < least:
        marks.append(f"{_count(recorded, 'call')} in the steady windows: a p50 needs at least {least}")
    notes += _first(dict.fromkeys(f"block {v.block}: {reason}" for v in visits for reason in v.reasons))
    counters = {"server_requests": "server's count of calls", "edge_connections": "edge's count of connections"}
    for name, what in counters.items():
        if any(getattr(v, name) is None for v in visits):
            notes.append(f"the {what} is not visible from here: ours is not checked against it")
    if run.method == PUBLISHED_METHOD:
        notes += _first(f"{text.partition(': ')[2]}: as published, with the warm-up" for text in counted)
    return marks, notes


def _first(lines: Iterable[str]) -> list[str]:
    """The first line, and how many more blocks would say the same."""
    found = list(lines)
    more = f" (and {_count(len(found) - 1, 'more block')})" if len(found) > 1 else ""
    return [found[0] + more] if found else []


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _plain(value: float | None) -> Interval | None:
    """A number without an interval, in the form of one with."""
    return None if value is None else Interval(value)


def _pairs(cells: Sequence[Measured], pairs: Mapping[tuple[str, str], str]) -> list[tuple[str, Measured, Measured]]:
    """(kind, a, b) of cells that share every factor but the row's own; of EDGE, every factor but the target.

    Where a row was not measured, those that ask the same route by other clients stand for it, unless the pair names
    another client itself.
    """
    groups: dict[Cell, dict[str, Measured]] = {}
    targets: dict[Cell, dict[str, Measured]] = {}
    for one in cells:
        groups.setdefault(replace(one.cell, name="", route=""), {})[one.cell.name] = one
        targets.setdefault(replace(one.cell, target=""), {})[one.cell.target] = one
    found = []
    for group in groups.values():
        for (a, b), kind in pairs.items():
            if a in group and b in group:
                found.append((kind, group[a], group[b]))
            elif not any(name in WAYS and WAYS[name].client for name in (a, b)):
                found += [(f"{kind} and client", *both) for both in product(_stand_for(a, group), _stand_for(b, group))]
        found += [(ITSELF, a, b) for a, b in combinations(group.values(), 2) if a.cell.route == b.cell.route]
    return found + [(EDGE, one["edge"], one["direct"]) for one in targets.values() if {"edge", "direct"} <= one.keys()]


def _stand_for(name: str, group: Mapping[str, Measured]) -> list[Measured]:
    if name in group:
        return [group[name]]
    ways = [(one, WAYS.get(one.cell.route)) for one in group.values()]
    return [one for one, way in ways if way and way.client and way.of == name]


def _ratio(run: Run, kind: str, a: Measured, b: Measured, measure: Literal["p50_ms", "images_per_s"]) -> Ratio:
    estimate = statistics.ratio(a.estimates.get(measure), b.estimates.get(measure))
    blocks = len({window.block for window in a.windows} & {window.block for window in b.windows})
    unequal = _unequal_connections(a, b) if kind == PROTOCOL else None
    reasons = [f"{one.cell.name} has too few calls" for one in (a, b) if measure not in one.estimates][:1]
    reasons += [f"{one.cell.name}: {mark}" for one in (a, b) for mark in one.found.marks]
    if len(a.windows) >= MIN_BLOCKS <= len(b.windows) and blocks < MIN_BLOCKS:
        reasons.append(f"they have {_count(blocks, 'block')} in common: a verdict needs at least {MIN_BLOCKS}")
    if unequal and run.method != PUBLISHED_METHOD:
        reasons.append(f"{unequal}: never called a protocol difference")
    engines = _unequal_engines(run, a, b)
    if engines and kind in (PROTOCOL, FORMAT):
        reasons.append(f"{engines[0]}: never called a {kind} difference")
    elif len(factors := {_factor(run, one.cell) for one in (a, b)}) > 1:
        reasons.append(f"{max(factors)}: their answers differ too")
    interval = _interval(estimate)
    verdict = NO_VERDICT if reasons or not interval else _verdict(interval)
    found = Ratio.of(kind, a.cell, b.cell, measure, interval, verdict)
    found.why = _why(a, b, engines)
    if estimate and verdict != NO_VERDICT:
        found.p_value = statistics.p_value(estimate)
    if kind == EDGE:
        found.a_name, found.b_name = f"{a.cell.name} through Envoy", f"{b.cell.name} directly"
    if found.main:
        found.encoded = _interval(statistics.ratio(a.encoded, b.encoded))
        cpu = {part: statistics.ratio(a.cpu.get(part), b.cpu.get(part)) for part in CPU_PARTS}
        found.cpu = {part: one.interval for part, one in cpu.items() if one}
    more = f" (and {_count(len(reasons) - 1, 'more reason')})" if len(reasons) > 1 else ""
    found.text = words.one(found)
    if verdict == NO_VERDICT:
        found.text = f"no verdict on {found.a_name} against {found.b_name}: {reasons[0]}{more}"
    elif kind == EDGE and measure == P50:
        more_ms, low, high = statistics.difference(a.estimates[P50], b.estimates[P50])
        found.text += f", {more_ms:+.2f} ms ({low:+.2f} to {high:+.2f})"
    if run.method == PUBLISHED_METHOD and estimate:
        if found.low is None:
            calls = min(sum(window.calls for window in one.windows) for one in (a, b))
            found.text = f"{words.one(found)} ({calls} calls, {_count(blocks, 'block')}, no interval)"
        found.text = f"published method: {found.text}" + (f"; {unequal}" if unequal else "")
    return found


def doubt_what_may_be_chance(ratios: Sequence[Ratio]) -> None:
    """Withdraw the differences that this many comparisons of one kind would show by chance.

    A kind is a question, and the large differences of one question say nothing about another. Each of its cells counts
    once, by its main measure: the other is nearly its inverse, and the same evidence twice is not more evidence.
    """
    for kind in {ratio.kind for ratio in ratios}:
        judged = [(one, one.p_value) for one in ratios if one.kind == kind and one.p_value is not None]
        limit = statistics.beyond_chance([p_value for ratio, p_value in judged if ratio.main])
        for ratio, p_value in judged:
            if p_value > limit and ratio.verdict in ("lower", "higher"):
                before = words.one(ratio)
                ratio.verdict = no_difference(ratio.low, ratio.high)
                # What stands beside the sentence stays: the milliseconds that Envoy adds.
                ratio.text = ratio.text.replace(before, words.one(ratio))


def _pooled(judged: Sequence[tuple[Ratio, Measured, Measured]], over: Sequence[str]) -> list[Pooled]:
    """A line per kind: the geometric mean, in each block, of its ratios of times over the cells of the first setting.
    `over` names factors whose values are all in it, besides batch and callers.

    Its cells are given and its blocks are drawn, so the interval is Student's t over blocks, as for one ratio.
    """
    kinds: dict[str, list[tuple[Ratio, Measured, Measured]]] = {}
    settings: dict[str, Cell] = {}
    for ratio, a, b in judged:
        any_value: dict[str, Any] = dict.fromkeys(over)
        setting = replace(a.cell, name="", route="", batch=1, users=1, **any_value)
        if ratio.main and ratio.verdict != NO_VERDICT and setting == settings.setdefault(ratio.kind, setting):
            kinds.setdefault(ratio.kind, []).append((ratio, a, b))
    found = []
    for kind, ratios in kinds.items():
        sides = [(a, b, r.measure) if r.measure == P50 else (b, a, r.measure) for r, a, b in ratios]
        pooled = _mean_ratio([(a.estimates[m], b.estimates[m]) for a, b, m in sides])
        if not pooled:
            continue
        cpu = {part: _mean_ratio([(a.cpu.get(part), b.cpu.get(part)) for _, a, b in ratios]) for part in CPU_PARTS}
        found.append(
            Pooled(
                kind=kind,
                ratios=len(ratios),
                value=pooled.value,
                low=pooled.low,
                high=pooled.high,
                verdict=_verdict(pooled),
                encoded=_mean_ratio([(a.encoded, b.encoded) for _, a, b in ratios]),
                cpu={part: one for part, one in cpu.items() if one},
            )
        )
    return found


def _mean_ratio(pairs: Sequence[tuple[Estimate | None, Estimate | None]]) -> Interval | None:
    """The geometric mean of a / b in each block; None unless all of them are known."""
    ratios = [ratio for a, b in pairs if (ratio := statistics.ratio(a, b))]
    return _interval(statistics.pooled(ratios) if len(ratios) == len(pairs) else None)


def _interval(estimate: Estimate | None) -> Interval | None:
    return estimate.interval if estimate else None


def _verdict(ratio: Interval) -> RatioVerdict:
    """By its limits alone."""
    if ratio.low is None or ratio.high is None:
        return NO_VERDICT
    if ratio.low <= 1 <= ratio.high:
        return no_difference(ratio.low, ratio.high)
    return "lower" if ratio.high < 1 else "higher"


def _unequal_connections(a: Measured, b: Measured) -> str | None:
    """The difference between two cells' connections, visit by visit, that failed calls do not explain; else None.

    A failed call may cost a connection. Cold calls have one each, so there the calls are subtracted, and one in a
    hundred may need another.
    """
    others = {visit.block: visit for visit in b.visits}
    for mine in a.visits:
        if (other := others.get(mine.block)) is None:
            continue
        if mine.connections is None or other.connections is None:
            return "connections were not counted"
        mine_extra, other_extra, explained = mine.connections, other.connections, float(mine.failures + other.failures)
        if a.cell.policy == COLD:
            mine_extra, other_extra = mine_extra - mine.requests, other_extra - other.requests
            explained += LOST * (mine.requests + other.requests)
        if abs(mine_extra - other_extra) > explained:
            return f"unequal connections ({mine.connections} against {other.connections} in block {mine.block})"
    return None


def _unequal_engines(run: Run, a: Measured, b: Measured) -> list[str]:
    """In what the engines behind two cells differ, besides their library: a line each."""
    names = [WAYS[one.cell.route].engine for one in (a, b)]
    if names[0] == names[1] or not all(names):
        return []
    known = run.environment.get("engines") or {}
    if absent := [name for name in names if name not in known]:
        return [f"threads and precision of {absent[0]} are not known"]
    mine, other = (known[name] for name in names)
    facts = {"threads": "compute threads", "device": "device", "precision": "precision", "instances": "model instances"}
    return [f"{what}: {mine[name]} against {other[name]}" for name, what in facts.items() if mine[name] != other[name]]


def _factor(run: Run, cell: Cell) -> str:
    """What explains that its answers are not the reference's; empty where nothing does."""
    return str(run.parity.get(cell.route, {}).get("factor", ""))


def _why(a: Measured, b: Measured, engines: Sequence[str]) -> list[str]:
    """The measured factors that differ between two cells, a's first, in words."""
    mine, other = a.found, b.found
    why = [*engines]
    servers = [(WAYS[one.cell.route].direct or "edge").partition(":")[0] for one in (a, b)]
    if servers[0] != servers[1]:
        why.append(f"servers: {servers[0]} against {servers[1]}")
    for name, what, form in (
        ("connections", "connections per visit", ".4g"),
        ("sent_bytes_per_image", "bytes sent per image", ",.0f"),
        ("received_bytes_per_image", "bytes received per image", ",.0f"),
    ):
        why += _differs(mine[name], other[name], what, form)
    if mine.split and other.split:
        call = max(sum(mine.split.values()), sum(other.split.values()))
        reported = split.reported(mine.split, other.split)
        parts = [(part, mine.split[part], other.split[part]) for part in reported]
        for part, ms, its in sorted(parts, key=lambda one: -abs(one[1] - one[2])):
            if abs(ms - its) > SHOWN * call:
                why.append(f"{part}: {ms:.2f} ms against {its:.2f} ms")
    runs = mine.calls_per_execution, other.calls_per_execution
    why += _differs(*runs, "calls that the model ran at once", ".2f")
    if mine.client_cpu is not None and other.client_cpu is not None and abs(mine.client_cpu - other.client_cpu) > SHOWN:
        why.append(f"busiest load process: {share(mine.client_cpu)} of a core against {share(other.client_cpu)}")
    return why


def _differs(a: float | None, b: float | None, what: str, form: str) -> list[str]:
    """A line where the two differ by more than SHOWN."""
    if a is None or b is None or abs(a - b) <= SHOWN * max(abs(a), abs(b)):
        return []
    return [f"{what}: {a:{form}} against {b:{form}}"]
