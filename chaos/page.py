"""docs/reliability.md, made of results of scripts/chaos: a sentence per subject, then its table."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.report import markdown
from bench.report.tables import Table
from chaos import figures
from chaos.figures import Figures

GOAL_ERROR_MS, GOAL_RECOVERY_S = 1_000, 10.0
GOAL_GOODPUT, GOAL_P99, GOAL_BESIDE = 0.9, 5.0, 0.9
Rows = Sequence[Mapping[str, Any]]


def made(paths: Iterable[Path]) -> str:
    """The page. Raises as figures.load does."""
    loaded = {one.kind: (one, path) for path in paths for one in (figures.load(path),)}
    blocks = [
        f"<!-- Made by ./scripts/chaos page {' '.join(str(path) for _, path in loaded.values())}: change a result or"
        " chaos/page.py, not this page. -->",
        "What the stack does when servers die, when too much is asked, and when clients are hostile. Each table is a"
        " command that you can run on your own stack: `./scripts/chaos --help`.",
    ]
    for kind, write in SECTIONS.items():
        if kind in loaded:
            one, path = loaded[kind]
            blocks += [*write(one), f"Measured {one.date[:10]} on {one.machine}, {one.model}: [{path}](../{path})."]
    return markdown.page("Reliability", *blocks)


def faults(found: Figures) -> Iterable[str]:
    """One line per fault, over its repetitions."""
    several: dict[str, list[Mapping[str, Any]]] = {}
    for row in found.rows:
        several.setdefault(row["fault"], []).append(row)
    elsewhere, calls = _total(found.rows, "failed_elsewhere"), sum(row["calls_elsewhere"] for row in found.rows)
    wrong = sum(row["wrong"] for row in found.rows)
    late = [name for name, rows in several.items() if _most(rows, "recovery_s") > GOAL_RECOVERY_S]
    slow = [name for name, rows in several.items() if _most(rows, "slowest_error_ms") > GOAL_ERROR_MS]
    yield "## Faults"
    yield (
        f"**{len(found.rows)} faults under load: {elsewhere} of {calls:,} calls failed on routes that do not pass the"
        f" server, and {wrong} answers were wrong.** Every route is asked twice a second meanwhile."
    )
    yield (
        f"Goals: no failure elsewhere; an error within 1 s; recovery within {GOAL_RECOVERY_S:g} s. Not met:"
        f" an error took longer in {len(slow)} of {len(several)} faults, recovery in {len(late)}."
    )
    lines = [
        [
            name,
            _of(_total(rows, "failed_elsewhere"), sum(row["calls_elsewhere"] for row in rows)),
            _of(_total(rows, "seen"), sum(row["calls"] for row in rows)),
            _kinds(rows, "seen"),
            _number(_most(rows, "slowest_error_ms")),
            " ".join("–" if row["recovery_s"] is None else f"{row['recovery_s']:g}" for row in rows),
        ]
        for name, rows in several.items()
    ]
    head = ["fault", "failed elsewhere", "failed on its routes", "as", "slowest error, ms", "recovery, s"]
    yield markdown.table(Table(head, lines))
    yield (
        "Recovery is from the end of the fault to the last failed call: 0 where none failed. A process that hangs looks"
        " like a busy one until its health check fails: its callers wait and are not refused. A server that is stopped"
        " cannot answer before it is started again."
    )


def overload(found: Figures) -> Iterable[str]:
    """One line per route and factor."""
    ten = [row for row in found.rows if row["factor"] == 10]
    kept = [row for row in ten if row["goodput"] >= GOAL_GOODPUT * row["peak"]]
    quick = [row for row in ten if row["p99_ms"] and row["p99_ms"] <= GOAL_P99 * row["alone_p99_ms"]]
    yield "## Overload"
    yield (
        f"**At ten times what a route can do, {len(kept)} of {len(ten)} routes keep 90 % of it, and {len(quick)} answer"
        " within five times the unloaded p99.** Calls come on a schedule, however slow the answers are. The load shares"
        " the machine with the servers."
    )
    head = [
        "route", "load", "asked per s", "load, cores", "answered per s", "of its peak", "p50, ms",
        "p99, ms", "p99 alone, ms", "refused as", "refusal p50, ms", "beside: p50", "after: p50", "most MiB",
    ]  # fmt: skip
    lines = [
        [
            row["route"],
            f"{row['factor']}×",
            *(_number(row[name]) for name in ("offered", "load_cores", "goodput")),
            f"{100 * row['goodput'] / row['peak']:.0f} %",
            *(_number(row[name]) for name in ("p50_ms", "p99_ms", "alone_p99_ms")),
            _kinds([row], "refused"),
            _number(row["refusal_ms"][0]),
            _times(row["beside"][1]),
            _times(row["after"][0]),
            _largest(row["mib"]),
        ]
        for row in found.rows
    ]
    yield markdown.table(Table(head, lines))
    yield (
        "Making the calls and refusing them takes cores from the servers here: the column says how many the load took."
        " The p99 of what is answered is that of a queue: up to `MAX_WAIT_S` (5 s) may wait, so that many callers with"
        " batches are not refused. Set less where answers must be quick."
    )


def rude(found: Figures) -> Iterable[str]:
    """One line per attack."""
    worst = {row["attack"]: min(one["rate"] for one in row["others"].values()) for row in found.rows}
    below = [name for name, rate in worst.items() if rate < GOAL_BESIDE]
    failed = sum(sum(one["errors"].values()) for row in found.rows for one in row["others"].values())
    yield "## Slow and rude clients"
    yield (
        f"**In {len(worst) - len(below)} of {len(worst)} attacks 90 % of others' calls are answered, and {failed} calls"
        " failed in all.** Attackers, clients and servers share the machine's cores."
    )
    ways = list(found.rows[0]["others"])
    lines = [
        [
            row["attack"],
            f"{row['connections']:,}",
            f"{row['closed']:,}",
            *(f"{100 * one['rate']:.0f} %, {_times(one['p50'])}" for one in map(row["others"].get, ways)),
            _number(row["mib"].get("edge")),
        ]
        for row in found.rows
    ]
    yield markdown.table(
        Table(
            ["attack", "connections", "closed by the edge", *(f"{way}: answered, p50" for way in ways), "edge, MiB"],
            lines,
        )
    )


def fuzz(found: Figures) -> Iterable[str]:
    """One line per way in."""
    cases, wrong = sum(row["cases"] for row in found.rows), sum(len(row["undeclared"]) for row in found.rows)
    ended = [one for row in found.rows for one in row["restarted"]]
    yield "## Hostile input"
    yield (
        f"**{cases:,} requests that are nearly right: {len(ended)} processes ended, and {wrong} answers were undeclared"
        " or spoke of the inside.** [errors.md](errors.md) declares the answers."
    )
    lines = [
        [row["way"], f"{row['cases']:,}", _kinds([row], "statuses"), str(len(row["undeclared"])), _grown(row["mib"])]
        for row in found.rows
    ]
    yield markdown.table(Table(["way in", "cases", "answers", "undeclared", "grew most, MiB"], lines))


def soak(found: Figures) -> Iterable[str]:
    """Lines per route, then per container."""
    routes = [row for row in found.rows if "route" in row]
    containers = [row for row in found.rows if "container" in row]
    failed, calls = _total(routes, "errors"), sum(row["calls"] for row in routes)
    growing = [row["container"] for row in containers if (row["mib_per_hour"] or [0, 0])[1] > 0]
    yield "## A long load"
    yield (
        f"**{found.settings['minutes']:g} minutes on all routes: {failed} of {calls:,} calls failed, and memory grew in"
        f" {len(growing)} of {len(containers)} containers{': ' * bool(growing)}{', '.join(growing)}.** Growth counts"
        " where its 95 % interval is above zero."
    )
    head = ["route", "calls", "failed", "p50, ms", "p99, ms", "p99: last third / first"]
    yield markdown.table(
        Table(
            head,
            [
                [
                    row["route"],
                    f"{row['calls']:,}",
                    str(sum(row["errors"].values())),
                    _number(row["p50_ms"]),
                    _number(row["p99_ms"]),
                    _times(row["p99_drift"]),
                ]
                for row in routes
            ],
        )
    )
    lines = [
        [
            row["container"],
            _number(row["mib"]),
            _slope(row["mib_per_hour"]),
            _number(row["descriptors"]),
            _slope(row["descriptors_per_hour"]),
        ]
        for row in containers
    ]
    yield markdown.table(Table(["container", "MiB", "growth per hour", "descriptors", "growth per hour"], lines))


SECTIONS = {one.__name__: one for one in (faults, overload, rude, fuzz, soak)}


def _total(rows: Rows, name: str) -> int:
    return sum(sum(row[name].values()) for row in rows)


def _most(rows: Rows, name: str) -> float:
    return max((row[name] or 0 for row in rows), default=0)


def _kinds(rows: Rows, name: str) -> str:
    kinds = dict.fromkeys(kind for row in rows for kind in row[name])
    return ", ".join(f"{kind} {sum(row[name].get(kind, 0) for row in rows):,}" for kind in kinds) or "–"


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}" if whole else "–"


def _number(value: float | None) -> str:
    return "–" if not value else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _times(value: float | None) -> str:
    return f"{value:.2f}×" if value else "–"


def _largest(mib: Mapping[str, float]) -> str:
    service = max(mib, key=lambda name: mib[name])
    return f"{service} {mib[service]:,.0f}"


def _grown(mib: Sequence[Any]) -> str:
    return f"{mib[0]} {mib[1]:,.0f} → {mib[2]:,.0f}"


def _slope(found: Sequence[float] | None) -> str:
    return f"{found[0]:g} ({found[1]:g} to {found[2]:g})" if found else "–"
