"""Frames over HTTP.

POST /frames/base64, pybase64, hex, jpeg   {"width", "height", "frame": "<text>"} -> {"frame": "<text>"}
POST /frames/multipart                     form: width, height, and the bytes as the file `frame` -> the bytes
GET  /frames/usage                         {"cpu_s", "frames"}: of this process, so far

`base64` is Python's own module, `pybase64` has SIMD, `jpeg` is a JPEG in (pybase64's) base64. JSON is Python's own in
all of them.
"""

import base64
import binascii
import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pybase64
import simplejpeg
from starlette.applications import Starlette
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from gateways.core.errors import ServeError, Status
from gateways.transport.frames.frame import Pixels, Usage, change, pixels, size_of
from gateways.web.admission import Admission
from gateways.web.body import expect, form, whole
from gateways.web.errors import handle_errors

QUALITY = 95  # OpenCV's default, which the published comparison has
SUBSAMPLING = "420"
type Read = Callable[[str, int, int], Pixels]
"""From text, width and height; raises ValueError."""
type Write = Callable[[Pixels], str]


def _jpeg(text: str, width: int, height: int) -> Pixels:
    jpeg = pybase64.b64decode(text, validate=True)
    found = simplejpeg.decode_jpeg_header(jpeg)[:2]  # before it is decoded: a small file may hold a large picture
    if found != (height, width):
        raise ServeError(
            Status.INVALID, f"the JPEG is {found[1]} x {found[0]}, width and height say {width} x {height}"
        )
    decoded: Pixels = simplejpeg.decode_jpeg(jpeg)
    return decoded


def _write_jpeg(frame: Pixels) -> str:
    jpeg = simplejpeg.encode_jpeg(frame, quality=QUALITY, colorsubsampling=SUBSAMPLING)
    return pybase64.b64encode_as_string(jpeg)


def _of(decode: Callable[[str], bytes]) -> Read:
    return lambda text, width, height: pixels(decode(text), width, height)


TEXTS: Mapping[str, tuple[Read, Write]] = {
    "base64": (_of(partial(base64.b64decode, validate=True)), lambda frame: base64.b64encode(frame).decode()),
    "pybase64": (
        _of(partial(pybase64.b64decode, validate=True)),
        lambda frame: pybase64.b64encode_as_string(frame.reshape(-1)),
    ),
    "hex": (_of(binascii.unhexlify), lambda frame: binascii.hexlify(frame).decode()),
    "jpeg": (_jpeg, _write_jpeg),
}


def create_app(usage: Usage) -> ASGIApp:
    """The application."""

    async def multipart(request: Request) -> Response:
        return answered(change(await _form(request)).tobytes(), "application/octet-stream")

    async def spent(_: Request) -> Response:
        return JSONResponse({"cpu_s": time.process_time(), "frames": usage.frames})

    async def text(read: Read, write: Write, request: Request) -> Response:
        changed = change(await _text(request, read))
        return answered(json.dumps({"frame": write(changed)}).encode(), "application/json")

    def answered(body: bytes, kind: str) -> Response:
        return Response(body, headers={"server-timing": f"cpu;dur={usage.spent_ms():.3f}"}, media_type=kind)

    routes = [Route(f"/frames/{name}", partial(text, *how), methods=["POST"]) for name, how in TEXTS.items()]
    routes += [Route("/frames/multipart", multipart, methods=["POST"]), Route("/frames/usage", spent, methods=["GET"])]
    app = Starlette(routes=routes)
    handle_errors(app, what_there_is=f"POST to /frames/multipart, {', '.join(TEXTS)}")
    return Admission(app)


async def _text(request: Request, read: Read) -> Pixels:
    expect(request, "application/json")
    try:
        found = json.loads(await whole(request))
    except (ValueError, RecursionError) as error:
        raise ServeError(Status.INVALID, f"the body is not JSON ({error})") from None
    if not isinstance(found, dict) or not isinstance(found.get("frame"), str):
        raise ServeError(Status.INVALID, 'the field "frame" is missing or not a string: send width, height and frame')
    width: Any = found.get("width")
    height: Any = found.get("height")
    size_of(width, height)
    try:
        return read(found["frame"], width, height)
    except ValueError as error:
        raise ServeError(Status.INVALID, f"frame cannot be decoded ({error}): the path says how to write it") from None


async def _form(request: Request) -> Pixels:
    expect(request, "multipart/form-data")
    parts = await form(request, max_files=1, max_fields=2)
    part = parts.get("frame")
    if not isinstance(part, UploadFile):
        raise ServeError(Status.INVALID, 'the form has no file "frame": send width, height and the file frame')
    data = await part.read()
    width, height = (
        int(text) if text.isdecimal() else text for text in (str(parts.get("width")), str(parts.get("height")))
    )
    return pixels(data, width, height)
