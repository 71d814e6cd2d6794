"""From a request's body to its JPEGs: the type is what the client declared."""

import orjson
import pybase64
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from gateways.core.errors import ServeError, Status
from gateways.core.predict import MAX_IMAGES, check_count
from gateways.web.body import MAX_BODY, expect, limited, whole

FIELD = "images"


class _InMemoryParser(MultiPartParser):
    """Parts stay in memory: the body limit bounds them, and a file on disk would only add time."""

    spool_max_size = MAX_BODY
    ended = False

    def on_end(self) -> None:
        """The closing boundary was seen. Without it the last part was cut off: the base class drops it in silence."""
        self.ended = True


async def base64_jpegs(request: Request) -> list[bytes]:
    """The JPEGs of `{"images": [base64, ...]}`. Raises ServeError; the message says which image."""
    expect(request, "application/json")
    body = await whole(request)
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ServeError(Status.INVALID, f'the body is not JSON ({error}): send {{"images": ["<base64>"]}}') from None
    if not isinstance(message, dict) or not isinstance(message.get(FIELD), list):
        raise ServeError(Status.INVALID, 'the field "images" is missing or not a list: send {"images": ["<base64>"]}')
    check_count(len(message[FIELD]))
    return [_unbase64(text, i) for i, text in enumerate(message[FIELD])]


async def jpegs(request: Request) -> list[bytes]:
    """The JPEGs of an image/jpeg body (one) or of a form's `images` parts. Raises ServeError."""
    if expect(request, "image/jpeg", "multipart/form-data") == "image/jpeg":
        return [await whole(request)]
    parser = _InMemoryParser(request.headers, limited(request), max_files=MAX_IMAGES)
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise ServeError(Status.INVALID, f"the form cannot be read: {error.message}") from None
    if not parser.ended:
        raise ServeError(Status.INVALID, "the form is truncated: it has no closing boundary")
    parts = form.getlist(FIELD)
    if not parts:
        raise ServeError(Status.INVALID, f'the form has no part "{FIELD}": send each JPEG as a file part "{FIELD}"')
    check_count(len(parts))
    return [await _file(part, i) for i, part in enumerate(parts)]


def _unbase64(text: object, index: int) -> bytes:
    if not isinstance(text, str):
        raise ServeError(Status.INVALID, f"images[{index}] is not a string: send base64")
    try:
        return pybase64.b64decode(text, validate=True)
    except ValueError:
        raise ServeError(
            Status.INVALID, f"images[{index}] is not base64: send standard base64 with padding, without line breaks"
        ) from None


async def _file(part: UploadFile | str, index: int) -> bytes:
    if isinstance(part, str):
        raise ServeError(Status.INVALID, f"images[{index}] is a text part: send it as a file (with a filename)")
    return await part.read()
