"""BaseService and DistanceService over grpc.aio. Requests arrive as bytes, so malformed ones are answered with
INVALID_ARGUMENT."""

import base64 as standard
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import grpc
from fiveway.transport.v1 import base_pb2 as pb
from fiveway.transport.v1.distance_pb2 import ListVectorsRequest, StreamVectorsRequest
from google.protobuf.message import Message

from gateways.core.messages import parse
from gateways.core.text import unbase64
from gateways.rpc.calls import Context, refusal
from gateways.rpc.server import ALONE, listening
from gateways.transport.echo import answers

OPTIONS = (ALONE, ("grpc.max_receive_message_length", 32 * 1024 * 1024))


def running(address: str) -> AbstractAsyncContextManager[int]:
    """The server on `address` (host:port; port 0: a free one); gives the port."""
    server = grpc.aio.server(options=OPTIONS)
    base = {
        "Structured": _unary(pb.StructuredRequest, structured),
        "StructuredStream": _stream(
            pb.StructuredStreamRequest, lambda asked: pb.StructuredStreamResponse(response=structured(asked.request))
        ),
        "Base64": _unary(pb.Base64Request, base64),
        "Binary": _unary(pb.BinaryRequest, binary),
        "BinaryStream": _stream(
            pb.BinaryStreamRequest, lambda asked: pb.BinaryStreamResponse(response=binary(asked.request))
        ),
    }
    distance = {
        "ListVectors": _unary(ListVectorsRequest, lambda asked: answers.vector_list(asked.count)),
        "StreamVectors": _many(
            StreamVectorsRequest, lambda asked: answers.vector_stream(asked.count, asked.per_message or 1)
        ),
    }
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler("fiveway.transport.v1.BaseService", base),
            grpc.method_handlers_generic_handler("fiveway.transport.v1.DistanceService", distance),
        )
    )
    return listening(server, address)


def structured(asked: pb.StructuredRequest) -> pb.StructuredResponse:
    return answers.structured(asked, pb.Entry, pb.StructuredResponse)


def base64(asked: pb.Base64Request) -> pb.Base64Response:
    image = unbase64(asked.image, "image", standard.b64decode)
    return answers.received(image, asked.entries, pb.Entry, pb.Base64Response)


def binary(asked: pb.BinaryRequest) -> pb.BinaryResponse:
    return answers.received(asked.image, asked.entries, pb.Entry, pb.BinaryResponse)


def _unary[M: Message](kind: type[M], answer: Callable[[M], Message]) -> "grpc.RpcMethodHandler[bytes, Any]":
    async def call(body: bytes, context: Context) -> Message:
        return await _answered(kind, answer, body, context)

    return grpc.unary_unary_rpc_method_handler(call, response_serializer=_serialize)


def _stream[M: Message](kind: type[M], answer: Callable[[M], Message]) -> "grpc.RpcMethodHandler[bytes, Any]":
    async def call(bodies: AsyncIterator[bytes], context: Context) -> None:
        async for body in bodies:
            await context.write(await _answered(kind, answer, body, context))

    return grpc.stream_stream_rpc_method_handler(call, response_serializer=_serialize)


def _many[M: Message](kind: type[M], answer: Callable[[M], Sequence[Message]]) -> "grpc.RpcMethodHandler[bytes, Any]":
    async def call(body: bytes, context: Context) -> None:
        for message in await _answered(kind, answer, body, context):
            await context.write(message)

    return grpc.unary_stream_rpc_method_handler(call, response_serializer=_serialize)


async def _answered[M: Message, A](kind: type[M], answer: Callable[[M], A], body: bytes, context: Context) -> A:
    try:
        return answer(parse(kind, body))
    except Exception as error:
        await context.abort(*refusal(error))


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()
