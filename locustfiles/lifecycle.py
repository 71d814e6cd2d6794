"""Start and end of a Locust process: its options, its checks, its page, its last numbers."""

import json
import os
import sys
from functools import partial
from pathlib import Path

import gevent
import locust
from locust.env import Environment
from locust.runners import MasterRunner, WorkerRunner
from locust.stats import StatsEntry

from locustfiles import access, overlap, settings
from locustfiles.page import forms, routes_tab, shape
from locustfiles.page.live import Recorder, Table
from locustfiles.study_routes import WAYS

# A worker of a restarted master finds out by missing heartbeats. Locust waits for 60 s, then ends the worker.
locust.runners.MASTER_HEARTBEAT_TIMEOUT = 15
# Locust gives up a worker that is silent for 3 s. On two busy cores a worker may be preparing 32 tensors for that long.
locust.runners.HEARTBEAT_LIVENESS = 10

KEY = os.environ.get("API_KEY")
if KEY:
    access.encrypt(KEY)

LAST_WORDS_S = 30
"""How long the master of a headless run waits for its workers' last numbers. Locust waits for half a second."""
SENT_S = 10
"""How long a worker that ends waits until its last numbers are sent."""
REPORT = "fiveway"
"""The key of a worker's shares in its report to the master."""


@locust.events.init_command_line_parser.add_listener
def declare_settings(parser: locust.argument_parser.LocustArgumentParser) -> None:
    settings.add_arguments(parser)
    shape.add_arguments(parser)
    # Text: Locust sends all options to the workers, and only what msgpack knows.
    parser.add_argument("--result", help="Headless: write the result there as JSON.", include_in_web_ui=False)


@locust.events.init.add_listener
def start(environment: Environment, **_: object) -> None:
    """Refuse what cannot run before any load; prove that the users of a process that makes load run side by side."""
    runner = environment.runner
    if isinstance(runner, WorkerRunner):
        # The master has checked the choices, and they come with each run.
        listen(environment)
        locust.events.quit.add_listener(partial(leave_at_once, runner))
    elif environment.web_ui:
        matrix = shape.Matrix(environment)
        if KEY and environment.web_ui.web_login:
            access.ask(environment, environment.web_ui, KEY)
        forms.teach(environment, environment.web_ui, matrix)
        routes_tab.show(environment, environment.web_ui, listen(environment), matrix)
    else:
        options = environment.parsed_options
        assert options
        try:
            settings.parse(vars(options), environment.user_classes_by_name)
        except settings.BadSetting as bad:
            sys.exit(f"fiveway: {bad}")
        if isinstance(runner, MasterRunner):
            locust.events.test_stop.add_listener(lambda **_: hear_out(runner))
        if options.result:
            locust.events.quit.add_listener(lambda **_: write(Path(options.result), environment))
    if not isinstance(runner, MasterRunner):
        overlap.check()  # last: a worker is told of a load shape's steps from when it connects


def listen(environment: Environment) -> Table:
    """Let this process record the live numbers (a worker) or add them up (the master). They restart with Locust's own:
    with a new test, and when statistics are reset.
    """
    table, recorder, events, runner = Table(), Recorder(), environment.events, environment.runner
    assert runner
    if isinstance(runner, MasterRunner):
        events.worker_report.add_listener(lambda client_id, data: table.add(client_id, data.get(REPORT, ())))
    else:
        events.request.add_listener(recorder.record)
        runner.register_message(shape.STEP, lambda msg, **_: recorder.begin(**msg.data))
        if isinstance(runner, WorkerRunner):
            events.report_to_master.add_listener(lambda data, **_: data.update({REPORT: recorder.take()}))
        else:
            table.refresh = lambda: table.add("local", recorder.take())

    def reset(**_: object) -> None:
        recorder.reset()
        table.reset()

    events.test_start.add_listener(reset)
    events.reset_stats.add_listener(reset)
    return table


def hear_out(master: MasterRunner) -> None:
    """End the workers, and wait until each has said goodbye: a worker's last numbers come before that message."""
    master.send_message("quit")
    with gevent.Timeout(LAST_WORDS_S, False):
        while master.clients:
            gevent.sleep(0.05)


def write(path: Path, environment: Environment) -> None:
    """At the end: {"routes": {name: numbers}, "errors": [...], "late_workers": n}.

    A route without requests has zeros. `late_workers` counts those whose last numbers did not reach the master.
    """
    stats, routes = environment.stats, environment.user_classes_by_name
    rows = {name: _row(stats.get(name, way.format.protocol)) for name, way in WAYS.items() if name in routes}
    errors = [
        {"route": error.name, "count": error.occurrences, "error": error.to_name()} for error in stats.errors.values()
    ]
    late = len(environment.runner.clients) if isinstance(environment.runner, MasterRunner) else 0
    path.write_text(json.dumps({"routes": rows, "errors": errors, "late_workers": late}))


def _row(entry: StatsEntry) -> dict[str, float]:
    """Times as Locust keeps them, rounded to 1 ms below 100 ms and to two digits above."""
    return {
        "requests": entry.num_requests,
        "failures": entry.num_failures,
        "requests_per_s": round(entry.total_rps, 2),
        "p50_ms": entry.get_response_time_percentile(0.5),
        "p95_ms": entry.get_response_time_percentile(0.95),
        "max_ms": round(entry.max_response_time, 2),
        "answer_bytes": round(entry.avg_content_length),
    }


def leave_at_once(worker: WorkerRunner, exit_code: int, **_: object) -> None:
    """End a worker here: closing gRPC channels while the interpreter goes down can hang."""
    # ZeroMQ sends in the background: unsent messages, with the last numbers among them, would be lost.
    messages = worker.client.socket.context
    worker.client.close(linger=SENT_S * 1000)
    messages.term()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)
