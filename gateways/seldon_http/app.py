"""The HTTP application.

POST /api/v1.0/predictions    a SeldonMessage as JSON; with the header `x-mode: raw` it is not turned into an array
GET  /health                  a prediction
"""

import logging
from collections.abc import AsyncIterator
from http import HTTPStatus

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from gateways.core.errors import ServeError, Status, as_serve_error
from gateways.core.timing import Stages
from gateways.seldon import payload
from gateways.seldon.payload import MAX_BODY

PATH = "/api/v1.0/predictions"
MAX_HELD = 64 * 1024 * 1024
"""Bytes of bodies held at once, of all requests; one of them at a time is parsed."""

log = logging.getLogger(__name__)


class Seldon:
    """The endpoints. Work runs in the event loop, one request after the other, as in a wrapper with one worker."""

    def __init__(self) -> None:
        self._held = 0

    async def predict(self, request: Request) -> Response:
        """One SeldonMessage in, one out."""
        stages = Stages()
        kind = request.headers.get("content-type", "")
        if kind.partition(";")[0].strip().lower() != "application/json":
            raise ServeError(Status.UNSUPPORTED_MEDIA, f"content-type is {kind or 'missing'}: send application/json")
        chunks: list[bytes] = []
        try:
            async for chunk in self._limited(request):
                chunks.append(chunk)
            answer = payload.answer_json(b"".join(chunks), request.headers.get("x-mode"), stages)
        finally:
            self._held -= sum(map(len, chunks))
        return Response(answer, headers={"server-timing": stages.header()}, media_type="application/json")

    async def _limited(self, request: Request) -> AsyncIterator[bytes]:
        """The body's chunks, each counted as held."""
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > MAX_BODY:
                raise ServeError(
                    Status.TOO_LARGE, f"the body is larger than {MAX_BODY // 1024**2} MiB: send fewer values"
                )
            if self._held + len(chunk) > MAX_HELD:
                raise ServeError(Status.OVERLOADED, "too many large requests at once: send this again in a second")
            self._held += len(chunk)
            yield chunk

    async def health(self, _: Request) -> Response:
        """200 if a prediction is answered, through the same queue as everyone's."""
        return Response(payload.answer_json(b'{"data":{"ndarray":[1]}}', None, Stages()), media_type="application/json")


def create_app() -> Starlette:
    """The application."""
    seldon = Seldon()
    return Starlette(
        routes=[Route(PATH, seldon.predict, methods=["POST"]), Route("/health", seldon.health)],
        exception_handlers={
            ServeError: _serve_error,
            HTTPException: _http_error,
            ClientDisconnect: _gone,
            Exception: _bug,
        },
    )


def _error(http: int, code: str, message: str, headers: dict[str, str] | None = None) -> Response:
    encoded = orjson.dumps({"error": {"code": code, "message": message}})
    return Response(encoded, http, headers, media_type="application/json")


async def _serve_error(_: Request, error: Exception) -> Response:
    known = as_serve_error(error)
    return _error(known.status.http, known.status.grpc, known.message)


async def _http_error(request: Request, error: Exception) -> Response:
    """The framework's own refusals: an unknown path, or another method on a known one."""
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return _error(
            405, Status.UNIMPLEMENTED.grpc, f"{request.method} is not allowed here: use POST", {"allow": "POST"}
        )
    return _error(error.status_code, Status.NOT_FOUND.grpc, f"no such path {request.url.path}: POST to {PATH}")


async def _gone(_: Request, __: Exception) -> Response:
    """Nobody reads this answer; the server log stays quiet."""
    return Response(status_code=499)


async def _bug(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return await _serve_error(request, error)
