"""Health of the typed gateway: the truth about its upstreams, at no cost under load; it follows what is served."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from fiveway.vision.v1 import vision_pb2 as pb

from gateways.core.serving import Serving
from gateways.rpc import server
from gateways.typed_grpc import health, upstreams
from gateways.typed_grpc.service import SERVICE
from scripts.host.machine import listens
from tests.unit.typed_gateway import (
    GOOD,
    NOT_SERVING,
    OTHER,
    REQUEST,
    SERVING,
    Gateway,
    fails,
    gateway_before,
    started,
    to,
)
from tests.unit.upstream_servers import MODEL, Behaviour, until

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with started() as gateway:
        yield gateway


async def test_a_failing_default_turns_the_server_unhealthy_and_back(gateway: Gateway) -> None:
    """One failed call of a client is enough to ask again at once; Triton's health is its own."""
    gateway.torchserve.status = 507
    await fails(gateway.stub.Predict(REQUEST), UNAVAILABLE)
    await gateway.becomes(NOT_SERVING, "", SERVICE, "torchserve")
    assert await gateway.status("triton") == SERVING
    gateway.torchserve.status = 200
    await gateway.becomes(SERVING, "", SERVICE, "torchserve")
    gateway.triton.code = grpc.StatusCode.INTERNAL
    await fails(gateway.stub.Predict(REQUEST, metadata=to("triton")), UNAVAILABLE)
    await gateway.becomes(NOT_SERVING, "triton")
    assert await gateway.status() == SERVING


async def test_a_wrong_request_says_nothing_about_health(gateway: Gateway) -> None:
    """A client's bad photos cause no probes."""
    for _ in range(5):
        await fails(gateway.stub.Predict(pb.PredictRequest(images=[b"hello"])), grpc.StatusCode.INVALID_ARGUMENT)
    assert await gateway.stub.Predict(REQUEST)
    assert gateway.torchserve.calls == 1


@pytest.mark.parametrize("others", [True, False], ids=["at the server itself", "through this gateway"])
async def test_no_probe_while_clients_are_answered(monkeypatch: pytest.MonkeyPatch, others: bool) -> None:
    """They are the proof, and no measurement sees a probe; at rest there is one again."""
    monkeypatch.setattr(upstreams, "PROBE_EVERY_S", 0.001)
    looks = 0
    probes: list[int] = []

    class Busy:
        """An upstream with a client's answer between two looks, for 100 looks."""

        name = "busy"

        async def answered(self) -> int:
            nonlocal looks
            looks += 1
            watched.successes += looks < 100 and not others
            return min(looks, 100) if others else 0

        async def predict(self, *_: object, **__: object) -> list[Any]:
            probes.append(looks)
            return []

    async def report(*_: object) -> None:
        """Nobody asks."""

    watched = upstreams.Watched(Busy())  # type: ignore[arg-type]
    watching = asyncio.create_task(watched.watch(report))
    await until(lambda: looks > 110)
    watching.cancel()
    assert len(probes) > 2
    assert min(probes[1:]) >= 100  # nothing can have moved before the first look


async def test_nothing_is_serving_before_a_model_has_answered(tmp_path: Path) -> None:
    """An open port is not health; the answer of a model is."""
    slow = Behaviour()
    slow.gate.clear()
    async with gateway_before(tmp_path, slow) as (port, _), asyncio.timeout(30):
        with pytest.raises(health.NotServing):
            await asyncio.to_thread(health.probe, port)
        slow.gate.set()
        while True:
            try:
                return await asyncio.to_thread(health.probe, port)
            except health.NotServing:
                await asyncio.sleep(0.02)


async def test_the_check_ends_only_a_gateway_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dead upstream is not healed by restarting the gateway."""
    ended: list[bool] = []
    monkeypatch.setattr(health, "end_server", lambda: ended.append(True))
    async with gateway_before(tmp_path, Behaviour(status=507)) as (port, _):
        await asyncio.to_thread(health.heal, port)
        assert not ended
    await asyncio.to_thread(health.heal, port)
    assert ended


async def test_stopping_finishes_what_is_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call at work is answered, and then the gateway is gone: it does not wait until its time is up."""
    monkeypatch.setattr(server, "STOP_GRACE_S", 1000)
    behaviour = Behaviour()
    running = gateway_before(tmp_path, behaviour)
    port, _ = await running.__aenter__()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: Any = channel.unary_unary(f"/{SERVICE}/Predict")
        behaviour.gate.clear()
        four = pb.PredictRequest(images=[GOOD] * 4)
        at_work = asyncio.ensure_future(call(four.SerializeToString()))
        await until(lambda: behaviour.at_work >= len(four.images))  # one of them may be the gateway's own probe
        stopping = asyncio.ensure_future(running.__aexit__(None, None, None))
        await until(lambda: not listens("127.0.0.1", port))
        behaviour.gate.set()
        assert pb.PredictResponse.FromString(await at_work).predictions
        await stopping


# Following what is served


async def serve(gateway: Gateway, model: str) -> None:
    """Have it served, and wait until the gateway says that it has changed over."""
    Serving(model, None, True, (model,)).write(gateway.artifacts)
    await until(lambda: (gateway.artifacts / "followed").read_text() == model)


async def test_a_stream_changes_over_between_two_messages(gateway: Gateway) -> None:
    """A stream may outlive many models: each message is answered by the one that is served when it comes.

    That a call at work ends with its model: tests/unit/test_core_serving.py.
    """
    gateway.torchserve.models = gateway.triton.models = (MODEL, OTHER)
    stream = gateway.stub.PredictStream()
    for model in (MODEL, OTHER):
        await serve(gateway, model)
        await stream.write(pb.PredictStreamRequest(request=REQUEST))
        assert (await stream.read()).response.model == model
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF


async def test_a_new_model_that_does_not_answer_leaves_the_old_one(gateway: Gateway) -> None:
    """No client sees it before a photo was answered through both upstreams."""
    gateway.torchserve.models = (MODEL, OTHER)  # Triton does not have it yet
    swap = asyncio.create_task(serve(gateway, OTHER))
    await until(lambda: gateway.triton.calls > 1)
    assert (await gateway.stub.Predict(REQUEST)).model == MODEL
    gateway.triton.models = (MODEL, OTHER)
    await swap
    assert (await gateway.stub.Predict(REQUEST)).model == OTHER
