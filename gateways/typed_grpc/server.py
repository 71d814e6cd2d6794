"""The running gateway: its port, its health service, and how it starts, changes to another model and stops."""

import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from gateways.core import metrics
from gateways.core.following import Followed
from gateways.core.manifest import Manifest
from gateways.core.serving import Serving
from gateways.core.threads import available_cores
from gateways.rpc.server import KEPT_ALIVE, at_most, describe, listening
from gateways.typed_grpc.service import SERVICE, VisionService
from gateways.typed_grpc.upstreams import DEFAULT, NAMES, Served
from gateways.upstreams.torchserve import TorchServe
from gateways.upstreams.triton import Triton

log = logging.getLogger(__name__)

# Pillow releases the GIL while it decodes; more than four threads would only hold more decoded photos in memory.
THREADS = min(available_cores(), 4)
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
UNKNOWN = f"no method {{}}: ask the server's reflection, or call /{SERVICE}/Predict"


@asynccontextmanager
async def running(artifacts: Path, torchserve_url: str, triton_address: str, address: str) -> AsyncIterator[int]:
    """The gateway for what `artifacts` says is served, on `address` (host:port; port 0: a free one). Yields the port.

    On leaving, health turns NOT_SERVING at once, and calls in progress get time to finish.
    """
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="jpeg")
    statuses = health.aio.HealthServicer()

    async def report(upstream: str, serving: bool) -> None:
        """Report each upstream under its own name, and the default one also as the server ("") and VisionService."""
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in (upstream, "", SERVICE) if upstream == DEFAULT else (upstream,):
            await statuses.set(name, status)
        metrics.SERVING.labels(upstream).set(serving)

    def served_of(serving: Serving) -> Served:
        if not serving.images:
            return Served(report, serving)
        manifest = Manifest.load(artifacts, serving.model)
        upstreams = TorchServe(torchserve_url, manifest.model), Triton(triton_address, manifest, threads=threads)
        return Served(report, serving, manifest, upstreams)

    for name in NAMES:
        await report(name, False)
    followed = Followed(artifacts, served_of)
    metrics.expose(lambda: sum(one.line.images for one in followed.now.upstreams.values()))
    server = grpc.aio.server(options=(*KEPT_ALIVE, *at_most(MAX_MESSAGE_BYTES)))
    server.add_generic_rpc_handlers((VisionService(followed).handlers(),))
    health_pb2_grpc.add_HealthServicer_to_server(statuses, server)
    describe(server, SERVICE, health.SERVICE_NAME, unknown=UNKNOWN)
    try:
        async with followed, listening(server, address) as port:
            log.info("serving %s on port %d", followed.now.serving.model, port)
            try:
                yield port
            finally:
                log.info("stopping")
                await statuses.enter_graceful_shutdown()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
