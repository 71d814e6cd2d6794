"""The running gateway: what listens, what it tells about its health, and how it starts and stops."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from gateways.backends.torchserve import TorchServe
from gateways.backends.triton import Triton
from gateways.core.manifest import Manifest
from gateways.typed_grpc.backends import DEFAULT, Backend, Predictor, watch
from gateways.typed_grpc.service import SERVICE, UnknownMethods, VisionService

log = logging.getLogger(__name__)

STOP_GRACE_S = 5.0
# Pillow releases the GIL while it decodes; more than four threads would only hold more decoded photos in memory.
THREADS = min(os.cpu_count() or 1, 4)

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # A second server on the port is a mistake to hear about, not a load balancer.
    ("grpc.so_reuseport", 0),
    # A client that vanished without a FIN is noticed after 60 + 20 s.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # Clients may ping every 10 s, also between calls (gRPC's own answer to that would be to hang up on them).
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)


class Health:
    """grpc.health.v1: each backend under its own name; the default one also as the server ("") and VisionService."""

    def __init__(self) -> None:
        self.servicer = health.aio.HealthServicer()

    async def report(self, backend: str, serving: bool) -> None:
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in (backend, "", SERVICE) if backend == DEFAULT else (backend,):
            await self.servicer.set(name, status)


@asynccontextmanager
async def running(manifest: Manifest, torchserve_url: str, triton_address: str, listen: str) -> AsyncIterator[int]:
    """The gateway, listening on `listen` (host:port; port 0 takes a free one). Yields the port.

    On leaving, health turns NOT_SERVING at once and calls at work get STOP_GRACE_S to finish.
    """
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="jpeg")
    torchserve = TorchServe(torchserve_url, manifest.model)
    triton = Triton(triton_address, manifest, threads=threads)
    predictors: Iterable[Predictor] = (torchserve, triton)
    backends = {predictor.name: Backend(predictor) for predictor in predictors}
    health_ = Health()
    for name in backends:
        await health_.report(name, False)

    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers((VisionService(backends, manifest, threads).handlers(),))
    health_pb2_grpc.add_HealthServicer_to_server(health_.servicer, server)
    reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    server.add_generic_rpc_handlers((UnknownMethods(),))
    port = server.add_insecure_port(listen)
    await server.start()
    log.info("serving %s (%s weights) on port %d", manifest.model, manifest.weights, port)
    watchers = [asyncio.create_task(watch(backend, health_.report)) for backend in backends.values()]
    try:
        yield port
    finally:
        log.info("stopping")
        for watcher in watchers:
            watcher.cancel()
        await health_.servicer.enter_graceful_shutdown()
        await server.stop(STOP_GRACE_S)
        for predictor in predictors:
            await predictor.close()
        threads.shutdown(wait=False, cancel_futures=True)
