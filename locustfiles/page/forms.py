"""Additions to the Locust page: it refuses runs that would measure nothing, and serves the last report."""

import os
from pathlib import Path

from flask import Response, jsonify, request
from flask_login import current_user
from locust.env import Environment
from locust.runners import STATE_RUNNING, STATE_SPAWNING, STATE_STOPPING, MasterRunner
from locust.web import WebUI

from locustfiles import settings
from locustfiles.page import shape
from locustfiles.settings import BadSetting

RESULTS = Path(os.environ.get("RESULTS") or Path(__file__).parents[2] / "results")
"""The repository's results/, where the bench leaves <date>/<machine>/<run>/report.html."""
# The report needs its own styles and drawings, and nothing else: no script, no other page's frame, no request anywhere.
REPORT_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
NO_DEFAULT = "Default"
"""The form's name for no shape."""


def teach(environment: Environment, web_ui: WebUI, matrix: shape.Matrix) -> None:
    """Add the shape to the page's list, check its forms, and serve the last report."""
    assert web_ui.app
    assert environment.parsed_options
    # Here and not as a class of the locustfile: Locust would run it whenever no other is chosen, without a page too.
    assert environment.available_shape_classes is not None
    environment.available_shape_classes[shape.NAME] = matrix

    @web_ui.app.before_request
    def check() -> Response | None:
        try:
            if request.endpoint == "locust.swarm" and (not web_ui.web_login or current_user.is_authenticated):
                _check(environment, matrix)
        except BadSetting as bad:
            return jsonify({"success": False, "message": str(bad), "host": environment.host})
        return None

    @web_ui.app.route(f"{environment.parsed_options.web_base_path}/report")
    @web_ui.auth_required_if_enabled
    def report() -> Response:
        """It serves this one file only: no part of the request is used as a path."""
        newest = last_report()
        if newest is None:
            none = "There is no report yet. Make one with ./scripts/bench fiveway --quick\n"
            return Response(none, 404, mimetype="text/plain")
        return Response(newest.read_text(), headers=REPORT_HEADERS)


def _check(environment: Environment, matrix: shape.Matrix) -> None:
    """Refuse the form of `POST /swarm` that cannot be run, before Locust reads it; raises BadSetting."""
    values = vars(environment.parsed_options) | {"host": environment.host} | request.form.to_dict()
    busy = environment.runner and environment.runner.state in (STATE_SPAWNING, STATE_RUNNING, STATE_STOPPING)
    chosen = request.form.get("shape_class", NO_DEFAULT)
    if matrix.running:
        # Locust's page says "stopped" a second before the test has ended.
        raise BadSetting(f"the {shape.NAME} is {'running: stop it first' if busy else 'ending: try again in a second'}")
    if isinstance(environment.runner, MasterRunner) and not environment.runner.worker_count:
        raise BadSetting("no worker is connected: wait for one (docker compose ps locust-worker)")
    # A form that names no class means those that are running (a change of the user count), else all.
    meant = environment.user_classes_by_name if busy else environment.available_user_classes or {}
    names = request.form.getlist("user_classes") or list(meant)
    if chosen == shape.NAME:
        if busy:
            raise BadSetting(f"a test is running: stop it before the {shape.NAME} starts")
        settings.parse(values, names if set(names) - set(meant) else shape.check(values, names))
    elif chosen == NO_DEFAULT:
        settings.put_away(settings.parse(values, names))
    else:
        raise BadSetting(f"unknown shape class {chosen}: choose {NO_DEFAULT} or {shape.NAME}")


def last_report() -> Path | None:
    """The newest report: of the latest date, and on that date the one written last."""
    found = [
        path
        for path in RESULTS.glob("[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]/*/*/report.html")
        # A link in results/ may lead to another file of results/, and nowhere else.
        if path.is_file() and path.resolve().is_relative_to(RESULTS.resolve())
    ]
    return max(found, key=lambda path: (path.parts[-4], path.stat().st_mtime), default=None)
