"""A request's body: its declared type, its bytes up to a limit, and the parts of a form."""

from collections.abc import AsyncGenerator

from starlette.datastructures import FormData
from starlette.formparsers import MultiPartException, MultiPartParser
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
    """The body's chunks, at most `most` bytes. A larger declared length is refused unread, a larger chunked body while
    it is read."""
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


class _InMemoryParser(MultiPartParser):
    """Parts stay in memory: the body limit bounds them, and a file on disk would only add time."""

    spool_max_size = MAX_BODY
    ended = False

    def on_end(self) -> None:
        """The closing boundary was seen. Without it the last part is truncated, and the base class drops it without an
        error."""
        self.ended = True


async def form(request: Request, *, max_files: int, max_fields: int = 1000) -> FormData:
    """The parts of a multipart/form-data body. Raises ServeError."""
    parser = _InMemoryParser(request.headers, limited(request), max_files=max_files, max_fields=max_fields)
    try:
        parts = await parser.parse()
    except MultiPartException as error:
        raise ServeError(Status.INVALID, f"the form cannot be read: {error.message}") from None
    if not parser.ended:
        raise ServeError(Status.INVALID, "the form is truncated: it has no closing boundary")
    return parts
