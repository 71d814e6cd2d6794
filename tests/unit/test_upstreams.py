"""TorchServe and Triton as upstreams: answers in order, errors in words for our client, nothing left running."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from gateways.core.answer import Prediction
from gateways.core.errors import ServeError, Status
from gateways.core.timing import Stages
from gateways.typed_grpc.upstreams import Upstream
from gateways.upstreams.torchserve import CONNECTIONS, TorchServe
from gateways.upstreams.triton import Triton
from tests.unit.upstream_servers import MODEL, Behaviour, jpeg, manifest, torchserve, triton, until

BOTH = pytest.mark.parametrize("name", ["torchserve", "triton"])
SHADES = range(0, 256, 8)


@asynccontextmanager
async def opened(name: str, address: str) -> AsyncIterator[Upstream]:
    """The client of a server at `address`."""
    with ThreadPoolExecutor(2) as threads:
        upstream: Upstream = (
            TorchServe(address, MODEL) if name == "torchserve" else Triton(address, manifest(), threads=threads)
        )
        yield upstream
        await upstream.close()


@pytest.fixture
async def behaviour() -> Behaviour:
    return Behaviour()


@pytest.fixture
async def upstream(behaviour: Behaviour, name: str) -> AsyncIterator[Upstream]:
    """TorchServe or Triton, as the test's parameter `name` says."""
    async with (
        (torchserve if name == "torchserve" else triton)(behaviour) as address,
        opened(name, address) as upstream,
    ):
        yield upstream


async def ask(upstream: Upstream, *jpegs: bytes, timeout: float | None = None, top_k: int = 5) -> list[Prediction]:
    return await upstream.predict(jpegs, stages=Stages(), timeout=timeout, top_k=top_k)


async def refused(call: Any, status: Status, keyword: str = "") -> str:
    """The message of that failure, which holds the keyword."""
    with pytest.raises(ServeError) as caught:
        await call
    assert (caught.value.status, keyword in caught.value.message) == (status, True), caught.value
    return caught.value.message


@BOTH
async def test_torchserve_gets_a_call_per_photo_and_triton_one_per_batch(
    upstream: Upstream, behaviour: Behaviour, name: str
) -> None:
    """The bytes untouched, or photos of any size as one tensor; 32 answers in order."""
    photos = [jpeg(shade, size=(40 + shade, 60)) for shade in SHADES]
    found = [float(prediction.embedding[0]) for prediction in await ask(upstream, *photos)]
    if name == "torchserve":
        assert found == pytest.approx(list(SHADES), abs=3)
        assert set(behaviour.bodies) == set(photos)
    else:
        assert found == pytest.approx([shade / 127.5 - 1 for shade in SHADES], abs=0.02)
        assert behaviour.shapes == [(32, 3, 32, 32)]


@pytest.mark.parametrize("name", ["torchserve"])
async def test_photos_are_in_flight_together_and_bounded(upstream: Upstream, behaviour: Behaviour) -> None:
    """TorchServe can only batch what it holds at the same time; what is more than the connections waits here."""
    behaviour.gate.clear()
    calls = [asyncio.create_task(ask(upstream, *[jpeg()] * 32, timeout=20)) for _ in range(4)]
    await until(lambda: behaviour.at_work >= CONNECTIONS)
    behaviour.gate.set()
    assert [len(answers) for answers in await asyncio.gather(*calls)] == [32] * 4
    assert behaviour.most_at_work == CONNECTIONS


@pytest.mark.parametrize(
    ("name", "answer", "status", "text"),
    [
        ("torchserve", 400, Status.INVALID, "images[0] is cut off: secret"),
        ("torchserve", 404, Status.UNAVAILABLE, "has not loaded 'tiny'"),
        ("torchserve", 413, Status.TOO_LARGE, "send a smaller JPEG"),
        *(("torchserve", status, Status.UNAVAILABLE, "again") for status in (500, 503, 507)),
        ("triton", grpc.StatusCode.NOT_FOUND, Status.UNAVAILABLE, "has not loaded 'tiny'"),
        *(
            ("triton", grpc.StatusCode[name], Status.UNAVAILABLE, "again")
            for name in ("UNAVAILABLE", "INTERNAL", "RESOURCE_EXHAUSTED", "UNKNOWN")
        ),
    ],
)
async def test_refusals(upstream: Upstream, behaviour: Behaviour, answer: Any, status: Status, text: str) -> None:
    """Each status of a server becomes ours; its own words reach the client only about a bad photo."""
    behaviour.message = "image is cut off: secret"
    if isinstance(answer, int):
        behaviour.status = answer
    else:
        behaviour.code = answer
    message = await refused(ask(upstream, jpeg()), status, text)
    assert ("secret" in message) is (status is Status.INVALID)


@pytest.mark.parametrize("name", ["torchserve"])
async def test_one_bad_photo_ends_torchserves_batch(upstream: Upstream, behaviour: Behaviour) -> None:
    """A failed batch of 32 leaves no call running behind it: those that would hang are given up."""
    behaviour.refused = jpeg(1)
    behaviour.gate.clear()
    await refused(ask(upstream, *[jpeg()] * 31, behaviour.refused), Status.INVALID)
    await until(lambda: behaviour.at_work == 0)


@pytest.mark.parametrize(("name", "address"), [("torchserve", "http://127.0.0.1:9"), ("triton", "127.0.0.1:9")])
async def test_nobody_listening(name: str, address: str) -> None:
    """A server that is down is UNAVAILABLE, in words, at once."""
    async with opened(name, address) as upstream:
        await refused(ask(upstream, jpeg(), timeout=5), Status.UNAVAILABLE, "try again")
