"""One visit to a cell: a Locust master and its workers, in a process group of their own.

workers listen -> users warm up, unrecorded -> all idle. In each turn: counters are read -> users go -> the window
closes, all idle: counters are read. At the end the workers' shares of all turns are merged.

A row with Format.generator is loaded by another program in the same steps (generators.py).
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import gevent
from gevent.monkey import get_original
from locust import runners
from locust.env import Environment

from bench.measure import counters, generators, pauses
from bench.measure.cells import settings_of
from bench.measure.launcher import Job, LoadError
from bench.measure.measured import CLIENT, Cell, Visit, merge, timed_ms
from bench.measure.meter import CellUser, Meter
from bench.measure.ports import free_port
from bench.measure.turns import Turn, taken
from locustfiles import serving, settings, tensors, toxiproxy
from locustfiles.calls import lent, model_of, requests_of
from locustfiles.clients import CallError, grpcio
from locustfiles.clients.policy import COLD, PUBLISHED, SHARED
from locustfiles.payloads import Images, photos
from locustfiles.routes import Route
from locustfiles.study_routes import WAYS

WORKERS = 2
"""Load processes of a cell, at most one per user. One where a connection is shared: processes cannot share it."""
START_S, DRAIN_S = 30.0, 45.0
"""How long workers may take to connect, and calls under way to end (their own deadline is 30 s)."""
LIMIT_S = START_S + (START_S + DRAIN_S) + DRAIN_S
"""How long a step of a visit may take beyond its warm-up or its window."""

# Who waits for its turn does nothing. A worker that died is seen by its process id.
runners.HEARTBEAT_INTERVAL = runners.WORKER_REPORT_INTERVAL = runners.CPU_MONITOR_INTERVAL = 3600


def visit(job: Job, turns: Iterator[None]) -> Visit:
    """The result of one visit, which has a window in each of its turns. Raises LoadError."""
    cell, result = job.cell, job.result
    route = WAYS[cell.route]
    server = next(iter(route.services), pauses.ALL)
    pauses.let_run(server)
    chosen = settings_of(cell, job.host)
    workers = 1 if cell.policy in (SHARED, PUBLISHED) or cell.gather else min(WORKERS, cell.users)
    load = _by_program if route.format.generator else _by_locust
    with ExitStack() as stack:
        try:
            ready = requests_of(route, chosen)  # before the fork: the workers share what is prepared
            stack.enter_context(lent(route, chosen, ready[0], cell.users))
            result.encode_ms = encode_ms(cell, chosen)
            read = partial(counters.read, cell, chosen.served(route))
        except (CallError, settings.BadSetting) as error:
            raise LoadError(f"{cell.route}: {error}") from error
        except OSError as error:
            raise LoadError(f"{cell.route}: {error}: the model builder makes the inputs (docker compose up)") from error
        at_first, run = load(job, route, chosen, workers, read, stack)
        warmed = read()

        def measured() -> Turn:
            pauses.let_run(server)
            before, shares = read(), run()
            return Turn(before, read(), shares)

        kept, result.repeated = taken(turns, measured, again=0 if job.window.calls else 1)

    merge(result, [turn.shares for turn in kept])
    windows = [(turn.before, turn.after) for turn in kept]
    # The published method reads its counters around its warm-up too.
    counted = counters.delta((at_first, windows[-1][1])) if job.window.calls else counters.delta(*windows)
    # A kept connection is made in the warm-up; a cold one belongs to its call.
    warm_up = [] if cell.policy in (COLD, PUBLISHED) else [(at_first, warmed)]
    made = counters.delta(*warm_up, *windows)
    result.stages_ms |= counted.triton_stages_ms
    result.connections, result.edge_connections = made.connections, made.edge_connections
    result.sent_bytes, result.received_bytes = counted.sent_bytes or 0, counted.received_bytes or 0
    if counted.cpu_ms:
        of_client = sum(share["cpu_ms"] for turn in kept for share in turn.shares)
        result.cpu_ms = {CLIENT: of_client} | counted.cpu_ms
        result.others_cpu = max(turn.others_cpu for turn in kept)
    result.energy_j, result.gpu_utilization = counted.energy_j, counted.gpu_utilization
    result.server_requests, result.model_executions = counted.server_requests, counted.model_executions
    result.reasons = counted.reasons
    if not result.requests:
        why = max(result.errors, key=result.errors.__getitem__, default="no call ended in time")
        result.problem = f"{cell.route}: no call succeeded: {why}"
    return result


type _Read = Callable[[], counters.Snapshot]
type _Loaded = tuple[counters.Snapshot, Callable[[], Sequence[Mapping[str, Any]]]]
"""The counters before the warm-up, and what calls for one window and gives each load process's share. All is warm."""


def _by_program(
    job: Job, route: Route, chosen: settings.Settings, workers: int, read: _Read, stack: ExitStack
) -> _Loaded:
    program = generators.Program(route.format.generator, route, chosen, job.cell)
    if why := program.unfit():
        raise LoadError(f"{job.cell.route}: {why}")
    _put_distance(job.cell)
    at_first = read()
    load = stack.enter_context(generators.Load(program, job.window, workers))
    load.warm()
    return at_first, load.run


def _put_distance(cell: Cell) -> None:
    if cell.distance:
        try:
            toxiproxy.apply(cell.distance)
        except CallError as error:
            raise LoadError(f"{cell.route}: {error}") from error


def _by_locust(job: Job, route: Route, chosen: settings.Settings, workers: int, read: _Read, _: ExitStack) -> _Loaded:
    """Forks the workers, and is their master."""
    cell, window = job.cell, job.window
    user = type(cell.route, (CellUser,), {"route": route, "chosen": chosen})
    port, (wait_here, bound) = free_port(), os.pipe()
    children = [_fork_worker(port, wait_here, cell, user, i, workers, job) for i in range(workers)]
    _put_distance(cell)  # after the fork: to find the proxy by its name starts a thread

    environment = Environment(user_classes=[user], stop_timeout=0)
    runner = environment.create_master_runner("127.0.0.1", port)
    os.write(bound, b"." * workers)
    said: dict[str, list[Any]] = {"listening": [], "idle": [], "done": []}
    for kind in said:
        runner.register_message(kind, lambda msg, **_: said[msg.type].append(msg.data))

    def wait(kind: str, seconds: float, otherwise: str) -> None:
        """Wait until all workers have sent it; raises LoadError if a worker died, or after `seconds`."""
        limit = time.monotonic() + seconds
        while len(said[kind]) < workers:
            if any(get_original("os", "waitpid")(child, os.WNOHANG)[0] for child in children):
                raise LoadError("a load process died: the lines above say why (too little memory?)")
            if time.monotonic() > limit:
                raise LoadError(f"{otherwise} within {seconds:g} s: the route hangs, or this machine is too busy")
            gevent.sleep(0.01)

    wait("listening", START_S, "the load processes did not connect")
    at_first = read()
    gevent.spawn(runner.start, cell.users, cell.users)
    gevent.sleep(window.warm_s)
    runner.send_message("hold")
    wait("idle", START_S + DRAIN_S, "the warm-up did not end")

    def run() -> Sequence[Mapping[str, Any]]:
        said["done"].clear()
        runner.send_message("go", {"seconds": window.seconds, "calls": window.calls})
        wait("done", window.seconds + DRAIN_S, "calls did not end")
        return list(said["done"])

    return at_first, run


def encode_ms(cell: Cell, chosen: settings.Settings) -> float:
    """Median time in ms to make one request's bytes of what is in memory: the cell's client encode."""
    route = WAYS[cell.route]
    if chosen.serving.images or route.modelless:
        names = photos(cell.photo)
        batch = tuple(names[i % len(names)] for i in range(cell.batch))
        folder = serving.artifacts() / chosen.serving.model / "tensors"
        images = Images(batch, folder, chosen.served(route), cell.size)
        encode = partial(route.format.encode, images)
    else:
        model = model_of(route, chosen)
        encode = partial(tensors.encode, route.format.protocol, model, tensors.inputs(model), 0, cell.batch)
    return timed_ms(encode)


def _fork_worker(port: int, bound: int, cell: Cell, user: type[CellUser], index: int, workers: int, job: Job) -> int:
    """The process id of one of `workers` Locust workers; it obeys the master's messages `hold` and `go`. It begins when
    `bound` has a byte for it: one that asks before its master listens asks again 0.1 s later."""
    child: int = get_original("os", "fork")()
    if child:
        return child
    os.read(bound, 1)
    gevent.reinit()
    grpcio.alone = cell.users == workers
    # The published method's counters are of its warm-up too: with one user that is so many calls, and no more.
    warm_most = job.window.warm_calls if job.window.calls and cell.users == 1 else None
    user.meter = meter = Meter(cell, f"{job.seed}/{job.result.block}/{index}", warm_most)

    environment = Environment(user_classes=[user], stop_timeout=0)
    runner = environment.create_worker_runner("127.0.0.1", port)

    def hold(**_: object) -> None:
        while runner.worker_state != runners.STATE_RUNNING:  # the master decides how many users each worker gets
            gevent.sleep(0.005)
        meter.users = runner.user_count
        while not meter.warm(job.window.warm_calls):
            gevent.sleep(0.005)
        meter.hold()
        meter.idle.wait()
        runner.send_message("idle")

    def go(msg: Any, **_: object) -> None:
        calls = msg.data["calls"]
        meter.go(msg.data["seconds"], calls and round(calls * meter.users / cell.users))
        meter.idle.wait()
        runner.send_message("done", meter.share())

    # Concurrent: a handler that waits would keep the worker from the master's other messages.
    runner.register_message("hold", hold, concurrent=True)
    runner.register_message("go", go, concurrent=True)
    # Locust's master counts a worker from when it connects: what it is told before this line is lost.
    runner.send_message("listening")
    runner.greenlet.join()
    os._exit(0)
