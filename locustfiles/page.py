"""What the Locust page is taught: to refuse a run that it would call a success and that would run nothing."""

from flask import Response, jsonify, request
from locust.env import Environment
from locust.runners import STATE_RUNNING, STATE_SPAWNING
from locust.web import WebUI

from locustfiles import settings


def refuse_bad_runs(environment: Environment, web_ui: WebUI) -> None:
    """Check the form of `POST /swarm` before Locust reads it; the page shows a refusal like Locust's own."""

    assert web_ui.app

    @web_ui.app.before_request
    def check() -> Response | None:
        if request.endpoint != "locust.swarm":
            return None
        names = request.form.getlist("user_classes") or _names_meant(environment)
        try:
            settings.parse(_defaults(environment) | request.form.to_dict(), names)
        except settings.BadSetting as bad:
            return jsonify({"success": False, "message": str(bad), "host": environment.host})
        return None


def _names_meant(environment: Environment) -> list[str]:
    """The classes of a form that names none: those that are running (a change of the user count), else all."""
    if environment.runner and environment.runner.state in (STATE_SPAWNING, STATE_RUNNING):
        return list(environment.user_classes_by_name)
    return list(environment.available_user_classes or ())


def _defaults(environment: Environment) -> dict[str, object]:
    """A form leaves out what it does not change."""
    return vars(environment.parsed_options) | {"host": environment.host}
