"""A request's body: its declared type, and its bytes up to a limit that is enforced while reading."""

from collections.abc import AsyncGenerator

from starlette.requests import Request

from gateways.core.errors import ServeError, Status

MAX_BODY = 32 * 1024 * 1024


def expect(request: Request, *kinds: str) -> str:
    """The request's content type, if it is one of `kinds`."""
    declared = request.headers.get("content-type", "")
    kind = declared.partition(";")[0].strip().lower()
    if kind not in kinds:
        raise ServeError(
            Status.UNSUPPORTED_MEDIA, f"content-type is {declared or 'missing'}: send {' or '.join(kinds)}"
        )
    return kind


async def limited(request: Request, most: int = MAX_BODY, what: str = "images") -> AsyncGenerator[bytes]:
    """The body's chunks, up to `most`: a declared length above it is refused unread, a chunked body while reading."""
    too_large = ServeError(Status.TOO_LARGE, f"the body is larger than {most // 1024**2} MiB: send fewer {what}")
    if int(request.headers.get("content-length", 0)) > most:
        raise too_large
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > most:
            raise too_large
        yield chunk


async def whole(request: Request, most: int = MAX_BODY, what: str = "images") -> bytes:
    """The body, if it is within the limit."""
    return b"".join([chunk async for chunk in limited(request, most, what)])
