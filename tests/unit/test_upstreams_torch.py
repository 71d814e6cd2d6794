"""The model and its queue: same answers alone and in a crowd, bounded, without work for clients that have gone."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gateways.core.answer import Prediction
from gateways.core.errors import ServeError, Status
from gateways.core.serving import ServingError
from gateways.core.threads import compute_threads
from gateways.core.timing import Stages
from gateways.upstreams import torch as upstream
from gateways.upstreams.torch import TorchPredictor
from gateways.upstreams.torchscript import Model, engine, pick_device
from tests.unit.tiny_model import Gate, build, gated, jpeg
from tests.unit.upstream_servers import SIDE, until

PROFILER = threading.Lock()
"""It looks at one thread at a time."""


@pytest.fixture
async def predictor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[TorchPredictor]:
    monkeypatch.setenv("COMPUTE_THREADS", "2")
    async with TorchPredictor(build(tmp_path)) as predictor:
        yield predictor


@asynccontextmanager
async def busy(predictor: TorchPredictor, count: int = 1) -> AsyncIterator[Gate]:
    """The model holds a first request of so many images; at the end that is answered too."""
    with gated(predictor) as gate:
        first = asyncio.create_task(ask(predictor, *[jpeg(99)] * count))
        await until(gate.entered.is_set)
        yield gate
        gate.open()
        assert len(await first) == count


async def ask(predictor: TorchPredictor, *jpegs: bytes, timeout: float | None = 20) -> list[Prediction]:
    return await predictor.predict(jpegs, stages=Stages(), timeout=timeout)


async def test_a_crowd_is_shared_out_and_every_caller_gets_its_own_answer(predictor: TorchPredictor) -> None:
    """Each thread takes its share of what waits, and no more than four; answers do not cross."""
    alone = [(await ask(predictor, jpeg(seed)))[0] for seed in range(20)]
    async with busy(predictor) as gate:
        crowd = [asyncio.create_task(ask(predictor, jpeg(seed))) for seed in range(20)]
        await until(lambda: len(predictor._queue) == 20)
        gate.open()
        together = [(await task)[0] for task in crowd]
    assert sorted(gate.sizes) == sorted([1, 4, 4, 4, 4, 2, 1, 1])
    for one, other in zip(alone, together, strict=True):
        assert np.allclose(one.embedding, other.embedding, atol=1e-6)
        assert [c.index for c in one.classes] == [c.index for c in other.classes]


async def test_large_requests_are_answered_in_order(predictor: TorchPredictor) -> None:
    """Their photos are computed by several threads, and with those of others."""
    alone = [(await ask(predictor, jpeg(seed)))[0].embedding for seed in range(29)]
    counts, tasks = (20, 5, 3, 1), list[asyncio.Task[list[Prediction]]]()
    async with busy(predictor) as gate:
        for count in counts:
            tasks.append(asyncio.create_task(ask(predictor, *map(jpeg, range(count)))))
        await until(lambda: len(predictor._queue) == len(tasks))
        gate.open()
        for count, task in zip(counts, tasks, strict=True):
            assert np.allclose(np.array([one.embedding for one in await task]), np.array(alone[:count]), atol=1e-6)
    assert sum(gate.sizes) == 1 + sum(counts)


async def test_a_photo_has_one_thread_and_one_that_is_alone_all(predictor: TorchPredictor) -> None:
    """Each by a model that was compiled for as many by oneDNN's fuser."""
    ran, model = dict[tuple[int, int], set[str]](), predictor._model
    for name in ("_whole", "_single"):
        setattr(model, name, partial(_profiled, getattr(model, name), ran))
    alone, *_ = await ask(predictor, jpeg())
    assert [*ran] == [(1, 2)]
    for one in await ask(predictor, *[jpeg()] * 8):
        assert np.allclose(alone.embedding, one.embedding, atol=1e-6)
    assert [*ran] == [(1, 2), (1, 1)]
    for events in ran.values():
        assert "LlgaPartition_" in events
        assert "aten::_convolution" not in events


def _profiled(model: Any, ran: dict[tuple[int, int], set[str]], batch: torch.Tensor) -> list[torch.Tensor]:
    """The model's outputs; `ran` has what ran, by the size of the batch and the threads of PyTorch."""
    with PROFILER, torch.profiler.profile() as profile:
        outputs: list[torch.Tensor] = model(batch)
    events = {event.key.rstrip("0123456789") for event in profile.key_averages()}
    ran.setdefault((len(batch), torch.get_num_threads()), set()).update(events)
    return outputs


async def test_a_model_that_breaks_fails_those_it_computed(predictor: TorchPredictor) -> None:
    """Without its words; the next request is answered."""
    with gated(predictor) as gate:
        gate._answers = partial(next, iter(()))
        gate.open()
        with pytest.raises(ServeError) as caught:
            await ask(predictor, *[jpeg()] * 9)
    assert caught.value.status is Status.INTERNAL


async def test_a_cancelled_caller_leaves_no_work(predictor: TorchPredictor) -> None:
    """Its images never reach the model, and its place is free again."""
    async with busy(predictor) as gate:
        gone = asyncio.create_task(ask(predictor, *[jpeg()] * 7))
        await until(lambda: len(predictor._queue) == 1)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
    await ask(predictor, jpeg())
    assert gate.sizes == [1, 1]
    assert predictor._line.images == 0


async def test_a_full_queue_is_refused_at_once(predictor: TorchPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    """OVERLOADED, which is 429 and RESOURCE_EXHAUSTED; the next good request works."""
    monkeypatch.setattr(upstream, "MAX_WAITING", 2)
    async with busy(predictor, 2):
        with pytest.raises(ServeError) as caught:
            await ask(predictor, jpeg())
        assert caught.value.status is Status.OVERLOADED
    assert len(await ask(predictor, jpeg())) == 1


async def test_a_hung_model_is_a_timeout_and_not_a_hang(predictor: TorchPredictor) -> None:
    """The caller hears of it in time, and nothing piles up behind."""
    with gated(predictor):
        for _ in range(3):
            with pytest.raises(ServeError) as caught:
                await ask(predictor, jpeg(), timeout=0.1)
            assert caught.value.status is Status.TIMEOUT
        assert not predictor._queue
        assert predictor._line.images == 0


async def test_a_bad_image_fails_its_request_only(predictor: TorchPredictor) -> None:
    """The message names the first bad image; requests beside it are answered."""
    bad = [jpeg(), b"one", b"two", *[jpeg()] * 20]
    results = await asyncio.gather(ask(predictor, *bad), ask(predictor, jpeg()), return_exceptions=True)
    assert isinstance(results[0], ServeError)
    assert results[0].message.startswith("images[1] is not a JPEG")
    assert isinstance(results[1], list)


@pytest.mark.parametrize(
    ("asked", "fp16", "cpu", "cuda"),
    [
        ("", False, "FP32", "FP32"),
        ("fp32", False, "FP32", "FP32"),
        ("tf32", False, "FP32", "FP32 with TF32"),
        ("fp16", True, "FP16", "FP16"),
        ("fp16", False, "FP32", "FP32 with TF32"),
    ],
)
def test_the_precision_is_the_models_and_the_devices(
    asked: str, fp16: bool, cpu: str, cuda: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what was asked for is said: FP16 is a matter of the file, and TF32 of the device. Answers are FP32, and
    near those of the model in FP32."""
    monkeypatch.setenv("PRECISION", asked)
    exact, built = (build(tmp_path / name, fp16=half) for name, half in (("exact", False), ("built", fp16)))
    cpus = torch.device("cpu")
    wanted, model = (Model(one.directory / "model.pt", one, cpus) for one in (exact, built))
    tf32 = asked not in ("", "fp32")
    assert (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32) == (tf32, tf32)
    assert model.engine == {"device": "cpu", "precision": cpu, "threads": compute_threads()}
    on_gpu = engine(torch.device("cuda"), half=fp16)
    assert on_gpu == {"device": "cuda", "precision": cuda, "threads": None}
    photo = np.random.default_rng(0).normal(size=(3, SIDE, SIDE)).astype(np.float32)
    (answer,), (near,) = model.tensors([photo]), wanted.tensors([photo])
    assert np.asarray(answer.embedding).dtype == np.float32
    assert np.allclose(answer.embedding, near.embedding, atol=1e-3)
    assert np.array_equal(answer.embedding, near.embedding) == (not fp16)


def test_the_device_is_the_one_that_was_asked_for_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default the CPU; with CUDA and no GPU an error that says what to do, and never a silent fallback to the
    CPU."""
    monkeypatch.delenv("DEVICE", raising=False)
    assert pick_device().type == "cpu"
    monkeypatch.setenv("DEVICE", "tpu")
    with pytest.raises(ServingError, match="DEVICE is 'tpu': set cpu or cuda"):
        pick_device()
    monkeypatch.setenv("DEVICE", "cuda")
    if torch.cuda.is_available():
        assert pick_device().type == "cuda"
    else:
        with pytest.raises(ServingError, match="sees no GPU: check that nvidia-smi works"):
            pick_device()
