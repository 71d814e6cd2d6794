"""docs/reliability.md, made of results of scripts/chaos: a sentence per subject, then its table."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
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
    elsewhere, calls = _total(found.rows, "failed_elsewhere"), _sum(found.rows, "calls_elsewhere")
    wrong, rate = _sum(found.rows, "wrong"), found.settings.get("rate", 2.0)
    late = [name for name, rows in several.items() if _most(rows, "recovery_s") > GOAL_RECOVERY_S]
    slow = [name for name, rows in several.items() if _most(rows, "slowest_error_ms") > GOAL_ERROR_MS]
    yield "## Faults"
    yield (
        f"**{len(found.rows)} faults under load: {elsewhere} of {calls:,} calls failed on routes that do not pass the"
        f" server, and {wrong} answers were wrong.** Calls per second of each route meanwhile: {rate:g}."
    )
    yield (
        f"Goals: no failure elsewhere; an error within 1 s; recovery within {GOAL_RECOVERY_S:g} s. Not met:"
        f" an error took longer in {len(slow)} of {len(several)} faults, recovery in {len(late)}."
    )
    yield _table(
        several.values(),
        ("fault", lambda rows: rows[0]["fault"]),
        ("failed elsewhere", lambda rows: _of(_total(rows, "failed_elsewhere"), _sum(rows, "calls_elsewhere"))),
        ("failed on its routes", lambda rows: _of(_total(rows, "seen"), _sum(rows, "calls"))),
        ("as", lambda rows: _kinds(rows, "seen")),
        ("slowest error, ms", lambda rows: _number(_most(rows, "slowest_error_ms"))),
        ("recovery, s", lambda rows: " ".join(_seconds(row["recovery_s"]) for row in rows)),
    )
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
    beside = [row for row in ten if row["beside"][3] >= GOAL_BESIDE]
    yield "## Overload"
    yield (
        f"**At ten times what a route can do, {len(kept)} of {len(ten)} routes keep 90 % of it, {len(quick)} answer"
        f" within five times the unloaded p99, and beside {len(beside)} another server's route keeps 90 % of its"
        " calls.** Calls come on a schedule, however slow the answers are. The load shares the machine with the"
        " servers."
    )
    yield _table(
        found.rows,
        ("route", lambda row: row["route"]),
        ("load", lambda row: f"{row['factor']}×"),
        ("asked per s", lambda row: _number(row["offered"])),
        ("load, cores", lambda row: _number(row["load_cores"])),
        ("answered per s", lambda row: _number(row["goodput"])),
        ("of its peak", lambda row: f"{100 * row['goodput'] / row['peak']:.0f} %"),
        ("p50, ms", lambda row: _number(row["p50_ms"])),
        ("p99, ms", lambda row: _number(row["p99_ms"])),
        ("p99 alone, ms", lambda row: _number(row["alone_p99_ms"])),
        ("refused as", lambda row: _kinds([row], "refused")),
        ("refusal p50, ms", lambda row: _number(row["refusal_ms"][0])),
        ("beside: answered, p50", lambda row: f"{100 * row['beside'][3]:.0f} %, {_times(row['beside'][1])}"),
        ("after: p50", lambda row: _times(row["after"][0])),
        ("most MiB", lambda row: "{} {:,.0f}".format(*max(row["mib"].items(), key=lambda one: one[1]))),
    )
    yield (
        "A route's peak is measured just before each load. Making the calls and refusing them takes cores from the"
        " servers here: the column says how many the load took. The p99 of what is answered is that of a full queue,"
        " which is as long as many callers with batches need: up to `MAX_WAIT_S` (5 s) at the JPEG server and the typed"
        " gateway, 150 requests at TorchServe, 256 at Triton, and 128 photos over HTTP or to TorchServe at the edge."
        " Set less where answers must be quick ([decision 23](decisions/0023-a-queue-is-bounded-in-time.md))."
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
    yield _table(
        found.rows,
        ("attack", lambda row: row["attack"]),
        ("connections", lambda row: f"{row['connections']:,}"),
        ("closed by the edge", lambda row: f"{row['closed']:,}"),
        *((f"{way}: answered, p50", partial(_answered, way)) for way in found.rows[0]["others"]),
        ("edge, MiB", lambda row: _number(row["mib"].get("edge"))),
    )


def _answered(way: str, row: Mapping[str, Any]) -> str:
    one = row["others"][way]
    return f"{100 * one['rate']:.0f} %, {_times(one['p50'])}"


def fuzz(found: Figures) -> Iterable[str]:
    """One line per way in."""
    cases, wrong = _sum(found.rows, "cases"), sum(len(row["undeclared"]) for row in found.rows)
    ended = [one for row in found.rows for one in row["restarted"]]
    yield "## Hostile input"
    yield (
        f"**{cases:,} requests that are nearly right: {len(ended)} processes ended, and {wrong} answers were undeclared"
        " or spoke of the inside.** [errors.md](errors.md) declares the answers."
    )
    yield _table(
        found.rows,
        ("way in", lambda row: row["way"]),
        ("cases", lambda row: f"{row['cases']:,}"),
        ("answers", lambda row: _kinds([row], "statuses")),
        ("undeclared", lambda row: str(len(row["undeclared"]))),
        ("grew most, MiB", lambda row: "{} {:,.0f} → {:,.0f}".format(*row["mib"])),
    )


def soak(found: Figures) -> Iterable[str]:
    """Lines per route, then per container."""
    routes = [row for row in found.rows if "route" in row]
    containers = [row for row in found.rows if "container" in row]
    failed, calls = _total(routes, "errors"), _sum(routes, "calls")
    growing = [row["container"] for row in containers if (row["mib_per_hour"] or [0, 0])[1] > 0]
    yield "## A long load"
    yield (
        f"**{found.settings['minutes']:g} minutes on all routes: {failed} of {calls:,} calls failed, and memory grew in"
        f" {len(growing)} of {len(containers)} containers{': ' * bool(growing)}{', '.join(growing)}.** Growth counts"
        " where its 95 % interval is above zero: so one step counts like a steady growth, and the readings of thirds"
        " tell them apart."
    )
    yield _table(
        routes,
        ("route", lambda row: row["route"]),
        ("calls", lambda row: f"{row['calls']:,}"),
        ("failed", lambda row: str(_total([row], "errors"))),
        ("p50, ms", lambda row: _number(row["p50_ms"])),
        ("p99, ms", lambda row: _number(row["p99_ms"])),
        ("p99: last third / first", lambda row: _times(row["p99_drift"])),
    )
    yield _table(
        containers,
        ("container", lambda row: row["container"]),
        ("MiB after a third, two, all", lambda row: " → ".join(map(_number, _thirds(row["mib"])))),
        ("growth per hour", lambda row: _slope(row["mib_per_hour"])),
        ("descriptors", lambda row: _number(row["descriptors"])),
        ("growth per hour", lambda row: _slope(row["descriptors_per_hour"])),
    )


SECTIONS = {one.__name__: one for one in (faults, overload, rude, fuzz, soak)}


def _table[T](rows: Iterable[T], *columns: tuple[str, Callable[[T], str]]) -> str:
    """A line per row; a column is its head, and what it says of a row."""
    return markdown.table(Table([head for head, _ in columns], [[say(row) for _, say in columns] for row in rows]))


def _sum(rows: Rows, name: str) -> int:
    return sum(row[name] for row in rows)


def _total(rows: Rows, name: str) -> int:
    """Of counts by kind."""
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


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


def _thirds(values: Sequence[float]) -> Sequence[float]:
    """At the end of each."""
    return [values[(len(values) * third - 1) // 3] for third in (1, 2, 3)]


def _slope(found: Sequence[float] | None) -> str:
    return f"{found[0]:g} ({found[1]:g} to {found[2]:g})" if found else "–"
