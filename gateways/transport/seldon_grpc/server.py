"""seldon.protos.Seldon/Predict; with the metadata `x-mode: raw` the message is not turned into an array."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
from grpc_reflection.v1alpha import reflection
from seldon import prediction_pb2 as pb

from gateways.core.errors import Status, told
from gateways.core.timing import Stages
from gateways.transport.seldon import payload
from gateways.transport.seldon.payload import MAX_BODY

SERVICE = pb.DESCRIPTOR.services_by_name["Seldon"].full_name

STOP_GRACE_S = 5.0
OPTIONS = (
    ("grpc.max_receive_message_length", MAX_BODY),
    ("grpc.max_send_message_length", MAX_BODY),
    # A second server on the port is a mistake to hear about, not a load balancer.
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)

log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[bytes, bytes]


async def predict(body: bytes, context: Context) -> bytes:
    """One SeldonMessage in, one out; as bytes, so that what is no message gets our status, not UNKNOWN."""
    stages, mode = Stages(), dict(context.invocation_metadata() or ()).get("x-mode")
    try:
        answer = payload.answer_proto(body, mode.decode(errors="replace") if isinstance(mode, bytes) else mode, stages)
    except Exception as error:
        known = told(error, log)
        trailer = (("server-timing", stages.header()),)
        await context.abort(grpc.StatusCode[known.status.grpc], known.message, trailer)
    context.set_trailing_metadata((("server-timing", stages.header()),))
    return answer


class UnknownMethods(grpc.GenericRpcHandler):
    """The last handler: says what there is, where gRPC would only say "Method not found!"."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        method = handler_call_details.method

        async def refuse(_: AsyncIterator[bytes], context: Context) -> None:
            await context.abort(
                grpc.StatusCode[Status.UNIMPLEMENTED.grpc], f"no method {method} here: call /{SERVICE}/Predict"
            )

        return grpc.stream_stream_rpc_method_handler(refuse)


@asynccontextmanager
async def running(listen: str) -> AsyncIterator[int]:
    """The gateway on `listen` (host:port; port 0: a free one). Yields the port."""
    server = grpc.aio.server(options=OPTIONS)
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {"Predict": grpc.unary_unary_rpc_method_handler(predict)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    reflection.enable_server_reflection((SERVICE, reflection.SERVICE_NAME), server)
    server.add_generic_rpc_handlers((UnknownMethods(),))
    port = server.add_insecure_port(listen)
    await server.start()
    try:
        yield port
    finally:
        await server.stop(STOP_GRACE_S)
