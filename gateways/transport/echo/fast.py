"""The same answers without a framework: uvicorn, msgspec and pybase64."""

from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateways.core.errors import ServeError, Status
from gateways.core.text import unbase64
from gateways.transport.echo import answers
from gateways.web.body import expect, whole
from gateways.web.errors import not_allowed, serve_error

BINARY = ("application/octet-stream", "image/jpeg")


class StructuredRequest(msgspec.Struct):
    name: str
    text: str
    entries: int = 0
    attributes: dict[str, str] = {}


class Entry(msgspec.Struct):
    label: str
    score: float


class StructuredAnswer(msgspec.Struct):
    name: str
    text: str
    entries: list[Entry]
    attributes: dict[str, str]


class Base64Request(msgspec.Struct):
    image: str
    entries: int = 0


class ImageAnswer(msgspec.Struct):
    size_bytes: int
    crc32: int
    entries: list[Entry]


Point = msgspec.defstruct("Point", [(axis, float) for axis in "xyz"])
Vector = msgspec.defstruct("Vector", [("start", Point), ("end", Point)])


@lru_cache(maxsize=4)
def vectors(count: int) -> dict[str, list[msgspec.Struct]]:
    """The first `count` vectors, as the message ListVectorsResponse has them."""
    return {"vectors": [Vector(Point(*row[:3]), Point(*row[3:])) for row in answers.rows(count)]}


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI application for the paths of ANSWERS."""
    request = Request(scope, receive)
    await (await _response(request))(scope, receive, send)


async def _response(request: Request) -> Response:
    if request.method != "POST":
        return not_allowed(request, "POST")
    try:
        found = await ANSWERS[request.scope["path"]](request)
        return Response(msgspec.json.encode(found), media_type="application/json")
    except Exception as error:
        return await serve_error(request, error)


async def _structured(request: Request) -> StructuredAnswer:
    return answers.structured(await _json(request, StructuredRequest), Entry, StructuredAnswer)


async def _base64(request: Request) -> ImageAnswer:
    asked = await _json(request, Base64Request)
    return answers.received(unbase64(asked.image, "image"), asked.entries, Entry, ImageAnswer)


async def _binary(request: Request) -> ImageAnswer:
    expect(request, *BINARY)
    asked = request.query_params.get("entries", "0")
    if not asked.isdecimal():
        raise ServeError(Status.INVALID, f"entries is {asked!r}: send 0 to {answers.MAX_ENTRIES}")
    return answers.received(await whole(request), int(asked), Entry, ImageAnswer)


async def _json[T](request: Request, kind: type[T]) -> T:
    expect(request, "application/json")
    try:
        return msgspec.json.decode(await whole(request), type=kind)
    except msgspec.ValidationError as error:
        raise ServeError(Status.INVALID, f"{error}: gateways/transport/echo/fast.py lists the fields") from None
    except (ValueError, RecursionError) as error:
        raise ServeError(Status.INVALID, f"the body is not JSON ({error})") from None


ANSWERS: Mapping[str, Callable[[Request], Awaitable[StructuredAnswer | ImageAnswer]]] = {
    "/transport/fast/structured": _structured,
    "/transport/fast/base64": _base64,
    "/transport/fast/binary": _binary,
}
