"""How every grpc.aio server starts and stops."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2

from gateways.core.start import listen, log_to_stderr
from gateways.rpc.calls import UnknownMethods

STOP_GRACE_S = 5.0
REFLECTION_V1 = "grpc.reflection.v1.ServerReflection"

# A second server on the port is an error: without this option the kernel would balance the load between the two.
ALONE = ("grpc.so_reuseport", 0)
KEPT_ALIVE = (
    ALONE,
    # A client that vanished without a FIN is noticed after 60 + 20 s.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Clients may ping every 10 s, also between calls. By default gRPC would close their connections.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)


def at_most(size: int) -> tuple[tuple[str, int], ...]:
    """The options that bound a message, in both directions."""
    return (("grpc.max_receive_message_length", size), ("grpc.max_send_message_length", size))


def describe(server: grpc.aio.Server, *services: str, unknown: str) -> None:
    """Add reflection and, as the last handler, `unknown`: the message for an unknown method, whose name replaces {}."""
    names = reflection.SERVICE_NAME, REFLECTION_V1
    servicer = reflection.aio.ReflectionServicer((*services, *names))
    # The library knows v1alpha only. v1 has the same messages under another package.
    answer = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    handlers = [grpc.method_handlers_generic_handler(name, {"ServerReflectionInfo": answer}) for name in names]
    server.add_generic_rpc_handlers((*handlers, UnknownMethods(unknown)))


@asynccontextmanager
async def listening(server: grpc.aio.Server, address: str) -> AsyncIterator[int]:
    """Serve on `address` (host:port; port 0: a free one). Yields the port; at the end calls get STOP_GRACE_S."""
    port = server.add_insecure_port(address)
    await server.start()
    try:
        yield port
    finally:
        await server.stop(STOP_GRACE_S)


def serve(running: Callable[[str], AbstractAsyncContextManager[object]], port: int) -> None:
    """Run the server that `running` starts on LISTEN (by default on `port`) until SIGTERM or SIGINT."""
    log_to_stderr()

    async def held() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        host, chosen = listen(port)
        async with running(f"{host}:{chosen}"):
            await stop.wait()

    asyncio.run(held())
