"""Errors as an HTTP client reads them: `{"error": {"code", "message"}}`, from our code and from the framework."""

import logging
from http import HTTPStatus

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from gateways.core.errors import RETRY_S, ServeError, Status, told

log = logging.getLogger(__name__)


def handle_errors(app: Starlette, *, what_there_is: str) -> None:
    """Answer every failure in this form. `what_there_is` tells a client that asked for an unknown path where to
    look."""

    async def http_error(request: Request, error: Exception) -> Response:
        """The framework's own refusals: an unknown path, or another method on a known one."""
        assert isinstance(error, HTTPException)
        path = request.url.path
        if error.status_code == HTTPStatus.NOT_FOUND:
            return _error(404, Status.NOT_FOUND.grpc, f"no such path {path}: {what_there_is}")
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            return not_allowed(request, (error.headers or {}).get("Allow", ""))
        return _error(error.status_code, Status.INVALID.grpc, str(error.detail))

    app.add_exception_handler(HTTPException, http_error)
    for kind in (ServeError, ClientDisconnect, Exception):
        app.add_exception_handler(kind, serve_error)


def not_allowed(request: Request, allow: str) -> Response:
    """The answer to a method that a known path does not have."""
    text = f"{request.method} is not allowed on {request.url.path}: use {allow}"
    return _error(405, Status.UNIMPLEMENTED.grpc, text, {"Allow": allow})


async def serve_error(request: Request, error: Exception) -> Response:
    """The answer to a failure. Text that was not written for clients goes to the log only."""
    if isinstance(error, ClientDisconnect):
        return Response(status_code=499)  # nobody reads it, and nothing is logged
    known = told(error, log, f"{request.method} {request.url.path} failed")
    hint = {"Retry-After": str(RETRY_S)} if known.status.later else None
    return _error(known.status.http, known.status.grpc, known.message, hint)


def _error(http: int, code: str, message: str, headers: dict[str, str] | None = None) -> Response:
    encoded = orjson.dumps({"error": {"code": code, "message": message}})
    return Response(encoded, http, headers, media_type="application/json")
