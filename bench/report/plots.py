"""The report's plots as inline SVG: text stays text, colours are CSS variables, so the page decides light or dark.

Each plot is a text, empty if there is nothing to draw. On a narrow page a plot keeps its size and scrolls.
"""

import hashlib
import html
import io
import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullFormatter, NullLocator

from bench.figures import digits
from bench.report.results import Row, grouped
from bench.result import EVERY, FASTER, NO_DIFFERENCE, NO_VERDICT, SAME, SERVERS, SLOWER, Interval, Ratio

# Stand-ins that are replaced by CSS variables; no drawing uses these colours for themselves.
INK, MUTED, LINE, PANEL, SHADE = "#010203", "#010204", "#010205", "#010206", "#010207"
OF_VERDICTS = {FASTER: "#010208", SLOWER: "#010209"}
VARIABLES = dict(zip((INK, MUTED, LINE, PANEL, SHADE), ("ink", "muted", "line", "panel", "shade"), strict=True))
VARIABLES |= {colour: verdict for verdict, colour in OF_VERDICTS.items()}

# Okabe and Ito's colours (Color Universal Design, 2008), which people with colour blindness tell apart. Their black is
# the page's ink. One hue per engine, the darker one for gRPC.
ROUTES = {
    "jpeg-http": INK, "onnx-http": "#56b4e9", "onnx-grpc": "#0072b2", "trt-http": "#e69f00", "trt-grpc": "#d55e00",
    "onnx-grpc-grpcio": "#009e73",
    "torchserve-http": "#cc79a7", "torchserve-grpc": "#009e73", "typed-http": "#cc79a7", "typed-grpc": "#009e73",
}  # fmt: skip
OTHERS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
# Paul Tol's muted scheme (Technical note SRON/EPS/TN/09-002), safe as well, and no route's colour.
PARTS = {
    "client encode": "#ddcc77", "network and edge": "#44aa99", "decode and preprocess": "#cc6677", "queue": "#999933",
    "compute": "#6655b5", "response": "#aa4499", "residue": LINE,
    "client": "#ddcc77", "edge": "#44aa99", "triton": "#6655b5", "jpeg-http": INK, "torchserve": "#cc6677",
    "typed-grpc": "#aa4499",
}  # fmt: skip
"""Of a call's time, and of its CPU time."""
ON = {"#ddcc77": "#000000", LINE: INK, INK: PANEL}
"""The colour of numbers on these parts. The others are dark: it is white."""

OURS, THEIRS = OTHERS[:2]
LIGHT = {"ink": "#16191d", "muted": "#5c636d", "line": "#dfe1e5"}
"""The CSS variables of a picture that is not part of a page."""
type Published = Mapping[tuple[str, str], Mapping[str, float]]
"""(a, b), the ids of two cells -> device -> the published ratio of their times."""
WIDTH = 8.5
"""In inches of 72 SVG units."""


def colour(name: str, names: Sequence[str] = ()) -> str:
    """The colour of a row: its route's. Other names take the spare colours in turn."""
    if name in ROUTES:
        return ROUTES[name]
    strangers = [one for one in dict.fromkeys(names) if one not in ROUTES]
    return OTHERS[strangers.index(name) % len(OTHERS)] if name in strangers else OTHERS[0]


def css(value: str) -> str:
    """A colour of this module as CSS."""
    return f"var(--{VARIABLES[value]})" if value in VARIABLES else value


def latency(rows: Sequence[Row]) -> str:
    """p50 by batch, log-log, and the same per image, which shows what a batch saves; empty without two batches."""
    rows = [row for row in rows if row["p50_ms"]]
    if len({row["batch"] for row in rows}) < 2:
        return ""

    def draw(figure: Figure) -> None:
        calls, images = figure.subplots(1, 2)
        _series(calls, rows, "batch", lambda row: row["p50_ms"], log=True)
        calls.set(title="per call, ms (log scale)", xlabel="images per call")
        _series(images, rows, "batch", lambda row: row["p50_ms"].times(1 / row["batch"]))
        images.set(title="per image, ms", xlabel="images per call")
        _legend(figure)

    return _svg(draw, 4.0, "p50 latency by batch with intervals. " + _listed(rows, "batch", "p50_ms", "ms"))


def throughput(rows: Sequence[Row]) -> str:
    """Images per second by number of callers; empty without two numbers of callers."""
    rows = [row for row in rows if row["images_per_s"]]
    if len({row["users"] for row in rows}) < 2:
        return ""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        _series(axes, rows, "users", lambda row: row["images_per_s"])
        axes.set(title="images per second", xlabel="callers at once")
        _legend(figure)

    words = "Images per second by number of callers with intervals. "
    return _svg(draw, 3.8, words + _listed(rows, "users", "images_per_s", "images/s"))


def split(rows: Sequence[Row]) -> str:
    """Stacked bars: where a call's time goes, for the smallest and the largest batch; empty without any split."""
    return _stacks([(row, row["split"]) for row in rows if row["split"]], "ms per call", "Where a call's time goes")


def cost(rows: Sequence[Row]) -> str:
    """Stacked bars: CPU time by part, for the smallest and the largest batch; empty where it was not read."""
    parts = [
        (row, {part: found.value for part, found in row["cpu_ms"].items() if part not in (EVERY, SERVERS)})
        for row in rows
        if EVERY in row["cpu_ms"]
    ]
    return _stacks(parts, "CPU-ms per image", "CPU time per image")


def _stacks(bars: Sequence[tuple[Row, Mapping[str, float]]], unit: str, title: str) -> str:
    if not bars:
        return ""
    batches = sorted({min(row["batch"] for row, _ in bars), max(row["batch"] for row, _ in bars)})
    shown = {batch: [(row["name"], parts) for row, parts in bars if row["batch"] == batch] for batch in batches}

    def draw(figure: Figure) -> None:
        all_axes = figure.subplots(1, len(batches), squeeze=False)[0]
        for axes, (batch, found) in zip(all_axes, shown.items(), strict=True):
            _stack(axes, found, named=batch == batches[0])
            axes.set_title(f"batch {batch}, {unit}")
        _legend(figure, handlelength=1, handleheight=1)

    words = [
        f"{name}, batch {batch}: " + ", ".join(f"{part} {digits(number)}" for part, number in parts.items() if number)
        for batch, found in shown.items()
        for name, parts in found
    ]
    height = 1.5 + 0.42 * max(len(found) for found in shown.values())
    return _svg(draw, height, f"{title}, in {unit}. {'; '.join(words)}.")


def payload(rows: Sequence[Row]) -> str:
    """Bytes on the wire per image, sent and received, on a log scale; empty where none was counted."""
    smallest = min((row["batch"] for row in rows), default=1)
    rows = [row for row in rows if row["batch"] == smallest and row["sent_bytes_per_image"]]
    if not rows:
        return ""
    counts = {row["name"]: (row["sent_bytes_per_image"], row["received_bytes_per_image"] or 0) for row in rows}

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for place, (name, (sent, received)) in enumerate(reversed(counts.items())):
            hue = colour(name, list(counts))
            axes.plot([received or sent, sent], [place, place], color=LINE, linewidth=2, zorder=1)
            for value, other, face, word in ((sent, received, hue, "sent"), (received, sent, PANEL, "received")):
                if value:
                    axes.plot(value, place, "o", color=hue, markerfacecolor=face, markersize=8, markeredgewidth=2)
                    # The smaller of the two has its number on the left: they never meet.
                    side, beside = (-9, "right") if 0 < value < other else (9, "left")
                    about: dict[str, Any] = {"textcoords": "offset points", "color": INK, "ha": beside, "va": "center"}
                    axes.annotate(f"{_bytes(value)} {word}", (value, place), (side, 0), **about)
        _log(axes, lambda value: _bytes(value).replace(".00", "").replace(".0", ""))
        known = [value for pair in counts.values() for value in pair if value]
        axes.set(xlim=(min(known) / 8, max(known) * 8), ylim=(-0.6, len(counts) - 0.25))
        axes.set_title("bytes on the wire per image (log scale)")
        axes.set_yticks(range(len(counts)), list(reversed(counts)))

    words = [f"{name} sends {_bytes(sent)}, receives {_bytes(received)}" for name, (sent, received) in counts.items()]
    return _svg(draw, 1.1 + 0.42 * len(counts), f"Bytes per image at batch {smallest}: {'; '.join(words)}.")


def forest(ratios: Iterable[Ratio], below: str, above: str, published: Published | None = None) -> str:
    """Ratios of times with intervals around 1, log scale, in groups by pair; empty without any.

    `below` and `above` say what the two sides mean. `published`: what others found, an open mark per device.
    """
    lines = [
        (ratio, time)
        for ratio in sorted(ratios, key=lambda ratio: (ratio.a_name, ratio.b_name))
        if (time := ratio.time)
    ]
    theirs = [(published or {}).get((ratio.a, ratio.b), {}) for ratio, _ in lines]
    devices = dict(zip(dict.fromkeys(who for line in theirs for who in line), "Ds^vP", strict=False))
    if not lines:
        return ""
    edges = [edge for _, time in lines for edge in (time.value, time.low, time.high) if edge]
    edges += [value for line in theirs for value in line.values()]
    reach = float(max(1.08, *(max(edge, 1 / edge) for edge in edges)) ** 1.08)
    pairs = [f"{ratio.a_name} / {ratio.b_name}" for ratio, _ in lines]
    groups = list(dict.fromkeys(pairs))
    # From top to bottom, with room for a heading above each pair.
    places = [-number - 1.25 * groups.index(pair) for number, pair in enumerate(pairs)]
    open_: dict[str, Any] = {"color": MUTED, "markerfacecolor": PANEL, "linestyle": "", "markeredgewidth": 1.4}

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        beside: dict[str, Any] = {"xycoords": axes.get_yaxis_transform(), "va": "center", "color": INK}
        for place, (ratio, time), line in zip(places, lines, theirs, strict=True):
            hue, face = OF_VERDICTS.get(ratio.speed, MUTED), OF_VERDICTS.get(ratio.speed, PANEL)
            if ratio.verdict in (SAME, NO_DIFFERENCE):
                axes.fill_betweenx([place - 0.42, place + 0.42], 1 / reach, reach, color=SHADE, linewidth=0, zorder=0)
            if time.low and time.high:
                style = ":" if ratio.verdict == NO_VERDICT else "-"
                axes.plot([time.low, time.high], [place, place], color=hue, linewidth=2.6, linestyle=style, zorder=2)
            axes.plot(time.value, place, "o", color=hue, markerfacecolor=face, markeredgewidth=1.6, zorder=4)
            for who, value in line.items():
                axes.plot(value, place, marker=devices[who], zorder=3, **open_)
            axes.annotate(_two_decimals(time), (1.01, place), **beside)
        for pair in groups:
            axes.annotate(pair, (0, places[pairs.index(pair)] + 0.85), weight="bold", **beside)
        axes.axvline(1, color=INK, linewidth=1.2, zorder=1)
        _log(axes, "{:.3g}×".format)
        axes.xaxis.set_major_locator(FixedLocator(_ratio_ticks(reach)))
        axes.set_yticks(places, [ratio.case for ratio, _ in lines])
        axes.set(xlim=(1 / reach, reach), ylim=(places[-1] - 0.7, 1.4))
        axes.set_title(f"◀ {below}", loc="left", color=OF_VERDICTS[FASTER])
        axes.set_title(f"{above} ▶", loc="right", color=OF_VERDICTS[SLOWER])
        for who, mark in devices.items():
            axes.plot([], [], marker=mark, label=who, **open_)
        if devices:
            figure.legend(loc="outside lower center", ncols=len(devices))

    words = [
        f"{pair}, {ratio.case}: {_two_decimals(time)}, {ratio.speed}"
        + "".join(f", {who} {value:.2f}" for who, value in line.items())
        for pair, (ratio, time), line in zip(pairs, lines, theirs, strict=True)
    ]
    height = 0.9 + 0.4 * bool(devices) + 0.27 * len(lines) + 0.33 * len(groups)
    return _svg(draw, height, f"Ratios around 1; {below} below, {above} above. {'; '.join(words)}.")


def _two_decimals(time: Interval) -> str:
    """`1.12 (1.05–1.20)`."""
    return f"{time.value:.2f}" + (f" ({time.low:.2f}–{time.high:.2f})" if time.low and time.high else "")


def _ratio_ticks(reach: float) -> list[float]:
    """1 and, on both sides, as many round ratios as have room; the coarsest of them are the first."""
    pairs = ((10, 0.1), (5, 0.2), (3, 0.33), (2, 0.5), (1.5, 0.67), (1.25, 0.8), (1.1, 0.9), (1.05, 0.95), (1.02, 0.98))
    ticks, room = [1.0], 2 * math.log(reach) / 9
    for tick in itertools.chain(*pairs):
        if 1 / reach < tick < reach and min(abs(math.log(tick / other)) for other in ticks) >= room:
            ticks.append(tick)
    return sorted(ticks)


def beside(groups: Mapping[str, Sequence[tuple[str, Interval, Iterable[float]]]], axis: str) -> str:
    """A picture of its own, for a Markdown page: (row, ours, what was published) by group, on a log scale."""
    heights = [0.9 + 0.27 * len(lines) for lines in groups.values()]

    def draw(figure: Figure) -> None:
        figure.set_facecolor("white")
        all_axes = figure.subplots(len(groups), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (title, lines) in zip(all_axes, groups.items(), strict=True):
            for place, (_, ours, theirs) in enumerate(reversed(lines)):
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

    svg = _svg(draw, sum(heights), axis)
    for variable, value in LIGHT.items():
        svg = svg.replace(f"var(--{variable})", value)
    return svg + "\n"


def _series(axes: Axes, rows: Sequence[Row], x: str, measure: Callable[[Row], Interval], *, log: bool = False) -> None:
    """A line per name with intervals; a hollow mark where no verdict may rest on it."""
    names = list(dict.fromkeys(row["name"] for row in rows))
    steps = sorted({row[x] for row in rows})
    for number, name in enumerate(names):
        # Shifted sideways, so that one interval does not hide another.
        dodge = (number - (len(names) - 1) / 2) * 0.014 * len(steps)
        mine = sorted((row for row in rows if row["name"] == name), key=lambda row: row[x])
        places = [steps.index(row[x]) + dodge for row in mine]
        hue, grpc = colour(name, names), "-grpc" in name
        style: dict[str, Any] = {"color": hue, "marker": "s" if grpc else "o", "markeredgewidth": 1.6}
        line = (0, (5, 1.5)) if grpc else "-"
        axes.plot(places, [measure(row).value for row in mine], linestyle=line, label=name, zorder=2, **style)
        for place, row in zip(places, mine, strict=True):
            interval = measure(row)
            if interval.low and interval.high:
                axes.plot([place, place], [interval.low, interval.high], color=hue, linewidth=2.6, zorder=3)
            if row["marks"]:
                axes.plot(place, interval.value, markerfacecolor=PANEL, zorder=4, **style)
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: digits(value) if value >= 100 else f"{value:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, max(measure(row).high or measure(row).value for row in rows) * 1.08)
    axes.set_xticks(range(len(steps)), [str(step) for step in steps])


def _legend(figure: Figure, **style: Any) -> None:
    """Above the axes, of what the first of them names."""
    named = figure.axes[0].get_legend_handles_labels()
    figure.legend(*named, loc="outside upper left", ncols=5, columnspacing=1.2, **style)


def _stack(axes: Axes, bars: Sequence[tuple[str, Mapping[str, float]]], *, named: bool) -> None:
    """(name, its parts) as bars from left to right; parts too narrow for their number go without it."""
    parts = list(dict.fromkeys(part for _, found in bars for part in found))
    widest = max(sum(max(number, 0) for number in found.values()) for _, found in bars)
    for place, (_, found) in enumerate(reversed(bars)):
        left = 0.0
        for part in parts:
            number = max(found.get(part, 0.0), 0.0)
            bar: dict[str, Any] = {"label": part if place == 0 else None, "hatch": "///" if part == "residue" else None}
            bar |= {"color": PARTS.get(part, MUTED), "edgecolor": PANEL, "linewidth": 0.8}
            axes.barh(place, number, left=left, height=0.66, **bar)
            if number > 0.11 * widest:
                hue = INK if part not in PARTS else ON.get(PARTS[part], "#ffffff")
                axes.text(left + number / 2, place, digits(number), ha="center", va="center", color=hue, size="small")
            left += number
        axes.text(left + widest * 0.015, place, digits(sum(found.values())), va="center", color=INK)
    axes.set_xlim(0, widest * 1.16)
    axes.set_yticks(range(len(bars)), [name for name, _ in reversed(bars)] if named else [""] * len(bars))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.grid(axis="y", visible=False)


def _log(axes: Axes, text: Callable[[float], str]) -> None:
    """A log axis below lines that have names of their own."""
    axes.set_xscale("log")
    axes.xaxis.set(major_formatter=lambda value, _: text(value), minor_locator=NullLocator())
    axes.grid(axis="y", visible=False)


STYLE: dict[Any, Any] = {
    "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9, "legend.frameon": False,
    "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False, "axes.edgecolor": MUTED,
    "axes.labelcolor": MUTED, "axes.titlecolor": MUTED, "axes.titlesize": "medium", "axes.titlelocation": "left",
    "axes.titlepad": 9, "axes.grid": True, "axes.facecolor": "none", "axes.axisbelow": True, "grid.color": LINE,
    "grid.linewidth": 0.7, "text.color": INK, "xtick.color": MUTED, "ytick.color": LINE, "ytick.labelcolor": INK,
    "xtick.labelcolor": MUTED, "ytick.major.size": 0, "ytick.minor.size": 0, "xtick.major.size": 3,
    "hatch.color": MUTED, "hatch.linewidth": 0.5, "text.parse_math": False, "legend.labelcolor": INK,
}  # fmt: skip


def _svg(draw: Callable[[Figure], None], height: float, alt: str) -> str:
    """What `draw` draws as part of a page: no prolog, no size of its own, no id twice, colours from the page.

    `alt` is the same in words, for those who cannot see it.
    """
    with mpl.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.06, wspace=0.05, hspace=0.08)
        figure = Figure(figsize=(WIDTH, height), layout=layout, facecolor="none")
        draw(figure)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", text.getvalue(), flags=re.S)
    box = re.search(r'viewBox="[^"]*"', svg)
    begin = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    svg = (
        f'{begin} {box and box[0]} role="img" aria-label="{html.escape(alt)}">'
        + svg.partition("<svg")[2].partition(">")[2]
    )
    # The ids inside an SVG are the page's ids too: each drawing has its own, the same in every run.
    salt = hashlib.sha256(alt.encode()).hexdigest()[:8]
    used = {name: f"{salt}-{n}" for n, name in enumerate(dict.fromkeys(re.findall(r"#([\w.-]+)(?=[\")])", svg)))}
    svg = re.sub(r' id="([\w.-]+)"', lambda found: f' id="{used[found[1]]}"' if found[1] in used else "", svg)
    svg = re.sub(r'(url\(#|href="#)([\w.-]+)(?=[\")])', lambda found: found[1] + used[found[2]], svg)
    for stand_in, variable in VARIABLES.items():
        svg = svg.replace(stand_in, f"var(--{variable})")
    svg = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \g<1>px", svg)
    svg = re.sub(r"font: (bold|700) ([\d.]+)px [^;\"]*", r"font-size: \g<2>px; font-weight: 700", svg)
    return re.sub(r"\n\s*", "\n", svg).strip()


def _listed(rows: Iterable[Row], x: str, measure: str, unit: str) -> str:
    """The numbers of a plot as a sentence per name."""
    lines = grouped(rows, lambda row: str(row["name"])).items()
    words = {name: ", ".join(f"{digits(row[measure].value)} at {row[x]}" for row in line) for name, line in lines}
    return " ".join(f"{name}: {values} {unit}." for name, values in words.items())


def _bytes(count: float | None) -> str:
    """A size in bytes or decimal kB and MB."""
    for limit, unit in ((1e6, "MB"), (1e3, "kB")):
        if count and count >= limit:
            return f"{digits(count / limit)} {unit}"
    return f"{count or 0:.0f} B"
