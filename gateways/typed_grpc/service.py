"""VisionService: from gRPC calls to predictions. Thin: the contract is convert.py, the work gateways.upstreams."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import grpc
from fiveway.vision.v1 import vision_pb2 as pb
from google.rpc import status_pb2

from gateways.core import metrics
from gateways.core.errors import ServeError, Status
from gateways.core.following import Followed
from gateways.core.image import opened
from gateways.core.messages import parse
from gateways.core.timing import Stages
from gateways.core.traces import traced
from gateways.rpc.calls import Context, metadata, refusal, timing
from gateways.typed_grpc import convert
from gateways.typed_grpc.upstreams import Served

SERVICE = pb.DESCRIPTOR.services_by_name["VisionService"].full_name

# Batches in progress in this process, and the bytes of their photos, which take about four times as much on their way
# to an upstream. More would only wait for the same upstream.
MAX_AT_WORK = 128
MAX_HELD = 128 * 1024 * 1024
# A message of so many bytes is checked by the event loop: a thread costs 0.3 ms of CPU time, and the worst header that
# was found takes 11 ms.
CHECKED_HERE = 64 * 1024
# Messages of one stream in progress: enough to fill an upstream's batch, and a bound on memory.
PIPELINE = 8


class VisionService:
    """The contract's service. Requests arrive as bytes, so malformed ones are answered with INVALID_ARGUMENT, not
    UNKNOWN."""

    def __init__(self, followed: Followed[Served], threads: Executor) -> None:
        self._followed = followed
        self._threads = threads
        self._at_work = self._held = 0

    def handlers(self) -> grpc.GenericRpcHandler:
        """For Server.add_generic_rpc_handlers."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Predict": grpc.unary_unary_rpc_method_handler(
                    self.predict, response_serializer=pb.PredictResponse.SerializeToString
                ),
                "PredictStream": grpc.stream_stream_rpc_method_handler(
                    self.predict_stream, response_serializer=pb.PredictStreamResponse.SerializeToString
                ),
            },
        )

    async def predict(self, body: bytes, context: Context) -> pb.PredictResponse:
        """Unary: one batch, which fails as a whole."""
        stages = Stages()
        try:
            with traced(f"{SERVICE}/Predict", _headers(context), stages), metrics.counted(stages):
                message, name = parse(pb.PredictRequest, body), metadata(context, "x-backend")
                answer = await self._answer(message, name, stages, context.time_remaining())
        except Exception as error:
            await context.abort(*refusal(error, *timing(stages)))
        context.set_trailing_metadata(timing(stages))
        return answer

    async def predict_stream(self, bodies: AsyncIterator[bytes], context: Context) -> None:
        """Bidirectional: answers in order, at most PIPELINE in progress; a failed message is answered with its
        error."""
        stages, name, headers = Stages(), metadata(context, "x-backend"), _headers(context)
        try:
            self._followed.now.choose(name)
        except ServeError as error:
            await context.abort(*refusal(error, *timing(stages)))
        slots = asyncio.Semaphore(PIPELINE)
        answers: asyncio.Queue[asyncio.Task[pb.PredictStreamResponse] | None] = asyncio.Queue()

        async def read(group: asyncio.TaskGroup) -> None:
            await slots.acquire()
            async for body in bodies:
                answers.put_nowait(group.create_task(self._answer_in_stream(body, name, headers)))
                await slots.acquire()
            answers.put_nowait(None)

        # Leaving the group (e.g. when the client cancels) cancels the messages in progress.
        async with asyncio.TaskGroup() as group:
            group.create_task(read(group))
            while answer := await answers.get():
                await context.write(await answer)
                slots.release()
        context.set_trailing_metadata(timing(stages))

    async def _answer_in_stream(
        self, body: bytes, name: str | None, headers: Mapping[str, Any]
    ) -> pb.PredictStreamResponse:
        """One message's answer or error. No timeout: gRPC cancels the whole stream at its deadline."""
        stages = Stages()
        try:
            with traced(f"{SERVICE}/PredictStream", headers, stages), metrics.counted(stages):
                request = parse(pb.PredictStreamRequest, body).request
                answer = await self._answer(request, name, stages, None)
        except Exception as error:
            code, message, _ = refusal(error)
            failure = status_pb2.Status(code=code.value[0], message=message)
            return pb.PredictStreamResponse(error=failure, server_timing=stages.header())
        return pb.PredictStreamResponse(response=answer, server_timing=stages.header())

    async def _answer(
        self, message: pb.PredictRequest, name: str | None, stages: Stages, timeout: float | None
    ) -> pb.PredictResponse:
        """Check, predict, convert. `timeout` is what is left of the client's deadline, in seconds."""
        served = self._followed.now
        watched = served.choose(name)
        upstream = watched.upstream
        convert.check(message, upstream=upstream.name, max_top_k=upstream.max_top_k)
        if self._at_work >= MAX_AT_WORK:
            raise ServeError(
                Status.OVERLOADED, f"{MAX_AT_WORK} batches are at work already: try again, with a growing pause"
            )
        held = message.ByteSize()
        if self._held + held > MAX_HELD and self._at_work:
            raise ServeError(Status.OVERLOADED, "too many large requests at once: send this again in a second")
        self._at_work += 1
        self._held += held
        try:
            with self._followed.use():
                if held > CHECKED_HERE:
                    await asyncio.get_running_loop().run_in_executor(self._threads, _check, message.images)
                else:
                    _check(message.images)
                with watched.line.join(len(message.images), timeout):
                    metrics.BATCH.observe(len(message.images))
                    predictions = await watched.predict(
                        message.images, stages=stages, timeout=timeout, top_k=message.top_k
                    )
                assert served.manifest  # it has upstreams
                return convert.response(predictions, message, served.manifest)
        finally:
            self._at_work -= 1
            self._held -= held


def _headers(context: Context) -> Mapping[str, Any]:
    return dict(context.invocation_metadata() or ())


def _check(jpegs: Sequence[bytes]) -> None:
    """Refuse what a JPEG's header already rules out, before any upstream is called. Raises ServeError.

    About 40 microseconds per photo. The header of a large hostile one can take seconds.
    """
    for index, jpeg in enumerate(jpegs):
        opened(jpeg, name=f"images[{index}]")
