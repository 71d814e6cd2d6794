"""The tabs "Routes" and "Matrix" of the Locust page, and the same tables as CSV and JSON.

Locust's page draws our tables from `extended_tabs` and `extended_tables` (arguments of its template) and from
`extended_stats` in the answer to its request every 2 s.
"""

import csv
import io
import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from flask import Response, jsonify, request
from locust.env import Environment
from locust.web import WebUI

from locustfiles.page.live import WINDOW_S, Table
from locustfiles.page.shape import NAME, Matrix
from locustfiles.study_routes import WAYS

COLUMNS: Mapping[str, tuple[str, str]] = {
    "requests": ("Requests", ",d"),
    "failures": ("Failures", ",d"),
    "p50_ms": ("p50 ms", ",.2f"),
    "p90_ms": ("p90 ms", ",.2f"),
    "p99_ms": ("p99 ms", ",.2f"),
    "images_per_s_now": (f"img/s, last {WINDOW_S:g} s", ",.2f"),
    "images_per_s": ("img/s, whole run", ",.2f"),
    "sent_per_image": ("Sent, B/img", ",.0f"),
    "received_per_image": ("Received, B/img", ",.0f"),
    "connections": ("Connections opened", ",d"),
}
"""A number's name in a live.Row -> the column's head, the number's form."""
# A step is over before a window of 10 s is full.
TABLES: Mapping[str, Mapping[str, str]] = {
    "routes": {"route": "Route"} | {name: head for name, (head, _) in COLUMNS.items()},
    "matrix": {"step": "Step", "state": "State"}
    | {name: head.replace("run", "step") for name, (head, _) in COLUMNS.items() if name != "images_per_s_now"},
}
"""A tab's key -> its columns with their heads."""
NO_MATRIX = {"step": f"No run yet: choose the shape class {NAME} in the form of a new test."}

NOTHING = "–"
WIDTH = 16
DECORATION = Path(__file__).with_suffix(".html")

Lines = list[dict[str, Any]]
"""A table by column; a number that is missing is None, or not there."""


def show(environment: Environment, web_ui: WebUI, table: Table, matrix: Matrix) -> None:
    """Add the tabs, their downloads and their look to the page."""
    assert web_ui.app
    assert environment.parsed_options
    web_ui.template_args["extended_tabs"] = [{"title": key.title(), "key": key} for key in TABLES]
    web_ui.template_args["extended_tables"] = [
        {"key": key, "structure": [{"key": name, "title": head} for name, head in columns.items()]}
        for key, columns in TABLES.items()
    ]
    web_ui.template_args["extended_csv_files"] = [
        {"href": "./routes.csv", "title": "Download routes CSV"},
        {"href": "./matrix.csv", "title": f"Download {NAME} CSV"},
        {"href": "./report", "title": "Last report of scripts/bench"},
    ]
    decoration = DECORATION.read_text()

    def lines() -> dict[str, Lines]:
        table.refresh()
        routes, steps = table.routes(), table.steps()
        return {
            "routes": [{"route": name, **routes[name]} for name in WAYS if name in routes],
            "matrix": [{"step": step, "state": state, **steps.get(step, {})} for step, state in matrix.states.items()],
        }

    @web_ui.app.after_request
    def extend(response: Response) -> Response:
        if response.status_code != HTTPStatus.OK:
            pass  # whoever has to log in first is sent to another page
        elif request.endpoint == "locust.index":
            response.set_data(response.get_data(as_text=True).replace("</body>", f"{decoration}</body>"))
        elif request.endpoint == "locust.request_stats":
            stats = response.get_json()
            # Locust gives the same answer again for 2 s: our numbers stay those of its own.
            if "extended_stats" not in stats:
                found = {key: _drawn(key, of_key) for key, of_key in lines().items()}
                found["matrix"] = found["matrix"] or [NO_MATRIX]
                stats["extended_stats"] = [{"key": key, "data": data} for key, data in found.items()]
                response.set_data(json.dumps(stats))
        return response

    downloads: Mapping[str, Callable[[], Response]] = {
        "routes.csv": lambda: _csv("routes", lines()["routes"]),
        "matrix.csv": lambda: _csv("matrix", lines()["matrix"]),
        "routes.json": lambda: jsonify(lines()),
    }
    for name, download in downloads.items():
        path = f"{environment.parsed_options.web_base_path}/{name}"
        web_ui.app.add_url_rule(path, name, web_ui.auth_required_if_enabled(download))


def _drawn(key: str, lines: Lines) -> Lines:
    """Lines for the page: it sorts by `name` first, and text by its characters.

    A browser shows no leading blanks, but they make numbers sort by their size, and what is missing sorts last.
    """

    def cell(column: str, value: Any) -> str:
        if column not in COLUMNS:
            return str(value)
        return NOTHING if value is None else format(value, COLUMNS[column][1]).rjust(WIDTH)

    return [
        {"name": f"{number:03}"} | {column: cell(column, line.get(column)) for column in TABLES[key]}
        for number, line in enumerate(lines)
    ]


def _csv(key: str, lines: Lines) -> Response:
    """The numbers as the page shows them; a missing one is empty, and thousands have no comma."""
    text = io.StringIO()
    writer = csv.DictWriter(text, TABLES[key], extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for line in _drawn(key, lines):
        writer.writerow({column: cell.strip().replace(",", "").replace(NOTHING, "") for column, cell in line.items()})
    headers = {"Content-Disposition": f"attachment; filename={key}.csv"}
    return Response(text.getvalue(), headers=headers, mimetype="text/csv")
