"""The published study's hypotheses, judged on our data: a verdict is on the published finding, not on the hypothesis.

A finding is *reproduced* when every pair that was measured shows it, *not reproduced* when every pair contradicts it,
and else we *cannot tell*. What a pair shows is read from the 95 % interval of its ratio. *The same* means equivalence:
the whole interval lies between 0.9 and 1.1, which is more than "no difference shown".

    H1  shows it: gRPC slower, or the same       contradicts it: gRPC faster, by however little
    H2  shows it: gRPC faster                    contradicts it: the same, or gRPC slower
    H3  shows it: gRPC serves less               contradicts it: the same, or gRPC serves more
    H4  shows it: jpeg-http faster everywhere    contradicts it: a Triton route faster in a cell
    H5  shows it: less of every call is transport on the slower device
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from bench.figures import figure, share
from bench.measure.measured import Run
from bench.measure.split import COMPUTE, DECODE, ENCODE, QUEUE
from bench.studies import published
from bench.studies.published import P50, THROUGHPUT
from locustfiles.routes import ROUTES

REPRODUCED, NOT_REPRODUCED, CANNOT_TELL = "reproduced", "not reproduced", "cannot tell"
SAME = (0.9, 1.1)
"""An interval within these limits shows that two are the same for all that a choice between them needs."""
FASTER, SLOWER, EQUAL, UNCLEAR = "faster", "slower", "the same within 10 %", "unclear"
WINS, LOSES = "wins", "loses"
SHOWN = 0.05
"""Parts of the time below this share of the call are not named."""
SLOWER_DEVICE = 1.1
"""By how much the computing times of two devices must differ before one is called slower."""
H5_CELLS = 3

CLAIMS: Mapping[str, tuple[str, str]] = {
    "H1": ("gRPC reduces the overhead of a call at batch 1", "false: gRPC was slower"),
    "H2": ("HTTP and gRPC are equal for large batches, bound by bandwidth", "partially true: gRPC was faster"),
    "H3": ("gRPC wins under high concurrency", "false: HTTP won, gRPC collapsed at 16 callers"),
    "H4": ("PyTorch with JPEG wins overall, the input format dominates", "confirmed"),
    "H5": ("on a slower GPU the transport's share of the call is lower", "confirmed"),
}

Ratio = Mapping[str, Any]
Cells = Mapping[str, Mapping[str, Any]]


def judge(run: Run, cells: Iterable[Mapping[str, Any]], ratios: Iterable[Ratio]) -> list[dict[str, str]]:
    """H1 to H4 on the cells and ratios of a run, in the first setting (policy, target, photo, rate) it has."""
    if not run.cells:
        return []
    first = run.cells[0][0]
    ours = {
        cell.id
        for cell, _ in run.cells
        if (cell.policy, cell.target, cell.photo, cell.rate) == (first.policy, first.target, first.photo, first.rate)
    }
    known = {cell["id"]: cell for cell in cells if cell["id"] in ours}
    here = [ratio for ratio in ratios if ratio["a"] in ours]
    protocol = [ratio for ratio in here if ratio["kind"] == "protocol"]
    return [
        _small_calls(protocol, known),
        _large_batches(protocol, known),
        _concurrency(protocol, known),
        _format([ratio for ratio in here if ratio["kind"] == "format"], known),
    ]


def judge_h5(a: Mapping[str, Any], b: Mapping[str, Any], names: tuple[str, str] = ("A", "B")) -> dict[str, str]:
    """H5 from the analyses of two devices: how much of a call is neither compute nor queue, in Triton cells of both.

    Shares have no interval, so only unanimity counts: H5_CELLS at least, and all on one side.
    """
    first, second = ({cell["id"]: cell for cell in one["cells"] if _on_triton(cell)} for one in (a, b))
    common = [key for key in first if key in second]
    if len(common) < H5_CELLS:
        text = f"{names[0]} and {names[1]} share {len(common)} Triton cells with a time split, {H5_CELLS} are needed"
        return _hypothesis("H5", CANNOT_TELL, f"{text}: run the same cells on both. {_published_shares()}", "")
    slowdown = median(second[key]["split"][COMPUTE] / first[key]["split"][COMPUTE] for key in common)
    speed = f"Compute takes {slowdown:.2f}x as long on {names[1]} as on {names[0]} (median of {len(common)} cells)."
    if 1 / SLOWER_DEVICE < slowdown < SLOWER_DEVICE:
        return _hypothesis("H5", CANNOT_TELL, f"{speed} Neither is the slower device. {_published_shares()}", "")
    (slow, slow_name), (fast, fast_name) = ((first, names[0]), (second, names[1]))[:: -1 if slowdown > 1 else 1]
    below = sum(transport_share(slow[key]) < transport_share(fast[key]) for key in common)
    verdict = {len(common): REPRODUCED, 0: NOT_REPRODUCED}.get(below, CANNOT_TELL)
    on_slow, on_fast = (median(transport_share(one[key]) for key in common) for one in (slow, fast))
    text = (
        f"Neither compute nor queue is {share(on_slow)} of a call on {slow_name} and {share(on_fast)} on {fast_name}"
        f" (medians): the share is lower on {slow_name}, the slower one, in {below} of {len(common)} cells."
    )
    cause = "; ".join(
        f"{name}, {one[common[0]]['id']}: {_parts(one[common[0]])}"
        for one, name in ((slow, slow_name), (fast, fast_name))
    )
    return _hypothesis("H5", verdict, f"{speed} {text} {_published_shares()}", f"{cause}.")


def transport_share(cell: Mapping[str, Any]) -> float:
    """The share of the latency that is neither compute, nor queue, nor decoding: what a protocol can at most change."""
    latency = sum(ms for part, ms in cell["split"].items() if part != ENCODE)
    return 1 - sum(cell["split"][part] for part in (COMPUTE, QUEUE, DECODE)) / latency if latency else 0.0


def _small_calls(protocol: Sequence[Ratio], cells: Cells) -> dict[str, str]:
    pairs = _pick(protocol, P50, batch=1, users=1)
    if not pairs:
        return _missing("H1", "onnx-http and onnx-grpc (or both trt routes) at batch 1 with one user")
    sides = [_side(ratio, sign_first=True) for ratio in pairs]
    verdict = _unanimous(sides, shows={SLOWER, EQUAL}, contradicts={FASTER})
    return _hypothesis("H1", verdict, f"At batch 1, one user: {_say(pairs, sides)}", _cause(pairs, cells))


def _large_batches(protocol: Sequence[Ratio], cells: Cells) -> dict[str, str]:
    serial = _pick(protocol, P50, users=1)
    largest = max((ratio["batch"] for ratio in serial), default=1)
    if largest == 1:
        return _missing("H2", "an HTTP and a gRPC route of one engine at batch 32")
    pairs = _pick(serial, P50, batch=largest)
    sides = [_side(ratio) for ratio in pairs]
    verdict = _unanimous(sides, shows={FASTER}, contradicts={EQUAL, SLOWER})
    return _hypothesis("H2", verdict, f"At batch {largest}, one user: {_say(pairs, sides)}", _cause(pairs, cells))


def _concurrency(protocol: Sequence[Ratio], cells: Cells) -> dict[str, str]:
    together = _pick(protocol, THROUGHPUT, batch=1)
    most = max((ratio["users"] for ratio in together), default=1)
    if most == 1:
        return _missing("H3", "an HTTP and a gRPC route of one engine at batch 1 with 16 users, in a closed loop")
    pairs = _pick(together, THROUGHPUT, users=most)
    sides = [_side(ratio) for ratio in pairs]
    verdict = _unanimous(sides, shows={SLOWER}, contradicts={EQUAL, FASTER})
    return _hypothesis("H3", verdict, f"At batch 1, {most} users: {_say(pairs, sides)}", _cause(pairs, cells))


def _format(ratios: Sequence[Ratio], cells: Cells) -> dict[str, str]:
    groups: dict[tuple[int, int], list[Ratio]] = {}
    for ratio in ratios:
        if ratio["measure"] == (P50 if ratio["users"] == 1 else THROUGHPUT) and ratio["value"] is not None:
            groups.setdefault((ratio["batch"], ratio["users"]), []).append(ratio)
    if not groups:
        return _missing("H4", "jpeg-http and at least one Triton route")
    outcomes: dict[str, list[str]] = {}
    for (batch, users), group in groups.items():
        outcome, best = _against_triton(group)
        outcomes.setdefault(outcome, []).append(f"batch {batch}, {_users(users)}: {best['a_name']} has {_number(best)}")
    verdict = NOT_REPRODUCED if LOSES in outcomes else REPRODUCED if set(outcomes) == {WINS} else CANNOT_TELL
    parts = [f"{word} in {len(found)} of {len(groups)} cells ({'; '.join(found)})" for word, found in outcomes.items()]
    text = f"Against the best Triton route, jpeg-http {'; '.join(parts)}.{_published_losses()}"
    _, first = _against_triton(next(iter(groups.values())))
    return _hypothesis("H4", verdict, text, _cause([first], cells))


def _against_triton(group: Sequence[Ratio]) -> tuple[str, Ratio]:
    """Whether jpeg-http wins, loses or neither in a cell, and the ratio of the fastest Triton route that says so.

    It loses against any one route, and wins only against all of them.
    """
    sides = [_side(ratio, sign_first=True) for ratio in group]
    outcome = LOSES if FASTER in sides else WINS if set(sides) == {SLOWER} else "is not told apart"
    deciding = [ratio for ratio, side in zip(group, sides, strict=True) if outcome != LOSES or side == FASTER]
    sign = 1 if group[0]["measure"] == P50 else -1
    return outcome, min(deciding, key=lambda ratio: sign * ratio["value"])


def _pick(ratios: Iterable[Ratio], measure: str, **factors: int) -> list[Ratio]:
    return [
        ratio
        for ratio in ratios
        if ratio["measure"] == measure and all(ratio[name] == value for name, value in factors.items())
    ]


def _side(ratio: Ratio, sign_first: bool = False) -> str:
    """What a ratio shows of its first route. `sign_first`: a difference counts, however small, before equivalence."""
    if ratio["verdict"] == "no verdict":
        return UNCLEAR
    signs = {"lower": FASTER, "higher": SLOWER} if ratio["measure"] == P50 else {"lower": SLOWER, "higher": FASTER}
    same = SAME[0] <= ratio["low"] and ratio["high"] <= SAME[1]
    if same and not (sign_first and ratio["verdict"] in signs):
        return EQUAL
    return signs.get(ratio["verdict"], UNCLEAR)


def _unanimous(sides: Collection[str], shows: set[str], contradicts: set[str]) -> str:
    if set(sides) <= shows:
        return REPRODUCED
    return NOT_REPRODUCED if set(sides) <= contradicts else CANNOT_TELL


def _say(pairs: Sequence[Ratio], sides: Sequence[str]) -> str:
    """What was found and what was published, pair by pair."""
    text = "; ".join(_found(ratio, side) for ratio, side in zip(pairs, sides, strict=True)) + "."
    if theirs := [found for ratio in pairs if (found := _published_ratios(ratio))]:
        text += f" Published: {'; '.join(theirs)}."
    points = [ratio for ratio in pairs if ratio["value"] is not None and ratio["low"] is None]
    if points:
        agree = sum(_on_the_published_side(ratio) for ratio in points)
        text += (
            f" Without an interval that is no evidence: {agree} of {len(points)} values lie on the published side of 1."
        )
    return text


def _found(ratio: Ratio, side: str) -> str:
    a, b = ratio["a_name"], ratio["b_name"]
    if ratio["verdict"] == "no verdict":
        return f"{a} against {b}: {ratio['text']}"
    words = {FASTER: "gRPC is faster", SLOWER: "gRPC is slower", EQUAL: EQUAL, UNCLEAR: f"too wide for {EQUAL!r}"}
    return f"{a} has {_number(ratio)} of {b}: {words[side]}"


def _number(ratio: Ratio) -> str:
    what = "the p50" if ratio["measure"] == P50 else "the images per second"
    limits = "no interval" if ratio["low"] is None else f"{figure(ratio['low'])} to {figure(ratio['high'])}"
    return f"{figure(ratio['value'])}x ({limits}) {what}"


def _published_values(ratio: Ratio) -> dict[str, float]:
    """Device -> the same ratio in the published tables."""
    found = {}
    for device in published.devices():
        a, b = (
            published.value(device, ratio[name], ratio["batch"], ratio["users"], ratio["measure"])
            for name in ("a_name", "b_name")
        )
        if a and b:
            found[device] = a / b
    return found


def _published_ratios(ratio: Ratio) -> str:
    theirs = [f"{figure(value)}x on {device}" for device, value in _published_values(ratio).items()]
    return f"{ratio['a_name']} {' and '.join(theirs)}" if theirs else ""


def _on_the_published_side(ratio: Ratio) -> bool:
    theirs = _published_values(ratio).values()
    return bool(theirs) and {value > 1 for value in theirs} == {ratio["value"] > 1}


def _published_losses() -> str:
    """Where the published tables themselves have another route in front of jpeg-http."""
    lost: dict[str, list[str]] = {}
    for row in published.rows():
        if row.measure == P50 and row.route == "jpeg-http":
            better = [r for r in _same_cell(row) if r.value < row.value]
        elif row.measure == THROUGHPUT and row.route == "jpeg-http":
            better = [r for r in _same_cell(row) if r.value > row.value]
        else:
            continue
        if better:
            lost.setdefault(row.device, []).append(f"batch {row.batch} with {_users(row.users)}")
    return "".join(
        f" In the published tables another route is in front on {device} at {' and '.join(where)}."
        for device, where in lost.items()
    )


def _same_cell(row: published.Published) -> list[published.Published]:
    key = (row.device, row.batch, row.users, row.measure)
    return [other for other in published.rows() if (other.device, other.batch, other.users, other.measure) == key]


def _published_shares() -> str:
    """How much of a published call at batch 1 was not Triton's compute; trt-http's has engine builds in it."""
    found = []
    for route in ("onnx-grpc", "trt-grpc"):
        shares = []
        for device in published.devices():
            compute, p50 = (published.value(device, route, 1, 1, measure) for measure in (published.COMPUTE, P50))
            if compute and p50:
                shares.append(f"{100 * (1 - compute / p50):.1f} % on {device}")
        found.append(f"{route} {' and '.join(shares)}")
    return f"Not compute in the published tables at batch 1: {'; '.join(found)}."


def _cause(pairs: Sequence[Ratio], cells: Cells) -> str:
    """Where the time of each pair's calls goes, and which measured factors differ."""
    sentences = []
    for ratio in pairs:
        a, b = cells[ratio["a"]], cells[ratio["b"]]
        names = f"{ratio['a_name']} against {ratio['b_name']}"
        if a["split"] and b["split"]:
            most = max(transport_share(a), transport_share(b))
            limit = f": a protocol can change {share(most)} at most" if ratio["kind"] == "protocol" else ""
            sentences.append(f"Of a call, {ratio['a_name']} spends {_parts(a)}, {ratio['b_name']} {_parts(b)}{limit}")
        sentences.append(f"{names}: {'; '.join(ratio['why']) or 'no measured factor differs by more than 5 %'}")
    return ". ".join(sentences) + "." if sentences else ""


def _parts(cell: Mapping[str, Any]) -> str:
    """The parts of the latency that matter, the largest first."""
    parts = {part: ms for part, ms in cell["split"].items() if part != ENCODE}
    latency = sum(parts.values())
    shown = sorted((part for part in parts if parts[part] > SHOWN * latency), key=lambda part: -parts[part])
    return ", ".join(f"{share(parts[part] / latency)} in {part}" for part in shown)


def _on_triton(cell: Mapping[str, Any]) -> bool:
    route = ROUTES.get(cell["id"].partition("/")[0])
    return bool(cell["split"]) and route is not None and (route.direct or "").startswith("triton:")


def _users(count: int) -> str:
    return f"{count} user{'' if count == 1 else 's'}"


def _missing(key: str, what: str) -> dict[str, str]:
    return _hypothesis(key, CANNOT_TELL, f"Not measured: run {what}.", "")


def _hypothesis(key: str, verdict: str, text: str, cause: str) -> dict[str, str]:
    claim, found = CLAIMS[key]
    return {"id": key, "claim": claim, "published_verdict": found, "verdict": verdict, "text": text, "cause": cause}
