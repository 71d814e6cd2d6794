"""The only user class: send a ready request, stop the clock, check the answer, report it. Routes differ in data
only."""

import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import gevent
from locust import User, task

from locustfiles import settings
from locustfiles.answers import WrongAnswer
from locustfiles.calls import check_of, endpoint_of, requests_of
from locustfiles.clients import Answer, CallError, Client, Payload
from locustfiles.clients.grpc import GrpcClient
from locustfiles.clients.grpcio import CLIENTS
from locustfiles.clients.http import HttpClient
from locustfiles.clients.policy import COLD, PUBLISHED, SHARED, ColdClient, shared
from locustfiles.routes import Route

# A route that is down answers at once: without a pause its users would eat the CPU of the others.
PAUSE_AFTER_FAILURE_S = 0.1

_started = itertools.count()


@dataclass(frozen=True, slots=True)
class Call:
    """A finished call: times on time.perf_counter's clock, `start` as scheduled if there is a schedule."""

    payload: Payload
    answer: Answer
    error: CallError | WrongAnswer | None
    start: float
    end: float


def connect(route: Route, chosen: settings.Settings, on_connect: Callable[[], None] = lambda: None) -> Client:
    """A client for one user. Nothing connects before its first call, so nothing before Locust has forked."""
    spoken = route.format
    to = endpoint_of(route, chosen, on_connect)

    def make() -> Client:
        if spoken.client:
            return spoken.client(to)
        if spoken.protocol == "HTTP":
            return HttpClient(to)
        if spoken.grpcio or chosen.policy == PUBLISHED:
            own_connection = chosen.policy != PUBLISHED
            return CLIENTS[spoken.messages](to, own_connection=own_connection, options=spoken.options)
        return GrpcClient(to)

    if chosen.policy in (COLD, PUBLISHED):
        return ColdClient(make)
    if chosen.policy == SHARED:
        return shared((route.name, chosen), make, multiplexes=spoken.protocol == "gRPC")
    return make()


class RouteUser(User):
    """A closed loop on one route: the next request follows the answer."""

    abstract = True
    route: ClassVar[Route]

    def on_start(self) -> None:
        chosen = self.choose()
        ready = requests_of(self.route, chosen)
        self._check = check_of(self.route, chosen)
        # Each user begins with another photo, else all of them would send the large ones together.
        self._payloads = itertools.islice(itertools.cycle(ready), next(_started) % len(ready), None)
        self._opened = 0
        self._client = connect(self.route, chosen, self._count_connection)

    def on_stop(self) -> None:
        self._client.close()

    def _count_connection(self) -> None:
        self._opened += 1

    def choose(self) -> settings.Settings:
        """The settings of this run."""
        return settings.parse(vars(self.environment.parsed_options) | {"host": self.host}, [self.route.name])

    def turn(self) -> float | None:
        """Wait until the next request is due; when it was due, on time.perf_counter's clock, or None for now."""
        return None

    @task
    def call(self) -> None:
        due = self.turn()
        payload = next(self._payloads)
        answer = Answer(b"")
        error: CallError | WrongAnswer | None = None
        start = time.perf_counter()
        try:
            try:
                answer = self._client.send(payload)
            finally:
                end = time.perf_counter()
            self._check(answer, payload.images)
        except (CallError, WrongAnswer) as failed:
            error = failed
        self.report(Call(payload, answer, error, start if due is None else due, end))
        if error is not None:
            gevent.sleep(PAUSE_AFTER_FAILURE_S)

    def report(self, call: Call) -> None:
        """Report the call to Locust, and to the listeners of its request event (locustfiles.page.live)."""
        about = {"images": call.payload.images, "sent": len(call.payload.body), "connections": self._opened}
        self._opened = 0
        self.environment.events.request.fire(
            request_type=self.route.format.protocol,
            name=self.route.name,
            response_time=(call.end - call.start) * 1000,
            response_length=len(call.answer.body),
            exception=call.error,
            context=about,
        )


def offer(module: dict[str, Any], routes: Iterable[Route]) -> None:
    """Put a user class for each route into a module: the one that is written there, else one made of the route alone.

    Locust calls a class what its module calls it: here its route's name, which Python cannot write.
    """
    written = {user.route.name: user for user in RouteUser.__subclasses__()}
    for user in written.values():
        del module[user.__name__]
    for route in routes:
        user = written.get(route.name) or type(route.name, (RouteUser,), {"route": route})
        user.__name__ = route.name
        module[route.name] = user
