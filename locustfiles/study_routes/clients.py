"""The rows of study `clients`: onnx-http and onnx-grpc, each asked by every client. `ASKED_BY` has the same for every
route of the stack, for `scripts/bench --client`.

A client of Locust's users runs in its load processes. The others are programs of their own (bench/generators), because
a process has one event loop, gevent's or asyncio's, and Go has its own: `Format.generator` names them.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from locustfiles.answers import expect
from locustfiles.clients import Answer, Client, Endpoint, triton
from locustfiles.clients.python_http import FastHttpClient, HttpxClient, RequestsClient
from locustfiles.routes import ROUTES, Route, by_name

GENERATORS = ("aiohttp", "tritonclient-aio", "grpc-aio", "go")
"""Clients that are programs of their own."""
TRITON = ("tritonclient", "tritonclient-aio")
"""Clients that know Triton's tensors only."""
HTTP = ("fasthttp", "requests", "httpx", "aiohttp", *TRITON, "go")
GRPC = ("grpcio", "grpc-aio", *TRITON, "go")
OF = {"HTTP": HTTP, "gRPC": GRPC}
"""Protocol -> the clients besides the project's own."""
CLIENTS = tuple(dict.fromkeys(HTTP + GRPC))

_MAKE: Mapping[str, Callable[[Endpoint], Client]] = {
    "fasthttp": FastHttpClient,
    "requests": RequestsClient,
    "httpx": HttpxClient,
}


def check_array(answer: Answer, images: int) -> None:
    """An embedding for each image, from a client that reads the answer itself."""
    expect(len(triton.read(answer)), images)


def asked_by(route: Route, client: str) -> Route:
    """The same route asked by another client, as a row of its own."""
    form = route.format
    if client in GENERATORS:
        form = replace(form, generator=client)
    elif client in TRITON:
        made = partial(triton.TritonClient, protocol=form.protocol)
        form = replace(form, client=made, check=check_array, read=triton.read, tensors=False)
    elif client == "grpcio":
        form = replace(form, grpcio=True)
    else:
        form = replace(form, client=_MAKE[client])
    return route.asked_as(client, form, client)


ASKED_BY: Mapping[str, Mapping[str, Route]] = {
    name: {
        client: asked_by(route, client)
        for client in OF[route.format.protocol]
        if client not in TRITON or route.format.tensors
    }
    for name, route in ROUTES.items()
}
"""Route -> client -> the row."""
_BASES = ("onnx-http", "onnx-grpc")
ROWS = by_name(*(ROUTES[name] for name in _BASES), *(row for name in _BASES for row in ASKED_BY[name].values()))
