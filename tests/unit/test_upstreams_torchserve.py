"""TorchServe as a predictor: answers in order, errors in words for our client, nothing left running."""

import asyncio
import hashlib
from collections.abc import AsyncIterator

import pytest

from gateways.core.errors import ServeError, Status
from gateways.core.timing import Stages
from gateways.upstreams.torchserve import CONNECTIONS, TorchServe
from tests.unit.upstream_servers import DIM, MODEL, Behaviour, jpeg, torchserve, until


@pytest.fixture
async def behaviour() -> Behaviour:
    return Behaviour()


@pytest.fixture
async def backend(behaviour: Behaviour) -> AsyncIterator[TorchServe]:
    async with torchserve(behaviour) as url:
        backend = TorchServe(url, MODEL)
        yield backend
        await backend.close()


async def refusal(backend: TorchServe, count: int = 1, timeout: float | None = None) -> ServeError:
    with pytest.raises(ServeError) as caught:
        await backend.predict([jpeg()] * count, stages=Stages(), timeout=timeout)
    return caught.value


async def test_one_answer_per_photo_in_order(backend: TorchServe, behaviour: Behaviour) -> None:
    """32 photos of rising shade come back with rising embeddings, their bytes untouched."""
    photos = [jpeg(shade) for shade in range(0, 256, 8)]
    predictions = await backend.predict(photos, stages=Stages(), timeout=None)
    assert [round(float(p.embedding[0]), -1) for p in predictions] == [round(s, -1) for s in range(0, 256, 8)]
    assert all(p.embedding.shape == (DIM,) for p in predictions)
    assert set(behaviour.digests) == {hashlib.sha256(photo).hexdigest() for photo in photos}


async def test_photos_of_a_batch_are_in_flight_together(backend: TorchServe, behaviour: Behaviour) -> None:
    """TorchServe can only batch what it holds at the same time."""
    behaviour.gate.clear()
    call = asyncio.create_task(backend.predict([jpeg()] * 8, stages=Stages(), timeout=5))
    await until(lambda: behaviour.at_work >= 8)
    behaviour.gate.set()
    assert len(await call) == 8


async def test_connections_are_bounded(backend: TorchServe, behaviour: Behaviour) -> None:
    """More photos than connections wait here instead of filling TorchServe's queue; all are answered."""
    behaviour.gate.clear()
    calls = [asyncio.create_task(backend.predict([jpeg()] * 32, stages=Stages(), timeout=20)) for _ in range(4)]
    await until(lambda: behaviour.at_work >= CONNECTIONS)
    behaviour.gate.set()
    assert [len(answers) for answers in await asyncio.gather(*calls)] == [32] * 4
    assert behaviour.most_at_work == CONNECTIONS


async def test_top_k_cuts_the_classes(backend: TorchServe) -> None:
    """top_k 2 answers the best two of the five that the handler sends."""
    (prediction,) = await backend.predict([jpeg(0)], stages=Stages(), timeout=None, top_k=2)
    assert [c.index for c in prediction.classes] == [0, 1]
    assert prediction.classes[0].label == "class 0"


async def test_stage_is_measured(backend: TorchServe) -> None:
    """The call to TorchServe is the stage `backend`."""
    stages = Stages()
    await backend.predict([jpeg()], stages=stages, timeout=None)
    assert stages.header().startswith("backend;dur=")


@pytest.mark.parametrize(
    ("http", "status", "text"),
    [
        (400, Status.INVALID, "images[0] is cut off: send it whole"),
        (404, Status.UNAVAILABLE, "has not loaded 'tiny'"),
        (413, Status.TOO_LARGE, "send a smaller JPEG"),
        (500, Status.UNAVAILABLE, "try again"),
        (503, Status.UNAVAILABLE, "try again"),
        (507, Status.UNAVAILABLE, "try again"),
    ],
)
async def test_refusals(backend: TorchServe, behaviour: Behaviour, http: int, status: Status, text: str) -> None:
    """Each HTTP status of TorchServe becomes ours; its own words reach the client only about a bad photo."""
    behaviour.status, behaviour.message = http, "image is cut off: send it whole"
    error = await refusal(backend)
    assert error.status is status
    assert text in error.message
    assert http == 400 or "cut off" not in error.message


async def test_one_bad_photo_ends_the_batch(backend: TorchServe, behaviour: Behaviour) -> None:
    """A failed batch of 32 leaves no call running behind it: those that would hang are given up."""
    behaviour.refused = jpeg(1)
    behaviour.gate.clear()
    with pytest.raises(ServeError) as caught:
        await backend.predict([*[jpeg()] * 31, behaviour.refused], stages=Stages(), timeout=None)
    assert caught.value.status is Status.INVALID
    await until(lambda: behaviour.at_work == 0)


async def test_garbage_is_our_fault(backend: TorchServe, behaviour: Behaviour) -> None:
    """An answer that is not the handler's JSON is a bug, not a message for the client."""
    behaviour.garbage = True
    with pytest.raises(Exception, match="malformed") as caught:
        await backend.predict([jpeg()], stages=Stages(), timeout=None)
    assert not isinstance(caught.value, ServeError)


async def test_deadline_is_kept_and_the_call_dropped(backend: TorchServe, behaviour: Behaviour) -> None:
    """A hanging TorchServe costs the client's deadline, and sees the call given up."""
    behaviour.gate.clear()
    error = await refusal(backend, count=3, timeout=0.2)
    assert error.status is Status.TIMEOUT
    await until(lambda: behaviour.cancelled == 3)


async def test_cancellation_reaches_torchserve(backend: TorchServe, behaviour: Behaviour) -> None:
    """Cancelling the call closes its connections."""
    behaviour.gate.clear()
    call = asyncio.create_task(backend.predict([jpeg()] * 2, stages=Stages(), timeout=None))
    await until(lambda: behaviour.at_work >= 2)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: behaviour.cancelled == 2)


async def test_nobody_listening() -> None:
    """A TorchServe that is down is UNAVAILABLE, in words."""
    backend = TorchServe("http://127.0.0.1:9", MODEL)
    error = await refusal(backend)
    assert error.status is Status.UNAVAILABLE
    assert "try again in a few seconds" in error.message
    await backend.close()


async def test_a_restarted_torchserve_is_found_again(behaviour: Behaviour) -> None:
    """Connections of a dead TorchServe are not used for the next call."""
    async with torchserve(behaviour) as url:
        backend = TorchServe(url, MODEL)
        await backend.predict([jpeg()], stages=Stages(), timeout=None)
    assert (await refusal(backend)).status is Status.UNAVAILABLE
    await backend.close()
