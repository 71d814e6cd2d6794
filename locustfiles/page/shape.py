"""The load shape of the page: it steps through the 5-way matrix by itself, one route at a time, then it stops.

Batches 1 to 32 with one user, then 8 and 16 users at batch 1: the published matrix. The five routes follow each other
within each of these, so that a machine that slows down slows all of them. For intervals and verdicts: scripts/bench.
"""

import time
from argparse import ArgumentParser
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from locust import LoadTestShape, User
from locust.env import Environment

from locustfiles.page.live import STEP, on
from locustfiles.routes import ROUTES
from locustfiles.settings import BadSetting, fit, serving_at
from locustfiles.study_routes.fiveway import ROWS as FIVEWAY
from locustfiles.study_routes.fiveway import matrix

NAME = "5-way matrix"
"""What the page's list of shapes calls it."""

# So that a batch of 32 on two cores is called ten times, which a median needs. All 35 steps take about 9 minutes.
STEP_SECONDS, LONGEST_STEP_S = 10, 600
# The ramp and the first calls, with their connections.
WARM_S = 2.0
# Nobody calls: what a killed call left behind at a server can end, and Locust switches classes at 0 users only.
PAUSE_S = 2.0
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


def check(values: Mapping[str, Any], picked: Collection[str]) -> tuple[str, ...]:
    """The routes that the matrix steps through, of those picked in the form; raises BadSetting.

    The form begins with all routes picked: that stands for the five.
    """
    if others := [name for name in picked if name not in FIVEWAY and set(picked) != set(ROUTES)]:
        raise BadSetting(f"the {NAME} has no {', '.join(others)}: pick from {', '.join(FIVEWAY)}")
    if str(values["batch"]) != "1":
        raise BadSetting(f"the {NAME} sets the batch of each step itself: leave batch at 1")
    try:
        seconds = int(values["step_seconds"])
    except ValueError:
        seconds = 0
    if not 1 <= seconds <= LONGEST_STEP_S:
        raise BadSetting(f"step seconds {values['step_seconds']}: choose 1 to {LONGEST_STEP_S}")
    meant = tuple(name for name in FIVEWAY if name in picked)
    return tuple(fit(meant, serving_at(values.get("host")))) if set(picked) == set(ROUTES) else meant


@dataclass(frozen=True, slots=True)
class Step:
    """So many users of one route, with so many images in each request."""

    route: str
    batch: int
    users: int

    @property
    def label(self) -> str:
        """E.g. `onnx-grpc b1 c8`."""
        return f"{self.route} b{self.batch} c{self.users}"


def steps(routes: Iterable[str]) -> list[Step]:
    """The matrix of these routes, in the order of the run."""
    return [Step(route, batch, users) for batch, users in matrix() for route in routes]


class Matrix(LoadTestShape):
    """Locust asks it about once a second how many users of which class there shall be."""

    def __init__(self, environment: Environment) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._environment = environment
        self._script: Iterator[Tick] | None = None
        self.states: dict[str, str] = {}
        """Step by label -> where it stands, in the order of the run; of the last run when none is on."""
        on(environment.events.test_stop, lambda **_: self._end())

    @property
    def running(self) -> bool:
        return self._script is not None

    def tick(self) -> Tick | None:
        if self._script is None:
            picked = list(self._environment.user_classes_by_name)
            self._script = self._run(steps([name for name in FIVEWAY if name in picked]))
        return next(self._script, None)

    def _run(self, plan: Sequence[Step]) -> Iterator[Tick]:
        options = self._environment.parsed_options
        assert options
        self.states = {step.label: AHEAD for step in plan}
        for step in plan:
            users = [self._environment.user_classes_by_name[step.route]]
            name = step.label
            # The options go to the workers with each order to start or stop users: these users begin with this batch.
            options.batch = step.batch
            self._tell(name, counts=False)
            self.states[name] = WARMING
            yield from _hold((step.users, SPAWN_RATE, users), WARM_S)
            self._tell(name, counts=True)
            self.states[name] = MEASURING
            yield from _hold((step.users, SPAWN_RATE, users), options.step_seconds)
            self._tell("", counts=False)
            self.states[name] = DONE
            yield from _hold((0, SPAWN_RATE, users), PAUSE_S)

    def _tell(self, name: str, *, counts: bool) -> None:
        assert self._environment.runner
        self._environment.runner.send_message(STEP, {"step": name, "counts": counts})

    def _end(self) -> None:
        """The run is over, by itself or by the page's button."""
        if self._script is None:
            return
        self._script = None
        self._tell("", counts=False)
        assert self._environment.parsed_options
        self._environment.parsed_options.batch = 1
        self.states = {name: state if state in (AHEAD, DONE) else STOPPED for name, state in self.states.items()}


def _hold(tick: Tick, seconds: float) -> Iterator[Tick]:
    """The same answer until so many seconds have passed."""
    end = time.monotonic() + seconds
    yield tick
    while time.monotonic() < end:
        yield tick
