"""A running typed gateway with its client, in front of servers that stand for TorchServe and Triton."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import pytest
from fiveway.vision.v1 import vision_pb2 as pb
from fiveway.vision.v1 import vision_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from gateways.core import serving
from gateways.typed_grpc import upstreams
from gateways.typed_grpc.server import running
from tests.unit.upstream_servers import MODEL, WAIT_S, Behaviour, artifacts, jpeg, torchserve, triton

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
BOTH = pytest.mark.parametrize("name", ["torchserve", "triton"])
GOOD = jpeg()
REQUEST = pb.PredictRequest(images=[GOOD])
OTHER = "other"


def to(name: str) -> tuple[tuple[str, str]]:
    """The metadata that chooses an upstream."""
    return (("x-backend", name),)


@dataclass
class Gateway:
    """The client's side, and the two servers behind."""

    stub: Any
    health: Any
    channel: grpc.aio.Channel
    torchserve: Behaviour
    triton: Behaviour
    artifacts: Path

    def behind(self, name: str) -> Behaviour:
        return self.torchserve if name == "torchserve" else self.triton

    async def status(self, name: str = "") -> int:
        return (await self.health.Check(health_pb2.HealthCheckRequest(service=name))).status

    async def becomes(self, status: int, *names: str) -> None:
        for name in names or ("",):
            end = time.monotonic() + WAIT_S
            while await self.status(name) != status:
                assert time.monotonic() < end, f"{name or 'the server'} did not become {status}"
                await asyncio.sleep(0.02)


@asynccontextmanager
async def gateway_before(folder: Path, torchserve_: Behaviour, *models: str) -> AsyncIterator[tuple[int, Behaviour]]:
    """A gateway before such a TorchServe and a good Triton; yields its port and that Triton."""
    triton_ = Behaviour()
    async with (
        torchserve(torchserve_) as url,
        triton(triton_) as address,
        running(artifacts(folder, MODEL, *models), url, address, "127.0.0.1:0") as port,
    ):
        yield port, triton_


@asynccontextmanager
async def started() -> AsyncIterator[Gateway]:
    """A gateway whose upstreams both answer; what they saw of its start is forgotten."""
    behind = Behaviour()
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as name:
        folder = Path(name)
        patch.setattr(serving, "POLL_S", 0.02)
        patch.setattr(serving, "RETRY_S", 0.02)
        patch.setattr(serving, "FOLLOWED", folder / "followed")
        patch.setattr(upstreams, "RETRY_EVERY_S", 0.05)
        options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        async with (
            gateway_before(folder, behind, OTHER) as (port, triton_),
            grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel,
        ):
            stub, health = vision_pb2_grpc.VisionServiceStub(channel), health_pb2_grpc.HealthStub(channel)
            gateway = Gateway(stub, health, channel, behind, triton_, folder)
            await gateway.becomes(SERVING, "", "triton")
            behind.calls = triton_.calls = 0
            yield gateway


async def fails(call: Any, code: grpc.StatusCode, keyword: str = "") -> grpc.aio.AioRpcError:
    """It ends with that status, and says so."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert (caught.value.code(), keyword in str(caught.value.details())) == (code, True), caught.value
    return caught.value
