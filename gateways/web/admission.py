"""A limit on the memory of all request bodies together. Beyond it a client is told to try again, and no process runs
out of memory."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateways.core.errors import ServeError, Status

MAX_HELD = 256 * 1024 * 1024
"""Bytes of bodies held at once. A body in base64 takes about four times its size on its way to pixels."""


class Admission:
    """Counts the bytes of every body from their arrival to the end of the request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        held = 0

        async def receive_counted() -> Message:
            nonlocal held
            message = await receive()
            size = len(message.get("body", b""))
            held += size
            self._held += size
            if self._held > MAX_HELD:
                raise ServeError(Status.OVERLOADED, "too many large requests at once: send this again in a second")
            return message

        try:
            await self._app(scope, receive_counted, send)
        finally:
            self._held -= held
