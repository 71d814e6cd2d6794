"""Writes docs/errors.md from the table that the tests run: `python -m tests.stack.errors_page`."""

from collections.abc import Iterable
from pathlib import Path

from tests.clients import FRAMES, ROUTES, WITHOUT_MODEL
from tests.repository import ROOT
from tests.stack.bad_input import CASES, Case

PAGE = Path("docs/errors.md")

HEAD = """# Errors

What comes back for bad input, on every route, through the one port. `python -m tests.stack.errors_page` writes this
page from the table that `tests/stack/test_bad_input.py` sends to the running stack; a test fails when the two differ.

- 4xx, or its gRPC status, means: change the request. 429, 503 and 504 (`RESOURCE_EXHAUSTED`, `UNAVAILABLE`,
  `DEADLINE_EXCEEDED`) mean: try again later. 500 and `INTERNAL` mean a fault of ours. `UNKNOWN` is never
  sent.
- The message says what is wrong and what to do. Over HTTP it is JSON: `{"error": {"code": ..., "message": ...}}`; below
  `/v2`, as clients of Triton read it, `{"error": ...}`; from TorchServe `{"code": ..., "type": ..., "message": ...}`.
- One bad image fails its whole request, and the message names it (`images[3]`).
- After each of these the next good request on the route is answered, and no server goes on holding more memory.
"""

TRT = {"onnx-http": "trt-http", "onnx-grpc": "trt-grpc"}
"""The routes of one server that must answer alike share a column."""


def render() -> str:
    """The page."""
    lines = [HEAD, *table(ROUTES), "", "Empty: the route has no such case.", "", "## Servers without a model", ""]
    lines += [
        "While the profile `transport` is off, these routes answer 503, `UNAVAILABLE`, with the command that starts "
        "it. The server `frames` is not behind the port: its clients are on its host and ask it directly. ZeroMQ ends "
        "the connection of a message above 16 MiB without a word.",
    ]
    lines += ["", *table([*WITHOUT_MODEL, *FRAMES]), "", "## What the messages say", ""]
    for case in CASES:
        lines.append(f"- **{case.name}**{f' ({case.note})' if case.note else ''}: {'; '.join(said(case))}.")
    lines += ["", "## Why some cells are as they are", "", *(f"- {text}" for text in REASONS), ""]
    return "\n".join(lines)


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


def said(case: Case) -> list[str]:
    """Each message once, with the routes that say it where not all of them do."""
    routes: dict[str, list[str]] = {}
    for refusal in case.refusals:
        names = routes.setdefault(refusal.says, [])
        if refusal.route not in names:
            names.append(refusal.route)
    if len(routes) == 1:
        return [f"`{next(iter(routes))}`"]
    return [f"`{says}` ({', '.join(names)})" for says, names in routes.items()]


REASONS = (
    "TorchServe answers OK over gRPC whatever its handler says, and `INTERNAL`, `UNKNOWN` or `CANCELLED` for what it "
    "refuses itself. Envoy gives these the status of their cause (`compose/envoy/torchserve_grpc.lua`).",
    "Triton answers 500 to JSON that it cannot parse. Envoy makes it 400 (`compose/envoy/triton_http.lua`).",
    "gRPC's C++ library answers `INTERNAL` to bytes that are no message, before Triton sees the call. Envoy makes it "
    "`INVALID_ARGUMENT` (`compose/envoy/triton_grpc.lua`).",
    "JSON nested 100,000 levels deep ends Triton's process. Envoy lets 64 levels through "
    "(`compose/envoy/triton_http.lua`).",
    "The body limit of 32 MiB is Envoy's for HTTP and for TorchServe's gRPC, whose server would reset the stream "
    "without a word. Other gRPC messages stream through, and their server refuses them: Triton takes any length and "
    "compares it with the shape. It keeps room for the 16 largest messages that it has taken, to use again. "
    "Only its memory limit bounds a message: one that reaches it ends Triton, and the restart policy starts it again.",
)


if __name__ == "__main__":
    (ROOT / PAGE).write_text(render())
