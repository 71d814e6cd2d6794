"""What a Locust process does as it starts and as it ends: its options, its checks, its page, its last words."""

import os
import sys
from functools import partial
from pathlib import Path

import gevent
import locust

from locustfiles import headless, overlap, settings
from locustfiles.page import forms, live, routes_tab, shape

# A worker of a restarted master finds out by missing heartbeats. Locust waits for 60 s, then ends the worker.
locust.runners.MASTER_HEARTBEAT_TIMEOUT = 15
# A worker that says nothing for 3 s is lost, says Locust. On two busy cores it may just be preparing 32 tensors.
locust.runners.HEARTBEAT_LIVENESS = 10

LAST_WORDS_S = 30
"""How long the master of a headless run waits for its workers' last numbers. Locust waits for half a second."""
SENT_S = 10
"""How long a worker that ends waits until its last numbers are sent."""


@locust.events.init_command_line_parser.add_listener
def declare_settings(parser: locust.argument_parser.LocustArgumentParser) -> None:
    settings.add_arguments(parser)
    shape.add_arguments(parser)
    # Text: Locust sends all options to the workers, and only what msgpack knows.
    parser.add_argument("--result", help="Headless: write the result there as JSON.", include_in_web_ui=False)


@locust.events.init.add_listener
def start(environment: locust.env.Environment, **_: object) -> None:
    """Refuse what cannot run before any load; prove that the users of a process that makes load run side by side."""
    runner = environment.runner
    if not isinstance(runner, locust.runners.MasterRunner):
        overlap.check()
    if isinstance(runner, locust.runners.WorkerRunner):
        # The master has checked the choices, and they come with each run.
        live.listen(environment)
        live.on(locust.events.quit, partial(leave_at_once, runner))
    elif environment.web_ui:
        matrix = shape.Matrix(environment)
        forms.teach(environment, environment.web_ui, matrix)
        routes_tab.show(environment, environment.web_ui, live.listen(environment), matrix)
    else:
        routes = list(environment.user_classes_by_name)
        options = environment.parsed_options
        assert options
        try:
            settings.parse(vars(options), routes)
        except settings.BadSetting as bad:
            sys.exit(f"fiveway: {bad}")
        if isinstance(runner, locust.runners.MasterRunner):
            live.on(locust.events.test_stop, lambda **_: hear_out(runner))
        if options.result:
            write = partial(headless.write, Path(options.result), environment, routes)
            live.on(locust.events.quit, lambda **_: write())


def hear_out(master: locust.runners.MasterRunner) -> None:
    """End the workers, and wait until each has said that it goes: its last numbers come before that word."""
    master.send_message("quit")
    with gevent.Timeout(LAST_WORDS_S, False):
        while master.clients:
            gevent.sleep(0.05)


def leave_at_once(worker: locust.runners.WorkerRunner, exit_code: int, **_: object) -> None:
    """End a worker here: closing gRPC channels while the interpreter goes down can hang."""
    # ZeroMQ sends in the background: what is not sent yet, the last numbers among it, would be lost.
    messages = worker.client.socket.context
    worker.client.close(linger=SENT_S * 1000)  # type: ignore[no-untyped-call]
    messages.term()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
