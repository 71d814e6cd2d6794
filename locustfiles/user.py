"""The one user there is: send a ready request, stop the clock, look at the answer, report. Routes differ in data."""

import itertools
import time
from collections.abc import Iterator
from typing import ClassVar

import gevent
from locust import User, task

from locustfiles import settings
from locustfiles.answers import WrongAnswer
from locustfiles.clients import Answer, CallError, Client, Payload
from locustfiles.clients.grpc import GrpcClient
from locustfiles.clients.http import HttpClient
from locustfiles.payloads import payloads
from locustfiles.routes import Route

# A route that is down answers at once: without a pause its users would eat the CPU of the others.
PAUSE_AFTER_FAILURE_S = 0.1

CLIENTS: dict[str, type[HttpClient] | type[GrpcClient]] = {"HTTP": HttpClient, "gRPC": GrpcClient}

_started = itertools.count()


def connect(route: Route, chosen: settings.Settings) -> Client:
    """A client of its own for one user. Nothing connects before this is called, so nothing before Locust has forked."""
    path = route.path.format(model=chosen.model + route.suffix)
    return CLIENTS[route.format.protocol](chosen.address(route), path, {**route.format.headers, **route.headers})


def requests_of(route: Route, chosen: settings.Settings) -> tuple[Payload, ...]:
    """Every request that a user of this route sends in turn."""
    tensors = chosen.artifacts / chosen.model / "tensors"
    return payloads(route.format.encode, chosen.model + route.suffix, tensors, chosen.photo, chosen.batch)


class RouteUser(User):
    """A closed loop on one route: the next request follows the answer."""

    abstract = True
    route: ClassVar[Route]

    def on_start(self) -> None:
        chosen = settings.parse(vars(self.environment.parsed_options) | {"host": self.host}, [self.route.name])
        ready = requests_of(self.route, chosen)
        self._payloads: Iterator[Payload] = itertools.cycle(ready)
        # Each user begins with another photo, else all of them would send the large ones together.
        for _ in range(next(_started) % len(ready)):
            next(self._payloads)
        self._client = connect(self.route, chosen)

    def on_stop(self) -> None:
        self._client.close()

    @task
    def call(self) -> None:
        payload = next(self._payloads)
        answer = Answer(b"")
        error: CallError | WrongAnswer | None = None
        started_at = time.time()
        start = time.perf_counter()
        try:
            answer = self._client.send(payload)
        except CallError as failed:
            error = failed
        elapsed_ms = (time.perf_counter() - start) * 1000
        if error is None:
            try:
                self.route.format.check(answer, payload.images)
            except WrongAnswer as wrong:
                error = wrong
        self.environment.events.request.fire(
            request_type=self.route.format.protocol,
            name=self.route.name,
            response_time=elapsed_ms,
            response_length=len(answer.body),
            exception=error,
            context={},
            start_time=started_at,
        )
        if error is not None:
            gevent.sleep(PAUSE_AFTER_FAILURE_S)


def user_class(route: Route) -> type[RouteUser]:
    """A user class whose name, for Locust and for its page, is the route's name."""
    return type(route.name, (RouteUser,), {"route": route, "__module__": __name__})
