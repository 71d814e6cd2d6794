"""The report's plots as inline SVG: text stays text, colours are CSS variables, so the page decides light or dark.

Each plot is drawn twice, for a wide and for a narrow page: a scaled-down picture cannot be read on a phone.
"""

import hashlib
import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter, NullLocator

from bench.report.results import Row, digits
from bench.result import Interval

# Stand-ins that are replaced by CSS variables; no drawing uses these colours for themselves.
INK, MUTED, LINE, PANEL, SHADE = "#010203", "#010204", "#010205", "#010206", "#010207"
FASTER, SLOWER = "#010208", "#010209"
VARIABLES = {
    INK: "ink", MUTED: "muted", LINE: "line", PANEL: "panel", SHADE: "shade", FASTER: "faster", SLOWER: "slower",
}  # fmt: skip

# Okabe and Ito's colours (Color Universal Design, 2008), which people with colour blindness tell apart. Their black is
# the page's ink. One hue per engine, the darker one for gRPC.
ROUTES = {
    "jpeg-http": INK, "onnx-http": "#56b4e9", "onnx-grpc": "#0072b2", "trt-http": "#e69f00", "trt-grpc": "#d55e00",
    "torchserve-http": "#cc79a7", "torchserve-grpc": "#009e73", "typed-http": "#cc79a7", "typed-grpc": "#009e73",
}  # fmt: skip
OTHERS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
# Paul Tol's muted scheme (Technical note SRON/EPS/TN/09-002), safe as well, and no route's colour.
PARTS = {
    "client encode": "#ddcc77", "network and edge": "#44aa99", "decode and preprocess": "#cc6677", "queue": "#999933",
    "compute": "#6655b5", "response": "#aa4499", "residue": LINE,
}  # fmt: skip
DARK_PARTS = ("compute", "response", "decode and preprocess", "network and edge", "queue")

OURS, THEIRS = OTHERS[:2]
LIGHT = {"ink": "#16191d", "muted": "#5c636d", "line": "#dfe1e5"}
"""The variables of a picture that stands in no page."""

WIDE, NARROW = 10.0, 4.7
"""Widths in inches of 72 SVG units."""


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot for wide and for narrow pages, and the same in words."""

    wide: str
    narrow: str
    alt: str


@dataclass(frozen=True, slots=True)
class Ratio:
    """A line of a forest plot: gRPC / HTTP or the like, with its interval where there is one."""

    label: str
    group: str
    value: float
    low: float | None
    high: float | None
    verdict: str
    """`faster`, `slower`, `no difference shown`, `no verdict`: of what is above the line."""


def colour(name: str, names: Sequence[str] = ()) -> str:
    """The colour of a row: its route's; names that are no route's take turns."""
    if name in ROUTES:
        return ROUTES[name]
    strangers = [one for one in dict.fromkeys(names) if one not in ROUTES]
    return OTHERS[strangers.index(name) % len(OTHERS)] if name in strangers else OTHERS[0]


def css(value: str) -> str:
    """A colour of this module as CSS."""
    return f"var(--{VARIABLES[value]})" if value in VARIABLES else value


def latency(rows: Sequence[Row]) -> Plot | None:
    """p50 by batch, log-log, and the same per image, which shows what a batch saves; None without two batches."""
    rows = [row for row in rows if row["p50_ms"]]
    if len({row["batch"] for row in rows}) < 2:
        return None

    def draw(figure: Figure, narrow: bool) -> None:
        calls, images = figure.subplots(2, 1) if narrow else figure.subplots(1, 2)
        _series(calls, rows, "batch", lambda row: row["p50_ms"], log=True)
        calls.set(title="per call, ms (log scale)", xlabel="images per call")
        _series(images, rows, "batch", lambda row: row["p50_ms"].times(1 / row["batch"]))
        images.set(title="per image, ms", xlabel="images per call")

    return _plot(draw, (4.2, 8.4), "p50 latency by batch with intervals. " + _listed(rows, "batch", "p50_ms", "ms"))


def throughput(rows: Sequence[Row]) -> Plot | None:
    """Images per second by number of callers; None without two numbers of callers."""
    rows = [row for row in rows if row["images_per_s"]]
    if len({row["users"] for row in rows}) < 2:
        return None

    def draw(figure: Figure, narrow: bool) -> None:
        axes = figure.subplots()
        _series(axes, rows, "users", lambda row: row["images_per_s"])
        axes.set(title="images per second", xlabel="callers at once")

    words = "Images per second by number of callers with intervals. "
    return _plot(draw, (4.0, 4.4), words + _listed(rows, "users", "images_per_s", "images/s"))


def split(rows: Sequence[Row]) -> Plot | None:
    """Stacked bars: where a call's time goes, for the smallest and the largest batch; None without any split."""
    rows = [row for row in rows if row["split"]]
    if not rows:
        return None
    batches = sorted({min(row["batch"] for row in rows), max(row["batch"] for row in rows)})
    shown = {batch: [row for row in rows if row["batch"] == batch] for batch in batches}

    def draw(figure: Figure, narrow: bool) -> None:
        grid = (len(batches), 1) if narrow else (1, len(batches))
        for axes, (batch, found) in zip(figure.subplots(*grid, squeeze=False).flat, shown.items(), strict=True):
            _stack(axes, found, named=narrow or batch == batches[0])
            axes.set_title(f"batch {batch}, ms per call")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside upper left", ncols=2 if narrow else 4, frameon=False, labelcolor=INK,
            handlelength=1, handleheight=1, columnspacing=1.2,
        )  # fmt: skip

    count = max(len(found) for found in shown.values())
    heights = (1.5 + 0.42 * count, 1.2 + (1.0 + 0.42 * count) * len(batches))
    words = [
        f"{row['name']}, batch {row['batch']}: "
        + ", ".join(f"{part} {digits(ms)}" for part, ms in row["split"].items() if ms)
        for found in shown.values()
        for row in found
    ]
    return _plot(draw, heights, "Where a call's time goes, in ms. " + "; ".join(words) + ".")


def payload(rows: Sequence[Row]) -> Plot | None:
    """Bytes on the wire per image, sent and received, on a log scale; None where none was counted."""
    smallest = min((row["batch"] for row in rows), default=1)
    rows = [row for row in rows if row["batch"] == smallest and row["sent_bytes_per_image"]]
    if not rows:
        return None
    title = "bytes on the wire per image (log scale)"

    def draw(figure: Figure, narrow: bool) -> None:
        axes = figure.subplots()
        for place, row in enumerate(reversed(rows)):
            sent, received = row["sent_bytes_per_image"], row["received_bytes_per_image"] or 0
            hue = colour(row["name"], [one["name"] for one in rows])
            ends = sorted(value for value in (sent, received) if value)
            axes.plot([ends[0], ends[-1]], [place, place], color=LINE, linewidth=2, zorder=1)
            close = len(ends) > 1 and ends[1] < 4 * ends[0]
            for value, face, word in ((sent, hue, "sent"), (received, PANEL, "received")):
                if value:
                    axes.plot(value, place, "o", color=hue, markerfacecolor=face, markersize=8, markeredgewidth=2)
                    # The smaller of the two has its number on the left: they never meet.
                    left = value == ends[0] and len(ends) > 1
                    beside = "right" if left else "left"
                    axes.annotate(
                        f"{_bytes(value)} {word}", (value, place), textcoords="offset points", color=INK,
                        xytext=((-3 if left else 3) if close else 0, 7) if narrow else (-9 if left else 9, 0),
                        ha=beside if close or not narrow else "center", va="bottom" if narrow else "center",
                    )  # fmt: skip
        low = min(row["received_bytes_per_image"] or row["sent_bytes_per_image"] for row in rows)
        high = max(max(row["sent_bytes_per_image"], row["received_bytes_per_image"] or 0) for row in rows)
        _log(axes, lambda value: _bytes(value).replace(".00", "").replace(".0", ""), [1e3, 1e5] if narrow else None)
        axes.set(xlim=(low / 8, high * 8), ylim=(-0.6, len(rows) - 0.25), title=title)
        axes.set_yticks(range(len(rows)), [row["name"] for row in reversed(rows)])

    words = [
        f"{row['name']} sends {_bytes(row['sent_bytes_per_image'])}, receives {_bytes(row['received_bytes_per_image'])}"
        for row in rows
    ]
    heights = (1.1 + 0.42 * len(rows), 1.2 + 0.62 * len(rows))
    return _plot(draw, heights, f"Bytes per image at batch {smallest}: {'; '.join(words)}.")


def forest(ratios: Sequence[Ratio], below: str, above: str) -> Plot | None:
    """Ratios with intervals around 1, log scale; `below` and `above` say what the two sides mean. None without any."""
    if not ratios:
        return None

    def draw(figure: Figure, narrow: bool) -> None:
        axes = figure.subplots()
        places, reach = _places(ratios), _reach(ratios)
        for place, ratio in zip(places, ratios, strict=True):
            _interval(axes, place, ratio, reach)
            if not narrow:
                axes.annotate(
                    in_words(ratio), (1.01, place), xycoords=axes.get_yaxis_transform(), va="center", color=INK
                )
        _around_one(axes, places, ratios, reach, (below, above), narrow)

    height = 0.9 + 0.27 * len(ratios) + 0.33 * len({ratio.group for ratio in ratios})
    words = [f"{ratio.group}, {ratio.label}: {in_words(ratio)}, {ratio.verdict}" for ratio in ratios]
    return _plot(draw, (height, height * 1.12), f"Ratios around 1; {below} below, {above} above. {'; '.join(words)}.")


def published(ours: str, ratios: Mapping[str, Mapping[str, Ratio]], below: str, above: str) -> Plot | None:
    """The same ratio as published (one open mark per device) and as measured here (filled, with its interval).

    `ratios` maps each line's label to who says it and what: `{"batch 8": {"A100": ..., "this run": ...}}`.
    """
    if not ratios:
        return None
    sources = [ours, *dict.fromkeys(who for line in ratios.values() for who in line if who != ours)]
    marks = dict(zip(sources, ("o", "D", "s", "^", "v", "P"), strict=False))
    first = [next(iter(line.values())) for line in ratios.values()]

    colours: dict[str, dict[str, Any]] = {who: {"color": MUTED, "markerfacecolor": PANEL} for who in sources}
    colours[ours] = {"color": INK, "markerfacecolor": INK}

    def draw(figure: Figure, narrow: bool) -> None:
        axes = figure.subplots()
        places, reach = _places(first), _reach([ratio for line in ratios.values() for ratio in line.values()])
        for place, line in zip(places, ratios.values(), strict=True):
            values = [ratio.value for ratio in line.values()]
            axes.plot([min(values), max(values)], [place, place], color=LINE, linewidth=2, zorder=1)
        for place, line in zip(places, ratios.values(), strict=True):
            for who, ratio in line.items():
                if who == ours and ratio.low and ratio.high:
                    axes.plot([ratio.low, ratio.high], [place, place], color=INK, linewidth=2.4, zorder=3)
                axes.plot(
                    ratio.value, place, marks[who], markersize=6.5, markeredgewidth=1.4, zorder=4 if who == ours else 3,
                    **colours[who],
                )  # fmt: skip
        _around_one(axes, places, first, reach, (below, above), narrow)
        for who in sources:
            axes.plot([], [], marks[who], label=who, **colours[who])
        figure.legend(loc="outside lower center", ncols=1 if narrow else len(sources), frameon=False, labelcolor=INK)

    height = 1.3 + 0.27 * len(ratios) + 0.33 * len({ratio.group for ratio in first})
    said = [", ".join(f"{who} {ratio.value:.2f}" for who, ratio in line.items()) for line in ratios.values()]
    words = [f"{ratio.group}, {ratio.label}: {numbers}" for ratio, numbers in zip(first, said, strict=True)]
    return _plot(draw, (height, height * 1.2), "Published and measured ratios. " + "; ".join(words) + ".")


def beside(groups: Mapping[str, Sequence[tuple[str, Interval | None, Iterable[float]]]], axis: str) -> str:
    """A picture of its own, for a Markdown page: (row, ours, what was published) by group, on a log scale."""
    heights = [0.9 + 0.27 * len(lines) for lines in groups.values()]

    def draw(figure: Figure, narrow: bool) -> None:
        all_axes = figure.subplots(len(groups), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (title, lines) in zip(all_axes, groups.items(), strict=True):
            for place, (_, ours, theirs) in enumerate(reversed(lines)):
                if ours:
                    span = [ours.low or ours.value, ours.high or ours.value]
                    axes.plot(span, [place, place], color=OURS, linewidth=3, alpha=0.5)
                    axes.plot(ours.value, place, "o", color=OURS, markersize=5)
                for value in theirs:
                    axes.plot(value, place, "D", color=THEIRS, markersize=4, fillstyle="none")
            axes.set_yticks(range(len(lines)), [name for name, *_ in reversed(lines)])
            _log(axes, "{:g}".format)
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7), numticks=12))
            axes.set(title=title, ylim=(-0.6, len(lines) - 0.4))
        all_axes[-1].set_xlabel(axis)

    svg = _svg(draw, 8.5, sum(heights), False, axis, "white")
    for variable, value in LIGHT.items():
        svg = svg.replace(f"var(--{variable})", value)
    return svg.replace(' aria-hidden="true"', ' xmlns:xlink="http://www.w3.org/1999/xlink"', 1) + "\n"


def _series(axes: Axes, rows: Sequence[Row], x: str, measure: Callable[[Row], Interval], *, log: bool = False) -> None:
    """A line per name with intervals, names beside its right end; a hollow mark where no verdict may rest on it."""
    names = list(dict.fromkeys(row["name"] for row in rows))
    steps = sorted({row[x] for row in rows})
    ends = {}
    for number, name in enumerate(names):
        # Side by side, so that one interval does not hide another.
        dodge = (number - (len(names) - 1) / 2) * 0.014 * len(steps)
        mine = sorted((row for row in rows if row["name"] == name), key=lambda row: row[x])
        places = [steps.index(row[x]) + dodge for row in mine]
        values = [measure(row).value for row in mine]
        hue, grpc = colour(name, names), name.endswith("grpc")
        axes.plot(places, values, color=hue, linewidth=1.6, linestyle=(0, (5, 1.5)) if grpc else "-", zorder=2)
        for place, row in zip(places, mine, strict=True):
            interval = measure(row)
            if interval.low and interval.high:
                axes.plot([place, place], [interval.low, interval.high], color=hue, linewidth=2.6, zorder=3)
            axes.plot(
                place, interval.value, "s" if grpc else "o", color=hue, markersize=6, zorder=4,
                markerfacecolor=PANEL if row["marks"] else hue, markeredgewidth=1.6,
            )  # fmt: skip
        ends[name] = values[-1]
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: digits(value) if value >= 100 else f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, max(measure(row).high or measure(row).value for row in rows) * 1.08)
    axes.set_xticks(range(len(steps)), [str(step) for step in steps])
    axes.set_xlim(-0.07 * len(steps), len(steps) - 1 + 0.07 * len(steps))
    _name_ends(axes, ends, len(steps) - 1 + 0.05 * len(steps), names)


def _name_ends(axes: Axes, ends: Mapping[str, float], x: float, names: Sequence[str]) -> None:
    """Names beside the right ends of their lines, moved apart where lines end together."""
    scale = math.log if axes.get_yscale() == "log" else float
    low, high = (scale(limit) for limit in axes.get_ylim())
    order = sorted(ends, key=lambda name: ends[name])
    heights = _spread([(scale(ends[name]) - low) / (high - low) for name in order], 0.075)
    for name, height in zip(order, heights, strict=True):
        axes.annotate(
            name, (x, ends[name]), (1.03, height), textcoords="axes fraction", va="center", color=INK,
            annotation_clip=False, arrowprops={"arrowstyle": "-", "color": colour(name, names), "linewidth": 1.1},
        )  # fmt: skip


def _spread(places: Sequence[float], gap: float) -> list[float]:
    """Ascending places moved apart to at least `gap`, as little as can be, and kept between 0 and 1."""
    spread = list(places)
    for _ in range(200):
        for index in range(len(spread) - 1):
            lack = gap - (spread[index + 1] - spread[index])
            if lack > 1e-6:
                spread[index] -= lack / 2
                spread[index + 1] += lack / 2
    over = max(0.0, spread[-1] - 1) if spread else 0.0
    under = max(0.0, -spread[0]) if spread else 0.0
    return [place - over + under for place in spread]


def _stack(axes: Axes, rows: Sequence[Row], *, named: bool) -> None:
    """Bars from left to right in the order of a call; parts too narrow for their number go without it."""
    parts = list(dict.fromkeys(part for row in rows for part in row["split"]))
    widest = max(sum(max(ms, 0) for ms in row["split"].values()) for row in rows)
    for place, row in enumerate(reversed(rows)):
        left = 0.0
        for part in parts:
            ms = max(row["split"].get(part, 0.0), 0.0)
            axes.barh(
                place, ms, left=left, height=0.66, color=PARTS.get(part, MUTED), edgecolor=PANEL, linewidth=0.8,
                label=part if place == 0 else None, hatch="///" if part == "residue" else None,
            )  # fmt: skip
            if ms > 0.11 * widest:
                hue = "#ffffff" if part in DARK_PARTS else "#000000" if part in PARTS else INK
                axes.text(left + ms / 2, place, digits(ms), ha="center", va="center", color=hue, size="small")
            left += ms
        axes.text(left + widest * 0.015, place, digits(sum(row["split"].values())), va="center", color=INK)
    axes.set_xlim(0, widest * 1.16)
    axes.set_yticks(range(len(rows)), [row["name"] for row in reversed(rows)] if named else [""] * len(rows))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.grid(axis="y", visible=False)


def in_words(ratio: Ratio) -> str:
    """`1.12 (1.05–1.20)`."""
    return f"{ratio.value:.2f}" + (f" ({ratio.low:.2f}–{ratio.high:.2f})" if ratio.low and ratio.high else "")


def _interval(axes: Axes, place: float, ratio: Ratio, reach: float) -> None:
    """One line of a forest plot; a grey band behind the lines that show no difference."""
    hue = {"faster": FASTER, "slower": SLOWER}.get(ratio.verdict, MUTED)
    decided = ratio.verdict in ("faster", "slower")
    if ratio.verdict == "no difference shown":
        axes.fill_betweenx([place - 0.42, place + 0.42], 1 / reach, reach, color=SHADE, linewidth=0, zorder=0)
    if ratio.low and ratio.high:
        style = ":" if ratio.verdict == "no verdict" else "-"
        axes.plot([ratio.low, ratio.high], [place, place], color=hue, linewidth=2.6, linestyle=style, zorder=2)
    axes.plot(
        ratio.value, place, "o", color=hue, markersize=6, markerfacecolor=hue if decided else PANEL,
        markeredgewidth=1.6, zorder=3,
    )  # fmt: skip


def _places(ratios: Sequence[Ratio]) -> list[float]:
    """Heights from top to bottom with room for a heading above each group."""
    places, height, group = [], 0.0, None
    for ratio in ratios:
        height -= 1.25 if group is not None and ratio.group != group else 0.0
        places.append(height)
        height, group = height - 1, ratio.group
    return places


def _around_one(
    axes: Axes, places: Sequence[float], lines: Sequence[Ratio], reach: float, sides: tuple[str, str], narrow: bool
) -> None:
    """A log axis of ratios that reaches as far to both sides, with its lines grouped under headings."""
    axes.axvline(1, color=INK, linewidth=1.2, zorder=1)
    _log(axes, "{:.3g}×".format, _ratio_ticks(reach, 5 if narrow else 9))
    axes.set_yticks(places, [line.label for line in lines])
    axes.set(xlim=(1 / reach, reach), ylim=(min(places) - 0.7, max(places) + 1.4))
    heights = dict(zip((line.group for line in reversed(lines)), reversed(places), strict=True))
    for group, top in heights.items():
        axes.annotate(
            group, (0, top + 0.85), xycoords=axes.get_yaxis_transform(), va="center", color=INK, weight="bold"
        )
    axes.set_title(f"◀ {sides[0]}", loc="left", color=FASTER)
    axes.set_title(f"{sides[1]} ▶", loc="right", color=SLOWER)


def _log(axes: Axes, text: Callable[[float], str], ticks: Sequence[float] | None = None) -> None:
    """A log axis below lines that have names of their own, with these ticks where they are not left to matplotlib."""
    axes.set_xscale("log")
    axes.xaxis.set(major_formatter=lambda value, _: text(value), minor_locator=NullLocator())
    if ticks:
        axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.grid(axis="y", visible=False)


def _reach(ratios: Sequence[Ratio]) -> float:
    """How far an axis of ratios goes to both sides of 1."""
    edges = [edge for ratio in ratios for edge in (ratio.value, ratio.low, ratio.high) if edge]
    return float(max(1.08, *(max(edge, 1 / edge) for edge in edges)) ** 1.08)


def _ratio_ticks(reach: float, most: int) -> list[float]:
    """1 and, on both sides, as many round ratios as have room; the coarsest of them are the first."""
    pairs = ((10, 0.1), (5, 0.2), (3, 0.33), (2, 0.5), (1.5, 0.67), (1.25, 0.8), (1.1, 0.9), (1.05, 0.95), (1.02, 0.98))
    ticks, room = [1.0], 2 * math.log(reach) / most
    for pair in pairs:
        for tick in pair:
            if 1 / reach < tick < reach and min(abs(math.log(tick / other)) for other in ticks) >= room:
                ticks.append(tick)
    return sorted(ticks)


def _plot(draw: Callable[[Figure, bool], None], heights: tuple[float, float], alt: str) -> Plot:
    return Plot(_svg(draw, WIDE, heights[0], False, alt), _svg(draw, NARROW, heights[1], True, alt), alt)


def _svg(
    draw: Callable[[Figure, bool], None], width: float, height: float, narrow: bool, alt: str, behind: str = "none"
) -> str:
    # The ids inside an SVG are the page's ids too: each drawing gets its own, the same in every run.
    salt = hashlib.sha256(f"{alt}{width}".encode()).hexdigest()[:8]
    style: dict[Any, Any] = {
        "svg.fonttype": "none", "svg.hashsalt": salt, "font.family": "sans-serif", "font.size": 10.5 if narrow else 9,
        "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False, "axes.edgecolor": MUTED,
        "axes.labelcolor": MUTED, "axes.titlecolor": MUTED, "axes.titlesize": "medium", "axes.titlelocation": "left",
        "axes.titlepad": 9, "axes.grid": True, "axes.facecolor": "none", "axes.axisbelow": True, "grid.color": LINE,
        "grid.linewidth": 0.7, "text.color": INK, "xtick.color": MUTED, "ytick.color": LINE, "ytick.labelcolor": INK,
        "xtick.labelcolor": MUTED, "ytick.major.size": 0, "ytick.minor.size": 0, "xtick.major.size": 3,
        "hatch.color": MUTED, "hatch.linewidth": 0.5, "text.parse_math": False,
    }  # fmt: skip
    with mpl.rc_context(style):
        layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06, wspace=0.05, hspace=0.08)
        figure = Figure(figsize=(width, height), layout=layout, facecolor=behind)
        draw(figure, narrow)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _inline(text.getvalue(), salt)


def _inline(svg: str, salt: str) -> str:
    """An SVG document as part of a page: no prolog, no size of its own, no id twice, colours from the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.S)
    box = re.search(r'viewBox="[^"]*"', svg)
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" {box[0] if box else ""} aria-hidden="true">'
    svg = re.sub(r"<svg[^>]*>", begin, svg, count=1)
    used = set(re.findall(r"#([\w.-]+)(?=[\")])", svg))
    svg = re.sub(r' id="([\w.-]+)"', lambda found: f' id="{salt}-{found[1]}"' if found[1] in used else "", svg)
    svg = re.sub(r'(url\(#|href="#)([\w.-]+)', rf"\g<1>{salt}-\g<2>", svg)
    for stand_in, variable in VARIABLES.items():
        svg = svg.replace(stand_in, f"var(--{variable})")
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \g<1>px", svg)
    svg = re.sub(r"font: (bold|700) ([\d.]+)px [^;\"]*", r"font-size: \g<2>px; font-weight: 700", svg)
    return re.sub(r"\n\s*", "\n", svg).strip()


def _listed(rows: Iterable[Row], x: str, measure: str, unit: str) -> str:
    """The numbers of a plot as a sentence per name."""
    words: dict[str, list[str]] = {}
    for row in rows:
        words.setdefault(row["name"], []).append(f"{digits(row[measure]['value'])} at {row[x]}")
    return " ".join(f"{name}: {', '.join(values)} {unit}." for name, values in words.items())


def _bytes(count: float | None) -> str:
    """A size in bytes or decimal kB and MB."""
    if not count:
        return "0 B"
    for limit, unit in ((1e6, "MB"), (1e3, "kB")):
        if count >= limit:
            return f"{digits(count / limit)} {unit}"
    return f"{count:.0f} B"
