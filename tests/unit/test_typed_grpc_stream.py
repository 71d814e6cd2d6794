"""PredictStream: order, bounds, and errors that do not end the stream."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
from fiveway.vision.v1 import vision_pb2 as pb

from gateways.typed_grpc import service
from gateways.typed_grpc.server import MAX_MESSAGE_BYTES
from tests.unit.typed_gateway import BOTH, GOOD, Gateway, started
from tests.unit.upstream_servers import jpeg, until


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with started() as gateway:
        yield gateway


def message(*images: bytes) -> pb.PredictStreamRequest:
    return pb.PredictStreamRequest(request=pb.PredictRequest(images=images))


async def sent(*messages: pb.PredictStreamRequest) -> AsyncIterator[pb.PredictStreamRequest]:
    for one in messages:
        yield one


@BOTH
async def test_answers_come_in_order(gateway: Gateway, backend: str) -> None:
    """40 messages, 40 answers, in the order of the questions; then OK."""
    shades = [(i * 37) % 256 for i in range(40)]
    call = gateway.stub.PredictStream(sent(*(message(jpeg(s)) for s in shades)), metadata=(("x-backend", backend),))
    answers = [answer async for answer in call]
    seen = [answer.response.predictions[0].embedding.values[0] for answer in answers]
    scale = (lambda shade: float(shade)) if backend == "torchserve" else (lambda shade: shade / 127.5 - 1)
    assert seen == pytest.approx([scale(shade) for shade in shades], rel=0.02, abs=0.02)
    assert all("total;dur=" in answer.server_timing for answer in answers)
    assert await call.code() is grpc.StatusCode.OK
    assert "server-timing" in dict(await call.trailing_metadata())


async def test_a_bad_message_is_answered_in_its_place(gateway: Gateway) -> None:
    """Good, bad, empty, good: the stream goes on and each error names its status and what to do."""
    call = gateway.stub.PredictStream(
        sent(message(GOOD), message(GOOD, b"hello"), pb.PredictStreamRequest(), message(GOOD))
    )
    answers = [answer async for answer in call]
    assert [a.WhichOneof("result") for a in answers] == ["response", "error", "error", "response"]
    assert answers[1].error.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert "images[1] is not a JPEG" in answers[1].error.message
    assert "send 1 to 32" in answers[2].error.message
    assert await call.code() is grpc.StatusCode.OK


async def test_pipelining_is_bounded(gateway: Gateway) -> None:
    """A client that sends 50 messages at once has 8 at work; all are answered when the backend goes on."""
    gateway.torchserve.gate.clear()
    call = gateway.stub.PredictStream(sent(*[message(GOOD)] * 50))
    await until(lambda: gateway.torchserve.at_work >= service.PIPELINE)
    await asyncio.sleep(0.2)
    assert gateway.torchserve.most_at_work == service.PIPELINE
    gateway.torchserve.gate.set()
    assert len([answer async for answer in call]) == 50
    assert gateway.torchserve.most_at_work == service.PIPELINE


async def test_an_answer_does_not_wait_for_the_next_question(gateway: Gateway) -> None:
    """Ping-pong works: each answer arrives while the client's side is still open."""
    call = gateway.stub.PredictStream()
    for _ in range(3):
        await call.write(message(GOOD))
        assert (await call.read()).response.predictions
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF


async def test_an_empty_stream_is_fine(gateway: Gateway) -> None:
    """No question, no answer, OK."""
    call = gateway.stub.PredictStream(sent())
    assert [answer async for answer in call] == []
    assert await call.code() is grpc.StatusCode.OK


async def test_cancelling_the_stream_frees_the_backend(gateway: Gateway) -> None:
    """Everything that was at work for the stream is given up."""
    gateway.torchserve.gate.clear()
    call = gateway.stub.PredictStream(sent(*[message(GOOD)] * 5))
    await until(lambda: gateway.torchserve.at_work >= 5)
    call.cancel()
    await until(lambda: (gateway.torchserve.at_work, gateway.torchserve.cancelled) == (0, 5))


async def test_the_deadline_ends_the_stream(gateway: Gateway) -> None:
    """A deadline is for the whole stream; nothing is left behind it."""
    gateway.torchserve.gate.clear()
    call = gateway.stub.PredictStream(sent(message(GOOD)), timeout=0.3)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: gateway.torchserve.at_work == 0)


async def test_a_message_over_the_limit_ends_the_stream(gateway: Gateway) -> None:
    """gRPC cannot read past it: RESOURCE_EXHAUSTED, never UNKNOWN; a new stream works."""
    call = gateway.stub.PredictStream(sent(message(GOOD), message(bytes(MAX_MESSAGE_BYTES))))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async for _ in call:
            pass
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert len([a async for a in gateway.stub.PredictStream(sent(message(GOOD)))]) == 1
