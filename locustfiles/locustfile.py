"""What `locust -f` loads: a user class per route, what a run can choose, what a process does as it starts and ends."""

import os
import sys

import locust  # patches the standard library: first

from locustfiles import overlap, settings
from locustfiles.page import refuse_bad_runs
from locustfiles.routes import ROUTES
from locustfiles.user import user_class

globals().update({name: user_class(route) for name, route in ROUTES.items()})

# A worker of a restarted master finds out by missing heartbeats. Locust waits for 60 s, then ends the worker.
locust.runners.MASTER_HEARTBEAT_TIMEOUT = 15


@locust.events.init_command_line_parser.add_listener
def declare_settings(parser: locust.argument_parser.LocustArgumentParser) -> None:
    settings.add_arguments(parser)


@locust.events.init.add_listener
def start(environment: locust.env.Environment, **_: object) -> None:
    """Refuse what cannot run before any load; prove that the users of a process that makes load run side by side."""
    if not isinstance(environment.runner, locust.runners.MasterRunner):
        overlap.check()
    if isinstance(environment.runner, locust.runners.WorkerRunner):
        # The master has checked the choices, and they come with each run.
        locust.events.quit.add_listener(leave_at_once)  # type: ignore[no-untyped-call]
    elif environment.web_ui:
        refuse_bad_runs(environment, environment.web_ui)
    else:
        try:
            settings.parse(vars(environment.parsed_options), environment.user_classes_by_name)
        except settings.BadSetting as bad:
            sys.exit(f"fiveway: {bad}")


def leave_at_once(exit_code: int, **_: object) -> None:
    """End a worker here: closing gRPC channels while the interpreter goes down can hang."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
