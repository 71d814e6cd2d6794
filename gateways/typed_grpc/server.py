"""The running gateway: what listens, what it tells about its health, and how it starts and stops."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from gateways.core.errors import ServeError
from gateways.core.manifest import Manifest
from gateways.core.serving import Serving, follow, followed
from gateways.typed_grpc.backends import DEFAULT, Backend, Predictor, Served, answered_once, watch
from gateways.typed_grpc.service import SERVICE, UnknownMethods, VisionService
from gateways.upstreams.torchserve import TorchServe
from gateways.upstreams.triton import Triton

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
async def running(artifacts: Path, torchserve_url: str, triton_address: str, listen: str) -> AsyncIterator[int]:
    """The gateway for what `artifacts` says is served, on `listen` (host:port; port 0: a free one). Yields the port.

    On leaving, health turns NOT_SERVING at once and calls at work get STOP_GRACE_S to finish.
    """
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="jpeg")
    health_ = Health()
    for name in (TorchServe.name, Triton.name):
        await health_.report(name, False)

    def served_of(serving: Serving) -> Served:
        if not serving.images:
            return Served(serving)
        manifest = Manifest.load(artifacts, serving.model)
        predictors: Iterable[Predictor] = (
            TorchServe(torchserve_url, manifest.model),
            Triton(triton_address, manifest, threads=threads),
        )
        return Served(serving, manifest, {predictor.name: Backend(predictor) for predictor in predictors})

    vision = VisionService(served_of(Serving.load(artifacts)), threads)

    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers((vision.handlers(),))
    health_pb2_grpc.add_HealthServicer_to_server(health_.servicer, server)
    reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    server.add_generic_rpc_handlers((UnknownMethods(),))
    port = server.add_insecure_port(listen)
    await server.start()
    log.info("serving %s on port %d", vision.served.serving.model, port)

    async def watched(served: Served) -> list[asyncio.Task[None]]:
        """Watch its backends; without any, healthy means that this gateway can say so."""
        if not served.backends:
            for name in (TorchServe.name, Triton.name):
                await health_.report(name, True)
        return [asyncio.create_task(watch(backend, health_.report)) for backend in served.backends.values()]

    watchers = await watched(vision.served)

    async def switch(serving: Serving) -> None:
        """Between two calls, when the new model has answered here; the old one's calls at work end first."""
        nonlocal watchers
        new, old = served_of(serving), vision.served
        try:
            for backend in new.backends.values():
                await answered_once(backend)
        except ServeError:
            await new.close()
            raise
        stop(watchers)
        vision.served = new
        watchers = await watched(new)
        await old.drained()
        await old.close()
        followed(serving)

    followed(vision.served.serving)
    follower = asyncio.create_task(follow(artifacts, vision.served.serving, switch))
    try:
        yield port
    finally:
        log.info("stopping")
        stop([follower, *watchers])
        await health_.servicer.enter_graceful_shutdown()
        await server.stop(STOP_GRACE_S)
        await vision.served.close()
        threads.shutdown(wait=False, cancel_futures=True)


def stop(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
