"""A Server-Timing header on every answer, errors included. It is the outermost layer, so no answer goes without it."""

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateways.core.timing import Stages


class Timed:
    """Gives each HTTP request its Stages and sends them with the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["stages"] = stages = Stages()

        async def send_timed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["server-timing"] = stages.header()
            await send(message)

        await self._app(scope, receive, send_timed)


def stages_of(request: Request) -> Stages:
    """The Stages of this request."""
    stages: Stages = request.scope["stages"]
    return stages
