"""The HTTP application.

POST /api/v1.0/predictions    a SeldonMessage as JSON; with the header `x-mode: raw` it is not turned into an array

Work runs in the event loop, one request after the other, as in a wrapper of Seldon's with one worker.
"""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from gateways.transport.seldon import payload
from gateways.transport.seldon.payload import MAX_BODY
from gateways.web.admission import Admission
from gateways.web.body import expect, whole
from gateways.web.errors import handle_errors
from gateways.web.timed import Timed, stages_of

PATH = "/api/v1.0/predictions"


def create_app() -> ASGIApp:
    """The application."""
    app = Starlette(routes=[Route(PATH, _predict, methods=["POST"])])
    handle_errors(app, what_there_is=f"POST to {PATH}")
    return Timed(Admission(app))


async def _predict(request: Request) -> Response:
    """One SeldonMessage in, one out."""
    expect(request, "application/json")
    body = await whole(request, MAX_BODY, "values")
    answer = payload.answer(payload.JSON, body, request.headers.get("x-mode"), stages_of(request))
    return Response(answer, media_type="application/json")
