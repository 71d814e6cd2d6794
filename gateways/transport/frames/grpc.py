"""FrameService over gRPC, in threads. Requests arrive as bytes, so malformed ones are answered with
INVALID_ARGUMENT."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from fiveway.transport.v1 import frames_pb2 as pb

from gateways.core.messages import parse
from gateways.rpc.calls import refusal
from gateways.rpc.server import ALONE
from gateways.transport.frames.frame import Usage, change, pixels

CALLS = 8
"""Calls at the same time, open streams included. Each has a thread. The limit bounds the memory of messages."""
OPTIONS = (ALONE, ("grpc.max_receive_message_length", 16 * 1024 * 1024))


def create_server(usage: Usage) -> grpc.Server:
    """The server without a port."""

    def changed(request: Any, response: Callable[..., Any], body: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            asked = parse(request, body)
            frame = change(pixels(asked.pixels, asked.width, asked.height))
            return response(pixels=frame.tobytes(), cpu_ms=usage.spent_ms()).SerializeToString()
        except Exception as error:
            context.abort(*refusal(error)[:2])

    def unary(body: bytes, context: grpc.ServicerContext) -> bytes:
        return changed(pb.ChangeRequest, pb.ChangeResponse, body, context)

    def stream(bodies: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        return (changed(pb.ChangeStreamRequest, pb.ChangeStreamResponse, body, context) for body in bodies)

    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "Change": grpc.unary_unary_rpc_method_handler(unary),
        "ChangeStream": grpc.stream_stream_rpc_method_handler(stream),
    }
    return grpc.server(
        ThreadPoolExecutor(CALLS),
        handlers=[grpc.method_handlers_generic_handler("fiveway.transport.v1.FrameService", handlers)],
        options=OPTIONS,
        maximum_concurrent_rpcs=CALLS,
    )
