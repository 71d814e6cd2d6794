"""Writes docs/errors.md from the table that the tests run: `python -m tests.stack.errors_page`."""

from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from textwrap import fill

from tests.clients import FRAMES, ROUTES, WITHOUT_MODEL
from tests.repository import ROOT
from tests.stack.bad_input import CASES, Case

PAGE = Path("docs/errors.md")

HEAD = """# Errors

What each route answers to bad input. The wording and status below are tested: `tests/stack/test_bad_input.py` sends
every case to the running stack, and `python -m tests.stack.errors_page` makes this page from the same table.

| status | what to do |
| --- | --- |
| 400, 404, 405, 415; `INVALID_ARGUMENT`, `NOT_FOUND`, `UNIMPLEMENTED` | change the request |
| 413, 429; `RESOURCE_EXHAUSTED` | send less at once, or try again later, as the message says |
| 503, 504; `UNAVAILABLE`, `DEADLINE_EXCEEDED` | try again later |
| 500, `INTERNAL` | report it: a fault of the stack |

- Every message says what is wrong and what to do. `UNKNOWN` is never sent.
- Over HTTP a message is JSON: `{"error": {"code": ..., "message": ...}}`. Below `/v2` it is `{"error": ...}`, which
  Triton's clients expect, and from TorchServe `{"code": ..., "type": ..., "message": ...}`.
- One bad image fails its whole request, and the message names it (`images[3]`).
- After each of these requests the next good one is answered, and no server keeps more memory than before.

## Routes with a model

An empty cell means that the case does not exist on that route.
"""

TRT = {"onnx-http": "trt-http", "onnx-grpc": "trt-grpc"}
"""The routes of one server that must answer alike share a column."""


def render() -> str:
    """The page."""
    lines = [HEAD, *table(ROUTES), "", "## Routes without a model", "", WITHOUT, ""]
    lines += [*table([*WITHOUT_MODEL, *FRAMES]), "", "## What the messages say", "", MESSAGES, ""]
    lines += [row("case", "the message contains", "on"), row("---", "---", "---")]
    for case in CASES:
        titles = [f"{case.name}{f' ({case.note})' if case.note else ''}"]
        lines += [row(title, *found) for title, found in zip_longest(titles, said(case), fillvalue="")]
    lines += ["", "## Why some cells are as they are", ""]
    lines += [fill(f"- {text}", 120, subsequent_indent="  ", break_on_hyphens=False) for text in REASONS]
    return "\n".join([*lines, ""])


def table(routes: Iterable[str]) -> list[str]:
    """A column per route, a row per case that one of them has."""
    columns = [route for route in routes if route not in TRT.values()]
    titles = [f"`{route}`" + (f", `{TRT[route]}`" if route in TRT else "") for route in columns]
    cells = {case.name: [cell(case, route) for route in columns] for case in CASES}
    return [row("", *titles), row("---", *["---"] * len(columns))] + [
        row(name, *found) for name, found in cells.items() if any(found)
    ]


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def cell(case: Case, route: str) -> str:
    """The one status of this case on the route, and on the route that shares its column."""
    found = {refusal.status for refusal in case.refusals if refusal.route in (route, TRT.get(route))}
    assert len(found) <= 1, f"{case.name}: {route} answers {found}"
    return "".join(found)


def said(case: Case) -> list[tuple[str, str]]:
    """Each message once, with the routes that send it."""
    routes: dict[str, dict[str, None]] = {}
    for refusal in case.refusals:
        routes.setdefault(refusal.says, {})[refusal.route] = None
    return [(f"`{says}`", ", ".join(names)) for says, names in routes.items()]


WITHOUT = """\
While the profile `transport` is off, these routes answer 503 or `UNAVAILABLE`, with the command that starts it. The
server `frames` is not on the port: its clients run on its host and call it directly. ZeroMQ closes the connection of a
message above 16 MiB without an answer."""
MESSAGES = "A message contains the text below; it often says more, such as which image is meant."
REASONS = (
    "TorchServe answers OK over gRPC whatever its handler says, and `INTERNAL`, `UNKNOWN` or `CANCELLED` to what it "
    "refuses itself. Envoy replaces these with the status of their cause (`compose/envoy/torchserve_grpc.lua`).",
    "Triton answers 500 to JSON that it cannot parse. Envoy makes it 400 (`compose/envoy/triton_http.lua`).",
    "gRPC's C++ library answers `INTERNAL` to malformed bytes before Triton sees the call. Envoy makes it "
    "`INVALID_ARGUMENT` (`compose/envoy/triton_grpc.lua`).",
    "JSON nested 100,000 levels deep ends Triton's process. Envoy lets 64 levels through "
    "(`compose/envoy/triton_http.lua`).",
    "The body limit of 32 MiB is Envoy's, for HTTP and for TorchServe's gRPC: TorchServe would reset the stream "
    "without a reason. Other gRPC messages stream through Envoy, and their server refuses them. Triton would take a "
    "message of any length, so Envoy reads how long each says that it is (`compose/envoy/triton_grpc.lua`).",
    "Triton keeps the memory of the 16 largest gRPC messages for later ones: half a gigabyte at most.",
)


if __name__ == "__main__":
    (ROOT / PAGE).write_text(render())
