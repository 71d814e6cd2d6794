"""The one user there is: send a ready request, stop the clock, look at the answer, report. Routes differ in data."""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import gevent
from locust import User, task

from locustfiles import settings
from locustfiles.answers import WrongAnswer
from locustfiles.calls import check_of, requests_of
from locustfiles.clients import Answer, CallError, Client, Payload
from locustfiles.clients.grpc import GrpcClient
from locustfiles.clients.grpcio import CLIENTS
from locustfiles.clients.http import HttpClient
from locustfiles.clients.policy import COLD, PUBLISHED, SHARED, ColdClient, SharedClient
from locustfiles.routes import Route

# A route that is down answers at once: without a pause its users would eat the CPU of the others.
PAUSE_AFTER_FAILURE_S = 0.1

_started = itertools.count()


@dataclass(frozen=True, slots=True)
class Call:
    """One call, over: times on time.perf_counter's clock, `start` as scheduled where there is a schedule."""

    payload: Payload
    answer: Answer
    error: CallError | WrongAnswer | None
    start: float
    end: float


def connect(route: Route, chosen: settings.Settings, on_connect: Callable[[], None] = lambda: None) -> Client:
    """A client for one user. Nothing connects before its first call, so nothing before Locust has forked.

    `on_connect` is called for each connection that the client opens as far as it knows: grpcio opens another by itself
    when it loses one.
    """
    address = chosen.address(route)
    path = route.path.format(model=chosen.served(route), size=chosen.size)
    headers = {**route.format.headers, **route.headers}

    def make() -> Client:
        if route.format.client:
            return route.format.client(address, path, headers, on_connect=on_connect)
        if route.format.protocol == "HTTP":
            return HttpClient(address, path, headers, on_connect=on_connect, method=route.method)
        if route.format.grpcio or chosen.policy == PUBLISHED:
            return CLIENTS[route.format.messages](
                address,
                path,
                headers,
                on_connect=on_connect,
                own_connection=chosen.policy != PUBLISHED,
                options=route.format.options,
            )
        return GrpcClient(address, path, headers, on_connect=on_connect)

    if chosen.policy in (COLD, PUBLISHED):
        return ColdClient(make)
    if chosen.policy == SHARED:
        return SharedClient((route.name, chosen), make, multiplexes=route.format.protocol == "gRPC")
    return make()


class RouteUser(User):
    """A closed loop on one route: the next request follows the answer."""

    abstract = True
    route: ClassVar[Route]

    def __init_subclass__(cls) -> None:
        """Locust's page and its statistics call a class by this name."""
        if "route" in vars(cls):
            cls.__name__ = cls.route.name

    def on_start(self) -> None:
        chosen = self.choose()
        ready = requests_of(self.route, chosen)
        self._check = check_of(self.route, chosen)
        self._payloads: Iterator[Payload] = itertools.cycle(ready)
        # Each user begins with another photo, else all of them would send the large ones together.
        for _ in range(next(_started) % len(ready)):
            next(self._payloads)
        self._opened = 0
        self._client = connect(self.route, chosen, self._count_connection)

    def on_stop(self) -> None:
        self._client.close()

    def _count_connection(self) -> None:
        self._opened += 1

    def choose(self) -> settings.Settings:
        """What this run has chosen."""
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
            answer = self._client.send(payload)
        except CallError as failed:
            error = failed
        end = time.perf_counter()
        if error is None:
            try:
                self._check(answer, payload.images)
            except WrongAnswer as wrong:
                error = wrong
        self.report(Call(payload, answer, error, start if due is None else due, end))
        if error is not None:
            gevent.sleep(PAUSE_AFTER_FAILURE_S)

    def report(self, call: Call) -> None:
        """Tell Locust, and whoever listens to its request event (locustfiles.page.live)."""
        opened, self._opened = self._opened, 0
        self.environment.events.request.fire(
            request_type=self.route.format.protocol,
            name=self.route.name,
            response_time=(call.end - call.start) * 1000,
            response_length=len(call.answer.body),
            exception=call.error,
            context={
                "route": self.route.name,
                "images": call.payload.images,
                "sent": len(call.payload.body),
                "connections": opened,
            },
            start_time=time.time() - (call.end - call.start),
        )


def by_route(written: Iterable[type[RouteUser]], routes: Iterable[Route]) -> dict[str, type[RouteUser]]:
    """A user class for each route, by its name: the one that is written for it, else one made of the route alone."""
    found = {user.__name__: user for user in written}
    return {route.name: found.get(route.name) or type(route.name, (RouteUser,), {"route": route}) for route in routes}
