"""Triton as a predictor: photos become one tensor, outputs become answers, errors become words."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from gateways.core.errors import ServeError, Status
from gateways.core.timing import Stages
from gateways.upstreams.triton import Triton
from tests.unit.upstream_servers import DIM, LABELS, Behaviour, jpeg, manifest, triton, until


@pytest.fixture
async def behaviour() -> Behaviour:
    return Behaviour()


@pytest.fixture
async def backend(behaviour: Behaviour) -> AsyncIterator[Triton]:
    with ThreadPoolExecutor(2) as threads:
        async with triton(behaviour) as address:
            backend = Triton(address, manifest(), threads=threads)
            yield backend
            await backend.close()


async def refusal(backend: Triton, photos: list[bytes], timeout: float | None = None) -> ServeError:
    with pytest.raises(ServeError) as caught:
        await backend.predict(photos, stages=Stages(), timeout=timeout)
    return caught.value


async def test_a_batch_is_one_call(backend: Triton, behaviour: Behaviour) -> None:
    """32 photos of any size travel as one [32, 3, crop, crop] tensor and come back in order."""
    photos = [jpeg(shade, size=(40 + shade, 60)) for shade in range(0, 256, 8)]
    predictions = await backend.predict(photos, stages=Stages(), timeout=None)
    assert behaviour.shapes == [(32, 3, 32, 32)]
    assert [float(p.embedding[0]) for p in predictions] == pytest.approx(
        [(shade / 255 - 0.5) / 0.5 for shade in range(0, 256, 8)], abs=0.02
    )
    assert all(p.embedding.shape == (DIM,) for p in predictions)


async def test_classes_come_from_logits_and_labels(backend: Triton) -> None:
    """White is the last class; scores are probabilities, falling, and top_k may be more than the model has."""
    (prediction,) = await backend.predict([jpeg(255)], stages=Stages(), timeout=None, top_k=99)
    scores = [c.score for c in prediction.classes]
    assert prediction.classes[0].label == LABELS[-1]
    assert len(scores) == len(LABELS)
    assert scores == sorted(scores, reverse=True)
    assert sum(scores) == pytest.approx(1)


async def test_embedding_model_has_no_classes(behaviour: Behaviour) -> None:
    """A model without logits answers embeddings alone."""
    with ThreadPoolExecutor(1) as threads:
        async with triton(behaviour, labels=0) as address:
            backend = Triton(address, manifest("embedding"), threads=threads)
            predictions = await backend.predict([jpeg(), jpeg()], stages=Stages(), timeout=None)
            assert [p.classes for p in predictions] == [(), ()]
            await backend.close()


async def test_stages_are_measured(backend: Triton) -> None:
    """The gateway's own work and Triton's are told apart."""
    stages = Stages()
    await backend.predict([jpeg()], stages=stages, timeout=None)
    assert [part.split(";")[0] for part in stages.header().split(", ")] == ["preprocess", "backend", "total"]


async def test_a_bad_photo_never_reaches_triton(backend: Triton, behaviour: Behaviour) -> None:
    """A truncated photo is refused by name."""
    error = await refusal(backend, [jpeg(), jpeg()[:-20], jpeg()])
    assert error.status is Status.INVALID
    assert error.message.startswith("images[1] is truncated")
    assert behaviour.calls == 0


@pytest.mark.parametrize(
    ("code", "status", "text"),
    [
        (grpc.StatusCode.NOT_FOUND, Status.UNAVAILABLE, "has not loaded 'tiny'"),
        (grpc.StatusCode.UNAVAILABLE, Status.UNAVAILABLE, "try again"),
        (grpc.StatusCode.INTERNAL, Status.UNAVAILABLE, "try again"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Status.UNAVAILABLE, "try again"),
        (grpc.StatusCode.UNKNOWN, Status.UNAVAILABLE, "try again"),
    ],
)
async def test_refusals(
    backend: Triton, behaviour: Behaviour, code: grpc.StatusCode, status: Status, text: str
) -> None:
    """Each status of Triton becomes ours, and its own words stay in the log."""
    behaviour.code, behaviour.message = code, "stub process is not healthy"
    error = await refusal(backend, [jpeg()])
    assert error.status is status
    assert text in error.message
    assert "stub" not in error.message


async def test_a_refused_tensor_is_our_fault(backend: Triton, behaviour: Behaviour) -> None:
    """We made the tensor, so Triton's INVALID_ARGUMENT is a bug, not a message for the client."""
    behaviour.code, behaviour.message = grpc.StatusCode.INVALID_ARGUMENT, "unexpected shape"
    with pytest.raises(RuntimeError, match="unexpected shape"):
        await backend.predict([jpeg()], stages=Stages(), timeout=None)


async def test_deadline_is_kept_and_the_call_dropped(backend: Triton, behaviour: Behaviour) -> None:
    """A hanging Triton costs the client's deadline, and sees the call given up."""
    behaviour.gate.clear()
    error = await refusal(backend, [jpeg()], timeout=0.2)
    assert error.status is Status.TIMEOUT
    await until(lambda: behaviour.cancelled == 1)


async def test_cancellation_reaches_triton(backend: Triton, behaviour: Behaviour) -> None:
    """Cancelling the call cancels it there."""
    behaviour.gate.clear()
    call = asyncio.create_task(backend.predict([jpeg()], stages=Stages(), timeout=None))
    await until(lambda: behaviour.at_work > 0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: behaviour.cancelled == 1)


async def test_nobody_listening() -> None:
    """A Triton that is down is UNAVAILABLE, in words, at once."""
    with ThreadPoolExecutor(1) as threads:
        backend = Triton("127.0.0.1:9", manifest(), threads=threads)
        error = await refusal(backend, [jpeg()], timeout=5)
        assert error.status is Status.UNAVAILABLE
        await backend.close()
