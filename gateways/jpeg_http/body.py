"""From a request's body to its JPEGs: the type is what the client declared."""

from starlette.datastructures import UploadFile
from starlette.requests import Request

from gateways.core.errors import ServeError, Status
from gateways.core.image import MAX_IMAGES, check_count
from gateways.core.text import parsed_json, unbase64
from gateways.web.body import expect, form, whole

FIELD = "images"
EXAMPLE = '{"images": ["<base64>"]}'


async def base64_jpegs(request: Request) -> list[bytes]:
    """The JPEGs of `{"images": [base64, ...]}`. Raises ServeError; the message says which image."""
    expect(request, "application/json")
    message = parsed_json(await whole(request), EXAMPLE)
    if not isinstance(message, dict) or not isinstance(message.get(FIELD), list):
        raise ServeError(Status.INVALID, f'the field "{FIELD}" is missing or not a list: send {EXAMPLE}')
    check_count(len(message[FIELD]))
    return [unbase64(text, f"{FIELD}[{i}]") for i, text in enumerate(message[FIELD])]


async def jpegs(request: Request) -> list[bytes]:
    """The JPEGs of an image/jpeg body (one) or of a form's `images` parts. Raises ServeError."""
    if expect(request, "image/jpeg", "multipart/form-data") == "image/jpeg":
        return [await whole(request)]
    parts = (await form(request, max_files=MAX_IMAGES)).getlist(FIELD)
    if not parts:
        raise ServeError(Status.INVALID, f'the form has no part "{FIELD}": send each JPEG as a file part "{FIELD}"')
    check_count(len(parts))
    return [await _file(part, i) for i, part in enumerate(parts)]


async def _file(part: UploadFile | str, index: int) -> bytes:
    if isinstance(part, str):
        raise ServeError(Status.INVALID, f"images[{index}] is a text part: send it as a file (with a filename)")
    return await part.read()
