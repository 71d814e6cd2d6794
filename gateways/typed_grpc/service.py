"""VisionService: from gRPC calls to predictions. Thin: the contract is convert.py, the work gateways.upstreams."""

import asyncio
import logging
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from typing import NoReturn

import grpc
from fiveway.vision.v1 import vision_pb2 as pb

from gateways.core.errors import ServeError, Status, told
from gateways.core.messages import parse
from gateways.core.timing import Stages
from gateways.typed_grpc import convert, images
from gateways.typed_grpc.backends import Served, choose

log = logging.getLogger(__name__)

SERVICE = pb.DESCRIPTOR.services_by_name["VisionService"].full_name

# Batches at work in this process. More would only wait for the same backend, and each may hold 32 MiB.
MAX_AT_WORK = 128
# Messages of one stream at work: enough to fill a backend's batch, and a bound on memory.
PIPELINE = 8

Context = grpc.aio.ServicerContext[bytes, object]


class VisionService:
    """The contract's service. Requests arrive as bytes, so that one that is no message gets our status, not UNKNOWN."""

    def __init__(self, served: Served, threads: Executor) -> None:
        self.served = served
        """What new calls, and the next messages of a stream, are answered by."""
        self._threads = threads
        self._at_work = 0

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
            message, name = parse(pb.PredictRequest, body), _metadata(context, "x-backend")
            answer = await self._answer(message, name, stages, context.time_remaining())
        except Exception as error:
            await _abort(context, error, stages)
        context.set_trailing_metadata((("server-timing", stages.header()),))
        return answer

    async def predict_stream(self, bodies: AsyncIterator[bytes], context: Context) -> None:
        """Bidirectional: answers in order, at most PIPELINE at work; a failed message is answered with its error."""
        stages, name = Stages(), _metadata(context, "x-backend")
        try:
            choose(self.served, name)
        except ServeError as error:
            await _abort(context, error, stages)
        slots = asyncio.Semaphore(PIPELINE)
        answers: asyncio.Queue[asyncio.Task[pb.PredictStreamResponse] | None] = asyncio.Queue()

        async def read(group: asyncio.TaskGroup) -> None:
            await slots.acquire()
            async for body in bodies:
                answers.put_nowait(group.create_task(self._answer_in_stream(body, name)))
                await slots.acquire()
            answers.put_nowait(None)

        # Leaving the group, by the client's cancellation for one, cancels what is at work.
        async with asyncio.TaskGroup() as group:
            group.create_task(read(group))
            while answer := await answers.get():
                await context.write(await answer)
                slots.release()
        context.set_trailing_metadata((("server-timing", stages.header()),))

    async def _answer_in_stream(self, body: bytes, backend: str | None) -> pb.PredictStreamResponse:
        """One message's answer or error. No timeout: gRPC cancels the whole stream at its deadline."""
        stages = Stages()
        try:
            message = parse(pb.PredictStreamRequest, body).request
            answer = await self._answer(message, backend, stages, None)
        except Exception as error:
            return pb.PredictStreamResponse(error=convert.error(told(error, log)), server_timing=stages.header())
        return pb.PredictStreamResponse(response=answer, server_timing=stages.header())

    async def _answer(
        self, message: pb.PredictRequest, name: str | None, stages: Stages, timeout: float | None
    ) -> pb.PredictResponse:
        """Check, predict, convert. `timeout` is what is left of the client's deadline, in seconds."""
        served = self.served
        backend = choose(served, name)
        predictor = backend.predictor
        asked = convert.request(message, backend=predictor.name, max_top_k=predictor.max_top_k)
        if self._at_work >= MAX_AT_WORK:
            raise ServeError(
                Status.OVERLOADED, f"{MAX_AT_WORK} batches are at work already: try again, with a growing pause"
            )
        self._at_work += 1
        served.at_work += 1
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, images.check, asked.images)
            predictions = await backend.predict(asked.images, stages=stages, timeout=timeout, top_k=asked.top_k)
            assert served.manifest  # it has backends
            return convert.response(predictions, asked, served.manifest)
        finally:
            self._at_work -= 1
            served.at_work -= 1


class UnknownMethods(grpc.GenericRpcHandler):
    """The last handler: says what there is, where gRPC would only say "Method not found!"."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        method = handler_call_details.method

        async def refuse(_: AsyncIterator[bytes], context: Context) -> None:
            status = convert.code(Status.UNIMPLEMENTED)
            await context.abort(status, f"no method {method}: ask the server's reflection, or call /{SERVICE}/Predict")

        return grpc.stream_stream_rpc_method_handler(refuse)


async def _abort(context: Context, error: Exception, stages: Stages) -> NoReturn:
    failure = told(error, log)
    await context.abort(convert.code(failure.status), failure.message, (("server-timing", stages.header()),))


def _metadata(context: Context, key: str) -> str | None:
    """The request metadata `key`; the last one where it was sent twice."""
    value = dict(context.invocation_metadata() or ()).get(key)
    return value.decode(errors="replace") if isinstance(value, bytes) else value
