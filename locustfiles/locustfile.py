"""What `locust -f` loads: a user class per route, what a run can choose, what a process does as it starts and ends."""

import os
import sys
from functools import partial
from pathlib import Path

import locust  # patches the standard library: first

from bench.studies import offered
from locustfiles import overlap, result, settings
from locustfiles.page import forms as page
from locustfiles.page import live, routes_tab, shape
from locustfiles.user import user_class

globals().update({name: user_class(route) for name, route in offered().items()})

# A worker of a restarted master finds out by missing heartbeats. Locust waits for 60 s, then ends the worker.
locust.runners.MASTER_HEARTBEAT_TIMEOUT = 15
# A worker that says nothing for 3 s is lost, says Locust. On two busy cores it may just be preparing 32 tensors.
locust.runners.HEARTBEAT_LIVENESS = 10

LAST_MESSAGES_MS = 2000


@locust.events.init_command_line_parser.add_listener
def declare_settings(parser: locust.argument_parser.LocustArgumentParser) -> None:
    settings.add_arguments(parser)
    shape.add_arguments(parser)
    # Text: Locust sends all options to the workers, and only what msgpack knows.
    parser.add_argument("--result", help="Headless: write the result there as JSON.", include_in_web_ui=False)


@locust.events.init.add_listener
def start(environment: locust.env.Environment, **_: object) -> None:
    """Refuse what cannot run before any load; prove that the users of a process that makes load run side by side."""
    if not isinstance(environment.runner, locust.runners.MasterRunner):
        overlap.check()
    if isinstance(environment.runner, locust.runners.WorkerRunner):
        # The master has checked the choices, and they come with each run.
        live.listen(environment)
        locust.events.quit.add_listener(partial(leave_at_once, environment.runner))  # type: ignore[no-untyped-call]
    elif environment.web_ui:
        matrix = shape.Matrix(environment)
        page.teach(environment, environment.web_ui, matrix)
        routes_tab.show(environment, environment.web_ui, live.listen(environment), matrix)
    else:
        routes = list(environment.user_classes_by_name)
        options = environment.parsed_options
        assert options
        try:
            settings.parse(vars(options), routes)
        except settings.BadSetting as bad:
            sys.exit(f"fiveway: {bad}")
        if options.result:
            # At `quit` and not before: the workers' last numbers arrive after `quitting`.
            write = partial(result.write, Path(options.result), environment, routes)
            locust.events.quit.add_listener(lambda **_: write())  # type: ignore[no-untyped-call]


def leave_at_once(worker: locust.runners.WorkerRunner, exit_code: int, **_: object) -> None:
    """End a worker here: closing gRPC channels while the interpreter goes down can hang."""
    # ZeroMQ sends in the background: what is not sent yet, the last numbers among it, would be lost.
    messages = worker.client.socket.context
    worker.client.close(linger=LAST_MESSAGES_MS)  # type: ignore[no-untyped-call]
    messages.term()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
