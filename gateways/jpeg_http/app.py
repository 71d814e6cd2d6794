"""The HTTP application: paths, answers, errors and the OpenAPI page.

POST /embed/base64, /classify/base64    {"images": ["<base64 JPEG>", ...]}
POST /embed, /classify                  an image/jpeg body, or multipart/form-data with `images` parts
GET  /served                            what the stack serves now, and how a client prepares a photo for it
GET  /docs, /openapi.json               the page works offline: its script and style are served from here
GET  /health                            a real inference, or a proof that one was just answered
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from fastapi_offline import FastAPIOffline
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from gateways.core.answer import Prediction
from gateways.core.errors import ServeError, Status
from gateways.core.following import Followed
from gateways.core.health import PHOTO
from gateways.core.manifest import Manifest
from gateways.core.metrics import counted
from gateways.core.timing import Stages
from gateways.core.traces import traced
from gateways.jpeg_http import body, schema
from gateways.jpeg_http.served import Served
from gateways.upstreams.torch import TorchPredictor
from gateways.web.admission import Admission
from gateways.web.errors import handle_errors, serve_error
from gateways.web.timed import Timed, stages_of

TIMEOUT_S = 30.0
HEALTH_FRESH_S = 5.0
HEALTH_TIMEOUT_S = 3.0

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schema.ErrorAnswer, "description": text}
    for status, text in {
        400: "Not JSON, a missing field, not base64, not a JPEG, truncated, too many pixels, or not 1 to 32 images",
        404: "The model that is served takes no photos, or gives embeddings only and has no classes",
        413: "The body is larger than 32 MiB, or one image than 20 MiB",
        415: "Another content type than listed here",
        429: "Too many images or bytes are waiting already",
        504: f"No answer within {TIMEOUT_S:g} s",
    }.items()
}
DESCRIPTION = """JPEGs in, embeddings or classes out, from one PyTorch model.

Every answer has a `Server-Timing` header: preprocess, queue, compute, encode, total, in milliseconds.
"""


def create_app(followed: Followed[Served]) -> ASGIApp:
    """The application over what is served, which it enters at start-up and leaves at shutdown."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with followed:
            yield

    app = FastAPIOffline(
        title="fiveway JPEG server",
        version="1",
        description=DESCRIPTION,
        redoc_url=None,
        static_url="/docs/assets",
        lifespan=lifespan,
    )
    handle_errors(app, what_there_is="GET /docs lists what there is")
    _add_routes(app, followed)
    return Timed(Admission(_Direct(app)))


class _Direct:
    """Calls the endpoint of a path itself: FastAPI's way to it, which none of them needs, takes a fifth of the time
    that Python takes for a photo (docs/decisions/0026-a-photo-has-one-thread.md)."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        routes = [route for route in app.routes if isinstance(route, APIRoute)]
        self._endpoints = {(method, route.path): route.endpoint for route in routes for method in route.methods or ()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get((scope.get("method", ""), scope.get("path", "")))
        if not endpoint:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await endpoint(request)
        except Exception as error:
            response = await serve_error(request, error)
        await response(scope, receive, send)


def _photos(predictor: TorchPredictor) -> dict[str, object]:
    """How clients send photos to this model, and what computes for them here: schema.Photos."""
    manifest = predictor.manifest
    return {
        "kind": manifest.kind,
        "weights": manifest.weights,
        "labels": manifest.labels,
        "preprocess": asdict(manifest.preprocess),
        **predictor.engine,
    }


def _about(manifest: Manifest) -> dict[str, str]:
    return {"model": manifest.model, "weights": manifest.weights}


def _add_routes(app: FastAPI, followed: Followed[Served]) -> None:
    async def answer(
        request: Request, read: Callable[[Request], Awaitable[list[bytes]]], key: str, *, classes: bool = False
    ) -> Response:
        """A request uses one model from its first byte to its last, even if the model is swapped meanwhile."""
        stages = stages_of(request)
        span = traced(f"POST {request.scope['path']}", request.headers, stages)
        with span, counted(stages, gone=ClientDisconnect):
            with followed.use() as served:
                predictor, manifest = served.predictor, served.predictor.manifest
                if classes and manifest.kind != "classifier":
                    raise ServeError(
                        Status.UNIMPLEMENTED, f"{manifest.model} has no classes, only embeddings: use /embed"
                    )
                work = predictor.predict(await read(request), stages=stages, timeout=TIMEOUT_S)
                answers: list[Prediction] = await _unless_gone(request, work)
            found = [one.classes if classes else one.embedding for one in answers]
            return _json(stages, {key: found, **_about(manifest)})

    @app.post("/embed/base64", response_model=schema.Embeddings, responses=ERRORS, openapi_extra=schema.BASE64_BODY)
    async def embed_base64(request: Request) -> Response:
        """Embeddings of base64 JPEGs."""
        return await answer(request, body.base64_jpegs, "embeddings")

    @app.post("/classify/base64", response_model=schema.Classes, responses=ERRORS, openapi_extra=schema.BASE64_BODY)
    async def classify_base64(request: Request) -> Response:
        """The five most likely classes of base64 JPEGs."""
        return await answer(request, body.base64_jpegs, "classes", classes=True)

    @app.post("/embed", response_model=schema.Embeddings, responses=ERRORS, openapi_extra=schema.JPEG_BODY)
    async def embed(request: Request) -> Response:
        """Embeddings of one JPEG body, or of a form's JPEG files."""
        return await answer(request, body.jpegs, "embeddings")

    @app.post("/classify", response_model=schema.Classes, responses=ERRORS, openapi_extra=schema.JPEG_BODY)
    async def classify(request: Request) -> Response:
        """The five most likely classes of one JPEG body, or of a form's JPEG files."""
        return await answer(request, body.jpegs, "classes", classes=True)

    @app.get("/served", response_model=schema.Served)
    async def served(request: Request) -> Response:
        """What the stack serves now; `photos` is null while the model takes no photos."""
        with followed.use() as now:
            serving = now.serving
            photos = _photos(now.predictor) if serving.images else None
        return _json(stages_of(request), {"model": serving.model, "accelerated": serving.accelerated, "photos": photos})

    @app.get("/health", include_in_schema=False)
    async def health(request: Request) -> Response:
        """200 if the model answered in the last seconds, or answers a probe now, which waits in the clients' queue.
        While the served model takes no photos, 200 only says that this server runs.
        """
        with followed.use() as served:
            if not served.serving.images:
                return _json(stages_of(request), {"status": "ok", "model": served.serving.model})
            predictor = served.predictor
            if time.monotonic() - predictor.last_answer > HEALTH_FRESH_S:
                try:
                    await predictor.predict([PHOTO], stages=stages_of(request), timeout=HEALTH_TIMEOUT_S)
                except ServeError as error:
                    raise ServeError(Status.UNAVAILABLE, f"the model does not answer: {error.message}") from error
            return _json(stages_of(request), {"status": "ok", **_about(predictor.manifest)})


async def _unless_gone[T](request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when the client closes its connection first."""
    task, gone = asyncio.current_task(), asyncio.ensure_future(request.receive())  # after the body: the disconnect

    def cancel(_: object) -> None:
        assert task
        task.cancel()

    gone.add_done_callback(cancel)
    try:
        return await work
    except asyncio.CancelledError:
        if gone.done() and task and not task.uncancel():
            raise ClientDisconnect from None
        raise
    finally:
        gone.remove_done_callback(cancel)
        gone.cancel()


def _json(stages: Stages, content: object) -> Response:
    with stages.stage("encode"):
        encoded = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(encoded, media_type="application/json")
