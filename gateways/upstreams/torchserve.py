"""TorchServe: one REST call per image, all at once, so that TorchServe can batch them.

REST, not TorchServe's gRPC: over gRPC its errors come back as status OK, and more requests per second are answered over
REST (a trial with aiohttp and grpc.aio: 25 to 47 % more).
"""

import asyncio
import logging
from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from gateways.core.answer import TOP_K, Class, Prediction
from gateways.core.errors import ServeError, Status
from gateways.core.timing import Stages
from gateways.core.traces import passed_on
from gateways.upstreams.calls import LIMIT_S, not_loaded, together, within
from gateways.upstreams.http import Answer, Server

log = logging.getLogger(__name__)

# Well below TorchServe's job queue (150). Further calls wait here, within their deadlines, instead of being refused
# there.
AT_ONCE = 64


class _Answer(msgspec.Struct):
    """What the handler answers for one image."""

    embedding: list[float]
    classes: tuple[Class, ...]


_answer = msgspec.json.Decoder(_Answer)


class TorchServe:
    """The model `model` behind TorchServe's REST interface at `url`. Made inside a running event loop."""

    name = "torchserve"
    # The handler always answers its five best classes.
    max_top_k: int | None = TOP_K

    def __init__(self, url: str, model: str) -> None:
        self._model = model
        self._path = f"/predictions/{quote(model)}"
        self._room = asyncio.Semaphore(AT_ONCE)
        self._server = Server(url)

    async def predict(
        self, jpegs: Sequence[bytes], *, stages: Stages, timeout: float | None, top_k: int = TOP_K
    ) -> list[Prediction]:
        """See gateways.upstreams. `backend` in `stages` holds the calls, TorchServe's own preprocessing included."""
        with stages.stage("backend"):
            async with within(timeout, "TorchServe"):
                return await together([self._one(i, jpeg, top_k) for i, jpeg in enumerate(jpegs)])

    async def answered(self) -> float:
        """TorchServe's REST interface has no such count."""
        return 0

    async def close(self) -> None:
        self._server.close()

    async def _one(self, index: int, jpeg: bytes, top_k: int) -> Prediction:
        await self._room.acquire()
        try:
            status, body = await asyncio.shield(await self._asked(jpeg))
        except OSError as error:
            log.warning("TorchServe: %s: %s", type(error).__name__, error)
            raise ServeError(
                Status.UNAVAILABLE, "TorchServe cannot be reached, it may be restarting: try again in a few seconds"
            ) from error
        if status != 200:
            raise self._refused(index, status, body)
        answer = _answer.decode(body)
        return Prediction(answer.embedding, answer.classes[:top_k])

    async def _asked(self, jpeg: bytes) -> asyncio.Future[Answer]:
        """A call that has been sent. It keeps its place until TorchServe has answered, also when its caller is gone:
        otherwise calls whose deadlines expire would fill the queue with work that no client waits for."""
        try:
            connection = await self._server.connection()
            headers = (("content-type", "image/jpeg"), *passed_on.get())
            answer = connection.post(self._path, jpeg, headers, LIMIT_S)
        except BaseException:
            self._room.release()
            raise
        answer.add_done_callback(self._done)
        return answer

    def _done(self, answer: asyncio.Future[Answer]) -> None:
        self._room.release()
        answer.exception()  # read here, because asyncio warns of an exception that was never read

    def _refused(self, index: int, status: int, body: bytes) -> ServeError:
        """TorchServe's refusal as an error for our client. Only the handler's own text about an image is passed on."""
        if status == 400:
            return ServeError(Status.INVALID, _message(body, f"images[{index}]"))
        if status == 413:
            return ServeError(Status.TOO_LARGE, f"images[{index}] is too large for TorchServe: send a smaller JPEG")
        if status == 404:
            return not_loaded("TorchServe", self._model)
        log.warning("TorchServe: HTTP %d: %s", status, body[:500].decode(errors="replace"))
        # 503: its job queue is full, or no worker is up. 507: the worker died and is being replaced. 500: a worker's
        # fault, and TorchServe replaces a broken one. A later try may well be answered.
        return ServeError(
            Status.UNAVAILABLE, "TorchServe failed, its worker may be restarting or full: try again in a few seconds"
        )


def _message(body: bytes, name: str) -> str:
    """The handler's error about the one image that it got, with the image's `name` in the client's request."""
    try:
        words = str(msgspec.json.decode(body)["message"])
    except (ValueError, LookupError, TypeError):
        words = "TorchServe refused it"
    return name + words.removeprefix("image") if words.startswith("image ") else f"{name}: {words}"
