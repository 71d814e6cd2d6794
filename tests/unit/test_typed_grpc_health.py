"""Health of the typed gateway: the truth about its backends, at no cost under load."""

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import pytest
from fiveway.vision.v1 import vision_pb2 as pb
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from gateways.rpc import server
from gateways.typed_grpc import health, upstreams
from gateways.typed_grpc.server import running
from gateways.typed_grpc.service import SERVICE
from tests.unit.typed_gateway import GOOD, NOT_SERVING, SERVING, Gateway, failure, started
from tests.unit.upstream_servers import MODEL, Behaviour, artifacts, torchserve, triton, until


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with started() as gateway:
        yield gateway


@pytest.mark.parametrize("name", ["", SERVICE, "torchserve", "triton"])
async def test_names(gateway: Gateway, name: str) -> None:
    """The server, the service and each backend have a health of their own."""
    assert await gateway.status(name) == SERVING


async def test_unknown_name(gateway: Gateway) -> None:
    """NOT_FOUND, as the health protocol has it."""
    error = await failure(gateway.health.Check(health_pb2.HealthCheckRequest(service="nothing")))
    assert error.code() is grpc.StatusCode.NOT_FOUND


async def test_a_failing_default_backend_turns_the_server_unhealthy_and_back(gateway: Gateway) -> None:
    """One failed call of a client is enough to ask again at once; Triton's health is its own."""
    gateway.torchserve.status = 507
    await failure(gateway.stub.Predict(pb.PredictRequest(images=[GOOD])))
    for name in ("", SERVICE, "torchserve"):
        await gateway.becomes(NOT_SERVING, name)
    assert await gateway.status("triton") == SERVING
    gateway.torchserve.status = 200
    for name in ("", SERVICE, "torchserve"):
        await gateway.becomes(SERVING, name)


async def test_a_failing_triton_leaves_the_server_healthy(gateway: Gateway) -> None:
    """It is not the default backend."""
    gateway.triton.code = grpc.StatusCode.INTERNAL
    await failure(gateway.stub.Predict(pb.PredictRequest(images=[GOOD]), metadata=(("x-backend", "triton"),)))
    await gateway.becomes(NOT_SERVING, "triton")
    assert await gateway.status() == SERVING


async def test_a_wrong_request_says_nothing_about_health(gateway: Gateway) -> None:
    """A client's bad photos cause no probes."""
    for _ in range(5):
        await failure(gateway.stub.Predict(pb.PredictRequest(images=[b"hello"])))
    await asyncio.sleep(0.1)
    assert gateway.torchserve.calls == 0
    assert await gateway.status() == SERVING


async def test_no_probe_while_triton_answers_others(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own count of answers moves: it lives, and no measurement of it sees a probe. At rest it is asked again."""
    monkeypatch.setattr(upstreams, "PROBE_EVERY_S", 0.1)
    gateway.triton.code = grpc.StatusCode.INTERNAL
    await failure(gateway.stub.Predict(pb.PredictRequest(images=[GOOD]), metadata=(("x-backend", "triton"),)))
    gateway.triton.code = None
    await gateway.becomes(SERVING, "triton")  # from here on the short pause counts
    before = gateway.triton.calls
    for _ in range(50):
        gateway.triton.others += 1
        await asyncio.sleep(0.01)
    assert gateway.triton.calls - before <= 1  # the first pause may find nothing yet
    await until(lambda: gateway.triton.calls >= before + 3)


async def test_no_probe_under_load(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """While clients' calls succeed TorchServe sees theirs only."""
    monkeypatch.setattr(upstreams, "PROBE_EVERY_S", 0.5)
    await pauses(gateway, 1)  # from here on the short pause counts
    gateway.torchserve.status = 507
    await failure(gateway.stub.Predict(pb.PredictRequest(images=[GOOD])))
    gateway.torchserve.status = 200
    await gateway.becomes(SERVING)
    before = gateway.torchserve.calls
    took = await pauses(gateway, 150)
    assert sum(took) > 1  # several probes' time
    # A busy machine may stop for so long that a probe is due.
    assert 0 <= gateway.torchserve.calls - before - 150 <= sum(pause > 0.2 for pause in took)


async def pauses(gateway: Gateway, count: int) -> list[float]:
    """The seconds of each of so many successful calls, one after the other, with what lies between it and the next."""
    loop = asyncio.get_running_loop()
    ends = [loop.time()]
    for _ in range(count):
        await gateway.stub.Predict(pb.PredictRequest(images=[GOOD]))
        await asyncio.sleep(0.01)
        ends.append(loop.time())
    return [end - begin for begin, end in pairwise(ends)]


async def test_nothing_is_serving_before_a_model_has_answered(tmp_path: Path) -> None:
    """An open port is not health; the answer of a model is."""
    slow = Behaviour()
    slow.gate.clear()
    async with (
        torchserve(slow) as url,
        triton(Behaviour()) as address,
        running(artifacts(tmp_path, MODEL), url, address, "127.0.0.1:0") as port,
    ):
        with pytest.raises(health.NotServing):
            await asyncio.to_thread(health.probe, port)
        slow.gate.set()
        async with asyncio.timeout(10):
            while True:
                try:
                    await asyncio.to_thread(health.probe, port)
                except health.NotServing:
                    await asyncio.sleep(0.02)
                else:
                    break


async def test_the_check_ends_only_a_gateway_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead backend is not healed by restarting the gateway."""
    ended: list[bool] = []
    monkeypatch.setattr(health, "end_server", lambda: ended.append(True))
    down = Behaviour(status=507)
    async with (
        torchserve(down) as url,
        triton(Behaviour()) as address,
        running(artifacts(tmp_path, MODEL), url, address, "127.0.0.1:0") as port,
    ):
        await asyncio.to_thread(health.heal, port)
        assert not ended
    await asyncio.to_thread(health.heal, port)
    assert ended


async def test_stopping_finishes_what_is_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call at work is answered, and then the gateway is gone: it does not wait until its time is up."""
    monkeypatch.setattr(server, "STOP_GRACE_S", 1000)
    behaviour = Behaviour()
    async with torchserve(behaviour) as url, triton(Behaviour()) as address:
        gateway = running(artifacts(tmp_path, MODEL), url, address, "127.0.0.1:0")
        port = await gateway.__aenter__()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call: Any = channel.unary_unary(f"/{SERVICE}/Predict")
            behaviour.gate.clear()
            before = behaviour.at_work
            at_work = asyncio.ensure_future(call(pb.PredictRequest(images=[GOOD]).SerializeToString()))
            await until(lambda: behaviour.at_work > before)
            stopping = asyncio.ensure_future(gateway.__aexit__(None, None, None))
            await asyncio.sleep(0.1)
            behaviour.gate.set()
            assert pb.PredictResponse.FromString(await at_work).predictions
            await stopping


async def test_reflection_lists_the_services(gateway: Gateway) -> None:
    """grpcurl needs no proto file."""
    stub = reflection_pb2_grpc.ServerReflectionStub(gateway.channel)
    call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    answer = await call.read()
    names = {service.name for service in answer.list_services_response.service}
    assert {SERVICE, "grpc.health.v1.Health"} <= names
