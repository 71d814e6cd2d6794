"""VisionService: from gRPC calls to predictions. Thin: the contract is convert.py, the work gateways.upstreams."""

import asyncio
from collections.abc import AsyncIterator, Mapping

import grpc
from fiveway.vision.v1 import vision_pb2 as pb
from google.rpc import status_pb2

from gateways.core import metrics
from gateways.core.errors import ServeError, Status
from gateways.core.following import Followed
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
# Messages of one stream in progress: enough to fill an upstream's batch, and a bound on memory.
PIPELINE = 8


class VisionService:
    """The contract's service. Requests arrive as bytes, so malformed ones are answered with INVALID_ARGUMENT, not
    UNKNOWN."""

    def __init__(self, followed: Followed[Served]) -> None:
        self._followed = followed
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
        stages, headers = Stages(), metadata(context)
        try:
            with traced(f"{SERVICE}/Predict", headers, stages), metrics.counted(stages):
                message = parse(pb.PredictRequest, body)
                answer = await self._answer(message, headers.get("x-backend"), stages, context.time_remaining())
        except Exception as error:
            await context.abort(*refusal(error, *timing(stages)))
        context.set_trailing_metadata(timing(stages))
        return answer

    async def predict_stream(self, bodies: AsyncIterator[bytes], context: Context) -> None:
        """Bidirectional: answers in order, at most PIPELINE in progress; a failed message is answered with its
        error."""
        stages, headers = Stages(), metadata(context)
        try:
            self._followed.now.choose(headers.get("x-backend"))
        except ServeError as error:
            await context.abort(*refusal(error, *timing(stages)))
        slots = asyncio.Semaphore(PIPELINE)
        answers: asyncio.Queue[asyncio.Task[pb.PredictStreamResponse] | None] = asyncio.Queue()

        async def read(group: asyncio.TaskGroup) -> None:
            await slots.acquire()
            async for body in bodies:
                answers.put_nowait(group.create_task(self._answer_in_stream(body, headers)))
                await slots.acquire()
            answers.put_nowait(None)

        # Leaving the group (e.g. when the client cancels) cancels the messages in progress.
        async with asyncio.TaskGroup() as group:
            group.create_task(read(group))
            while answer := await answers.get():
                await context.write(await answer)
                slots.release()
        context.set_trailing_metadata(timing(stages))

    async def _answer_in_stream(self, body: bytes, headers: Mapping[str, str]) -> pb.PredictStreamResponse:
        """One message's answer or error. No timeout: gRPC cancels the whole stream at its deadline."""
        stages = Stages()
        try:
            with traced(f"{SERVICE}/PredictStream", headers, stages), metrics.counted(stages):
                request = parse(pb.PredictStreamRequest, body).request
                answer = await self._answer(request, headers.get("x-backend"), stages, None)
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
