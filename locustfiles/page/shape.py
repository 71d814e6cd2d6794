"""The load shape of the page: it steps through the 5-way matrix by itself, one route at a time, then it stops.

Batches 1 to 32 with one user, then 8 and 16 users at batch 1: the published matrix. The five routes follow each other
within each of these, so that a machine that slows down slows all of them. For intervals and verdicts: scripts/bench.
"""

import time
from argparse import ArgumentParser
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from locust import LoadTestShape, User
from locust.env import Environment

from locustfiles.routes import ROUTES
from locustfiles.settings import BadSetting, fit, serving_at
from locustfiles.study_routes.fiveway import FIVE, matrix

NAME = "5-way matrix"
"""Its name in the page's list of shapes."""
STEP = "fiveway-step"
"""The message that tells the workers which step begins: {"step": its label or "", "counts": does it count yet?}."""

# Long enough for ten calls with a batch of 32 on two cores, which a median needs. All 35 steps take about 9 minutes.
STEP_SECONDS, LONGEST_STEP_S = 10, 600
# The ramp and the first calls, with their connections.
WARM_S = 2.0
# A pause without calls: work that a killed call left at a server can end, and Locust switches classes at 0 users only.
PAUSE_S = 2.0
# How long workers that are busy may take to start or stop their users. One that is told to start before it has stopped
# keeps the users that it has, with the batch of the step before.
USERS_S = 60.0
# Users per second: all of a step at once.
SPAWN_RATE = 100.0

AHEAD, WARMING, MEASURING, DONE, STOPPED = "ahead", "warming up", "measuring", "done", "stopped"

Tick = tuple[int, float, list[type[User]]]


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--step-seconds",
        type=int,
        default=STEP_SECONDS,
        help=f"Shape class {NAME}: how long each of its steps is measured, after {WARM_S:g} s of warm-up.",
    )


def check(values: Mapping[str, Any], picked: Collection[str]) -> list[str]:
    """The routes that the matrix steps through, of those picked in the form; raises BadSetting.

    The form begins with all routes picked: that stands for the five.
    """
    every = set(picked) == set(ROUTES)
    if others := [name for name in picked if name not in FIVE and not every]:
        raise BadSetting(f"the {NAME} has no {', '.join(others)}: pick from {', '.join(FIVE)}")
    if str(values["batch"]) != "1":
        raise BadSetting(f"the {NAME} sets the batch of each step itself: leave batch at 1")
    seconds = str(values["step_seconds"])
    if not seconds.isdecimal() or not 1 <= int(seconds) <= LONGEST_STEP_S:
        raise BadSetting(f"step seconds {seconds}: choose 1 to {LONGEST_STEP_S}")
    meant = [name for name in FIVE if name in picked]
    return fit(meant, serving_at(values.get("host"))) if every else meant


class Matrix(LoadTestShape):
    """Locust asks it about once a second how many users of which class there shall be."""

    def __init__(self, environment: Environment) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        assert environment.runner
        self._environment, self._runner = environment, environment.runner
        self._script: Iterator[Tick] | None = None
        self.states: dict[str, str] = {}
        """Step by label -> where it stands, in the order of the run; of the last run when none is on."""
        environment.events.test_stop.add_listener(lambda **_: self._end())

    @property
    def running(self) -> bool:
        return self._script is not None

    def tick(self) -> Tick | None:
        if self._script is None:
            self._script = self._run()
        return next(self._script, None)

    def _run(self) -> Iterator[Tick]:
        classes, options = self._environment.user_classes_by_name, self._environment.parsed_options
        assert options
        routes = [name for name in FIVE if name in classes]
        plan = {f"{route} b{batch} c{users}": (route, batch, users) for batch, users in matrix() for route in routes}
        self.states = dict.fromkeys(plan, AHEAD)
        for step, (route, batch, users) in plan.items():
            # The options go to the workers with each order to start or stop users: these users begin with this batch.
            options.batch = batch
            for state, name, count, seconds in (
                (WARMING, step, users, WARM_S),
                (MEASURING, step, users, options.step_seconds),
                (DONE, "", 0, PAUSE_S),
            ):
                self._tell(name, counts=state == MEASURING)
                self.states[step] = state
                begun, tick = time.monotonic(), (count, SPAWN_RATE, [classes[route]])
                yield tick
                while (waited := time.monotonic() - begun) < seconds or (
                    state != MEASURING and self._runner.user_count != count and waited < USERS_S
                ):
                    yield tick

    def _tell(self, name: str, *, counts: bool) -> None:
        self._runner.send_message(STEP, {"step": name, "counts": counts})

    def _end(self) -> None:
        """The run is over, by itself or by the page's button."""
        if self._script is None:
            return
        self._script = None
        self._tell("", counts=False)
        assert self._environment.parsed_options
        self._environment.parsed_options.batch = 1
        self.states = {name: state if state in (AHEAD, DONE) else STOPPED for name, state in self.states.items()}
