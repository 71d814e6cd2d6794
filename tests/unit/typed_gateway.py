"""A running typed gateway with its client, in front of servers that stand for TorchServe and Triton."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import pytest
from fiveway.vision.v1 import vision_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from gateways.core import serving
from gateways.typed_grpc import upstreams
from gateways.typed_grpc.server import running
from tests.unit.upstream_servers import MODEL, Behaviour, artifacts, jpeg, torchserve, triton

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
BOTH = pytest.mark.parametrize("backend", ["torchserve", "triton"])
GOOD = jpeg()
OTHER = "other"


@dataclass
class Gateway:
    """The client's side, and the two servers behind."""

    stub: Any
    health: Any
    channel: grpc.aio.Channel
    torchserve: Behaviour
    triton: Behaviour
    artifacts: Path

    async def status(self, name: str = "") -> int:
        return (await self.health.Check(health_pb2.HealthCheckRequest(service=name))).status

    async def becomes(self, status: int, name: str = "") -> None:
        while await self.status(name) != status:
            await asyncio.sleep(0.02)


@asynccontextmanager
async def started() -> AsyncIterator[Gateway]:
    """A gateway whose backends both answer; what they saw of its start is forgotten."""
    ts, tr = Behaviour(), Behaviour()
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as name:
        folder = Path(name)
        patch.setattr(serving, "POLL_S", 0.02)
        patch.setattr(serving, "RETRY_S", 0.02)
        patch.setattr(serving, "FOLLOWED", folder / "followed")
        patch.setattr(upstreams, "RETRY_EVERY_S", 0.05)
        async with (
            torchserve(ts) as url,
            triton(tr) as address,
            running(artifacts(folder, MODEL, OTHER), url, address, "127.0.0.1:0") as port,
            grpc.aio.insecure_channel(
                f"127.0.0.1:{port}",
                options=[("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)],
            ) as channel,
        ):
            stub, health = vision_pb2_grpc.VisionServiceStub(channel), health_pb2_grpc.HealthStub(channel)
            gateway = Gateway(stub, health, channel, ts, tr, folder)
            await gateway.becomes(SERVING)
            await gateway.becomes(SERVING, "triton")
            ts.calls = tr.calls = 0
            ts.digests.clear()
            yield gateway


async def failure(call: Any) -> grpc.aio.AioRpcError:
    """The status that a call ends with."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value
