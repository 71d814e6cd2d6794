"""The HTTP application, written like most FastAPI servers; fast.py has the same answers without a framework.

POST /transport/structured          {"name", "text", "entries", "attributes"}
POST /transport/base64              {"image": "<base64>", "entries"}
POST /transport/binary?entries=N    the image's bytes
POST /transport/fast/...            the same three
GET  /transport/vectors/json, json-gzip, protobuf?count=N
"""

import asyncio
import base64 as standard
import gzip
from typing import Literal

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.types import ASGIApp, Receive, Scope, Send

from gateways.core.errors import ServeError, Status
from gateways.core.text import unbase64
from gateways.transport.echo import answers, fast
from gateways.web.admission import Admission
from gateways.web.body import expect, whole
from gateways.web.errors import handle_errors, serve_error
from gateways.web.timed import Timed

GZIP_LEVEL = 6  # zlib's default, as in most servers


class StructuredRequest(BaseModel):
    name: str
    text: str
    entries: int = 0
    attributes: dict[str, str] = {}


class Entry(BaseModel):
    label: str
    score: float


class StructuredAnswer(BaseModel):
    name: str
    text: str
    entries: list[Entry]
    attributes: dict[str, str]


class Base64Request(BaseModel):
    image: str
    entries: int = 0


class ImageAnswer(BaseModel):
    size_bytes: int
    crc32: int
    entries: list[Entry]


def create_app() -> ASGIApp:
    """The application: FastAPI, but for what fast.py takes."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    handle_errors(app, what_there_is="POST to /transport/structured, base64 or binary, or GET /transport/vectors/json")
    app.add_exception_handler(RequestValidationError, _invalid)
    _add_routes(app)

    async def either(scope: Scope, receive: Receive, send: Send) -> None:
        chosen = fast.answer if scope.get("path") in fast.ANSWERS else app
        await chosen(scope, receive, send)

    return Timed(Admission(either))


def _add_routes(app: FastAPI) -> None:
    @app.post("/transport/structured")
    async def structured(asked: StructuredRequest) -> StructuredAnswer:
        return answers.structured(asked, Entry, StructuredAnswer)

    @app.post("/transport/base64")
    async def base64(asked: Base64Request) -> ImageAnswer:
        image = unbase64(asked.image, "image", standard.b64decode)
        return answers.received(image, asked.entries, Entry, ImageAnswer)

    @app.post("/transport/binary")
    async def binary(request: Request, entries: int = 0) -> ImageAnswer:
        expect(request, *fast.BINARY)
        return answers.received(await whole(request), entries, Entry, ImageAnswer)

    @app.get("/transport/vectors/{encoding}")
    async def vectors(encoding: Literal["json", "json-gzip", "protobuf"], count: int) -> Response:
        if encoding == "protobuf":
            return Response(answers.vector_list(count).SerializeToString(), media_type="application/x-protobuf")
        encoded = msgspec.json.encode(fast.vectors(count))
        if encoding == "json":
            return Response(encoded, media_type="application/json")
        # In a thread: a large list takes a second, and zlib lets others work meanwhile.
        packed = await asyncio.to_thread(gzip.compress, encoded, GZIP_LEVEL)
        return Response(packed, headers={"content-encoding": "gzip"}, media_type="application/json")


async def _invalid(request: Request, error: Exception) -> Response:
    """FastAPI's first validation error, in one line."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    text = "the body is not JSON" if first["type"] == "json_invalid" else f"{where}: {first['msg']}"
    failure = ServeError(Status.INVALID, f"{text}: gateways/transport/echo/http.py lists the fields")
    try:
        if first["loc"][0] == "body":
            expect(request, "application/json")
    except ServeError as other:
        failure = other
    return await serve_error(request, failure)
