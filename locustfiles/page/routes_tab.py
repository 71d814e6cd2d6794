"""The tabs "Routes" and "Matrix" of the Locust page, and the same tables as CSV and JSON.

Locust's page draws a table of ours from `extended_tabs` and `extended_tables` (its template's arguments) and from
`extended_stats` in the answer to the question that it asks every 2 s.
"""

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, jsonify, make_response, request
from locust.env import Environment
from locust.web import WebUI

from locustfiles.page.live import WINDOW_S, Row, Table
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
"""Field of a Row -> the column's head, the number's form."""
ROUTES_COLUMNS = {"route": "Route"} | {name: head for name, (head, _) in COLUMNS.items()}
# A step is over before a window of 10 s is full.
MATRIX_COLUMNS = {"step": "Step", "state": "State"} | {
    name: head.replace("run", "step") for name, (head, _) in COLUMNS.items() if name != "images_per_s_now"
}

NOTHING = "–"
WIDTH = 16
DECORATION = Path(__file__).with_suffix(".html")

Lines = list[dict[str, str]]
"""A table as text, by column."""


def show(environment: Environment, web_ui: WebUI, table: Table, matrix: Matrix) -> None:
    """Add the tabs, their downloads and their look to the page."""
    assert web_ui.app
    assert environment.parsed_options
    tables = {"routes": ("Routes", ROUTES_COLUMNS), "matrix": ("Matrix", MATRIX_COLUMNS)}
    web_ui.template_args["extended_tabs"] = [{"title": title, "key": key} for key, (title, _) in tables.items()]
    web_ui.template_args["extended_tables"] = [
        {"key": key, "structure": [{"key": name, "title": head} for name, head in columns.items()]}
        for key, (_, columns) in tables.items()
    ]
    web_ui.template_args["extended_csv_files"] = [
        {"href": "./routes.csv", "title": "Download routes CSV"},
        {"href": "./matrix.csv", "title": f"Download {NAME} CSV"},
        {"href": "./report", "title": "Last report of scripts/bench"},
    ]
    decoration = DECORATION.read_text()

    @web_ui.app.after_request
    def extend(response: Response) -> Response:
        if request.endpoint == "locust.index":
            response.set_data(response.get_data(as_text=True).replace("</body>", f"{decoration}</body>"))
        elif request.endpoint == "locust.request_stats":
            stats = response.get_json()
            # Locust gives the same answer again for 2 s: our numbers stay those of its own.
            if "extended_stats" not in stats:
                table.refresh()
                shown = {"routes": routes(table), "matrix": steps(table, matrix) or _no_matrix()}
                stats["extended_stats"] = [{"key": key, "data": _aligned(lines)} for key, lines in shown.items()]
                response.set_data(json.dumps(stats))
        return response

    downloads: Mapping[str, Callable[[], Response]] = {
        "routes.csv": lambda: _csv("routes.csv", ROUTES_COLUMNS, routes(table)),
        "matrix.csv": lambda: _csv("matrix.csv", MATRIX_COLUMNS, steps(table, matrix)),
        "routes.json": lambda: jsonify(_numbers(table, matrix)),
    }

    @web_ui.auth_required_if_enabled
    def download(name: str) -> Response:
        table.refresh()
        return downloads[name]()

    ours = Blueprint("fiveway-tables", __name__, url_prefix=environment.parsed_options.web_base_path)
    for name in downloads:
        ours.add_url_rule(f"/{name}", name.replace(".", "-"), partial(download, name))
    web_ui.app.register_blueprint(ours)


def _numbers(table: Table, matrix: Matrix) -> dict[str, list[dict[str, Any]]]:
    found = table.steps()
    return {
        "routes": [{"route": name} | asdict(row) for name, row in table.routes().items()],
        "matrix": [
            {"step": step, "state": state} | (asdict(found[step]) if step in found else {})
            for step, state in matrix.states.items()
        ],
    }


def routes(table: Table) -> Lines:
    """A line per route that was called, in the order of WAYS."""
    rows = table.routes()
    return [{"route": name} | _text(rows[name]) for name in WAYS if name in rows]


def steps(table: Table, matrix: Matrix) -> Lines:
    """A line per step of the matrix, with numbers where it has begun."""
    rows = table.steps()
    empty = dict.fromkeys(MATRIX_COLUMNS, NOTHING)
    return [
        empty | {"step": step, "state": state} | (_text(rows[step]) if step in rows else {})
        for step, state in matrix.states.items()
    ]


def _no_matrix() -> Lines:
    return [{"step": f"No run yet: choose the shape class {NAME} in the form of a new test."}]


def _text(row: Row) -> dict[str, str]:
    values = asdict(row)
    return {
        name: NOTHING if values[name] is None else format(values[name], form) for name, (_, form) in COLUMNS.items()
    }


def _aligned(lines: Lines) -> list[dict[str, str]]:
    """Lines for the page: it sorts by `name` first, and text by its characters.

    A browser shows no leading blanks, but they make numbers sort by their size, and what is missing sorts last.
    """
    return [
        {"name": f"{number:03}"}
        | {key: text.rjust(WIDTH) if key in COLUMNS and text != NOTHING else text for key, text in line.items()}
        for number, line in enumerate(lines)
    ]


def _csv(name: str, columns: Mapping[str, str], lines: Lines) -> Response:
    """The numbers of the table; a missing one is empty, and thousands have no comma."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for line in lines:
        writer.writerow([_plain(line[key]) if key in COLUMNS else line[key] for key in columns])
    response = make_response(text.getvalue())
    response.mimetype = "text/csv"
    response.headers["Content-Disposition"] = f"attachment; filename={name}"
    return response


def _plain(number: str) -> Any:
    return "" if number == NOTHING else number.replace(",", "")
