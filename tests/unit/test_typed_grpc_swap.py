"""The typed gateway follows what is served: calls at work end with their model, `model` in the answer is true."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
from fiveway.vision.v1 import vision_pb2 as pb

from gateways.core.serving import Serving
from tests.unit.typed_gateway import GOOD, OTHER, SERVING, Gateway, failure, started
from tests.unit.upstream_servers import MODEL, until

REQUEST = pb.PredictRequest(images=[GOOD])


@pytest.fixture
async def gateway() -> AsyncIterator[Gateway]:
    async with started() as gateway:
        yield gateway


def serve(gateway: Gateway, model: str, *, images: bool = True) -> None:
    Serving(model, None, images, (model,)).write(gateway.artifacts)


async def serves(gateway: Gateway, model: str) -> None:
    """Wait until the gateway says that it has changed over."""
    await until(lambda: (gateway.artifacts / "followed").read_text() == model)


async def test_a_call_at_work_ends_with_its_model_and_the_next_one_asks_the_new_one(gateway: Gateway) -> None:
    """The gateway says that it has changed over only when the old model's last call has ended."""
    gateway.torchserve.models = gateway.triton.models = (MODEL, OTHER)
    gateway.triton.gate.clear()
    early = asyncio.ensure_future(gateway.stub.Predict(REQUEST, metadata=(("x-backend", "triton"),)))
    await until(lambda: gateway.triton.at_work > 0)
    serve(gateway, OTHER)
    await asyncio.sleep(0.2)
    assert (gateway.artifacts / "followed").read_text() == MODEL
    gateway.triton.gate.set()
    assert (await early).model == MODEL
    await serves(gateway, OTHER)
    for backend in ("torchserve", "triton"):
        assert (await gateway.stub.Predict(REQUEST, metadata=(("x-backend", backend),))).model == OTHER
        await gateway.becomes(SERVING, backend)


async def test_a_stream_changes_over_between_two_messages(gateway: Gateway) -> None:
    """A stream may outlive many models: each message is answered by the one that is served when it comes."""
    gateway.torchserve.models = gateway.triton.models = (MODEL, OTHER)
    stream = gateway.stub.PredictStream()
    message = pb.PredictStreamRequest(request=REQUEST)
    await stream.write(message)
    assert (await stream.read()).response.model == MODEL
    serve(gateway, OTHER)
    await serves(gateway, OTHER)
    await stream.write(message)
    assert (await stream.read()).response.model == OTHER
    await stream.done_writing()


async def test_a_new_model_that_does_not_answer_leaves_the_old_one(gateway: Gateway) -> None:
    """No client sees it before a photo was answered through both backends."""
    gateway.torchserve.models = (MODEL, OTHER)  # Triton does not have it yet
    serve(gateway, OTHER)
    await asyncio.sleep(0.3)
    assert (await gateway.stub.Predict(REQUEST)).model == MODEL
    gateway.triton.models = (MODEL, OTHER)
    await serves(gateway, OTHER)
    assert (await gateway.stub.Predict(REQUEST)).model == OTHER


async def test_a_model_that_takes_no_photos_is_named_with_the_way_to_ask_it(gateway: Gateway) -> None:
    """NOT_FOUND, healthy all the same, and photos are answered again after the next swap."""
    serve(gateway, "tensors", images=False)
    await serves(gateway, "tensors")
    error = await failure(gateway.stub.Predict(REQUEST))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert "model not available" in (error.details() or "")
    assert "inference.GRPCInferenceService" in (error.details() or "")
    assert await gateway.status() == SERVING
    serve(gateway, MODEL)
    await serves(gateway, MODEL)
    assert (await gateway.stub.Predict(REQUEST)).model == MODEL
