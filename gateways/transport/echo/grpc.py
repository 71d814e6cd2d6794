"""BaseService and DistanceService over grpc.aio. Requests arrive as bytes: one that is no message gets our status."""

import base64 as standard
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import grpc
from fiveway.transport.v1 import base_pb2, distance_pb2
from google.protobuf.message import Message

from gateways.core.messages import parse
from gateways.core.text import unbase64
from gateways.rpc.calls import Context, refusal
from gateways.rpc.server import ALONE, listening
from gateways.transport.echo import answers

OPTIONS = (ALONE, ("grpc.max_receive_message_length", 32 * 1024 * 1024))


def running(address: str) -> AbstractAsyncContextManager[int]:
    """The server on `address` (host:port; port 0: a free one); gives the port."""
    return listening(create_server(), address)


def create_server() -> grpc.aio.Server:
    """The server without a port."""
    server = grpc.aio.server(options=OPTIONS)
    base = {
        "Structured": _unary(base_pb2.StructuredRequest, structured),
        "StructuredStream": _stream(
            base_pb2.StructuredStreamRequest,
            lambda asked: base_pb2.StructuredStreamResponse(response=structured(asked.request)),
        ),
        "Base64": _unary(base_pb2.Base64Request, base64),
        "Binary": _unary(base_pb2.BinaryRequest, binary),
        "BinaryStream": _stream(
            base_pb2.BinaryStreamRequest, lambda asked: base_pb2.BinaryStreamResponse(response=binary(asked.request))
        ),
    }
    distance = {
        "ListVectors": _unary(distance_pb2.ListVectorsRequest, lambda asked: answers.vector_list(asked.count)),
        "StreamVectors": _many(
            distance_pb2.StreamVectorsRequest, lambda asked: answers.vector_stream(asked.count, asked.per_message or 1)
        ),
    }
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler("fiveway.transport.v1.BaseService", base),
            grpc.method_handlers_generic_handler("fiveway.transport.v1.DistanceService", distance),
        )
    )
    return server


def structured(asked: base_pb2.StructuredRequest) -> base_pb2.StructuredResponse:
    """The request's own fields, and the entries that it asked for."""
    return base_pb2.StructuredResponse(
        name=asked.name, text=asked.text, entries=_entries(asked.entries), attributes=asked.attributes
    )


def base64(asked: base_pb2.Base64Request) -> base_pb2.Base64Response:
    """Length and CRC-32 of the image."""
    size, crc = answers.received(unbase64(asked.image, "image", standard.b64decode))
    return base_pb2.Base64Response(size_bytes=size, crc32=crc, entries=_entries(asked.entries))


def binary(asked: base_pb2.BinaryRequest) -> base_pb2.BinaryResponse:
    """Length and CRC-32 of the image."""
    size, crc = answers.received(asked.image)
    return base_pb2.BinaryResponse(size_bytes=size, crc32=crc, entries=_entries(asked.entries))


def _entries(count: int) -> list[base_pb2.Entry]:
    return [base_pb2.Entry(label=label, score=score) for label, score in answers.entries(count)]


def _unary[M: Message](kind: type[M], answer: Callable[[M], Message]) -> "grpc.RpcMethodHandler[bytes, Any]":
    async def call(body: bytes, context: Context) -> Message:
        try:
            return answer(parse(kind, body))
        except Exception as error:
            await context.abort(*refusal(error))

    return grpc.unary_unary_rpc_method_handler(call, response_serializer=_serialize)


def _stream[M: Message](kind: type[M], answer: Callable[[M], Message]) -> "grpc.RpcMethodHandler[bytes, Any]":
    async def call(bodies: AsyncIterator[bytes], context: Context) -> None:
        async for body in bodies:
            try:
                message = answer(parse(kind, body))
            except Exception as error:
                await context.abort(*refusal(error))
            await context.write(message)

    return grpc.stream_stream_rpc_method_handler(call, response_serializer=_serialize)


def _many[M: Message](kind: type[M], answer: Callable[[M], Sequence[Message]]) -> "grpc.RpcMethodHandler[bytes, Any]":
    async def call(body: bytes, context: Context) -> None:
        try:
            messages = answer(parse(kind, body))
        except Exception as error:
            await context.abort(*refusal(error))
        for message in messages:
            await context.write(message)

    return grpc.unary_stream_rpc_method_handler(call, response_serializer=_serialize)


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()
