"""The model in this process: TorchScript, with micro-batching off the event loop.

Requests from many callers wait in one queue. Whenever the one worker thread is free it takes all that is waiting, up to
CPU_AT_ONCE or MAX_IMAGES, as one batch. No delay is added: one caller gets its own batches, and many callers fill them
by themselves.

The event loop owns the queue, so there are no locks: the worker thread only ever sees a finished batch.
"""

import asyncio
import ctypes
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import torch

from gateways.core.answer import Prediction, predictions
from gateways.core.errors import ServeError, Status, told
from gateways.core.image import MAX_IMAGES, check_count
from gateways.core.manifest import Manifest
from gateways.core.serving import ServingError
from gateways.core.threads import CPU_AT_ONCE, available_cores, compute_threads, own_cores
from gateways.core.timing import Stages
from gateways.core.waiting import Line
from gateways.upstreams.calls import tensors

MAX_WAITING = 512
"""Images in progress at once, from decode to answer: a bound on memory, as each takes 0.6 MB once decoded. On a slow
machine gateways.core.waiting lets fewer wait."""

PART = 4
"""Images that PyTorch computes together on a CPU, at most: of eight an image takes a quarter longer (decision 20)."""

Tensor = npt.NDArray[np.float32]
log = logging.getLogger(__name__)


def pick_device() -> torch.device:
    """What DEVICE names, cpu without it. Raises ServingError if it is absent: a silent fallback would report numbers
    for the wrong device."""
    name = os.environ.get("DEVICE") or "cpu"
    if name not in ("cpu", "cuda"):
        raise ServingError(f"DEVICE is {name!r}: set cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise ServingError(
            f"DEVICE is cuda and PyTorch {torch.__version__} sees no GPU: check that nvidia-smi works on the host and "
            "that the container toolkit is set up, or set ACCELERATOR=cpu"
        )
    return torch.device(name)


def engine(device: torch.device, *, half: bool) -> dict[str, str | int | None]:
    """What computes here, in the words of a result's `engines` (bench/result.py); `half`: the model is in FP16."""
    gpu = device.type == "cuda"
    precision = "FP16" if half else "FP32 with TF32" if gpu and torch.backends.cuda.matmul.allow_tf32 else "FP32"
    return {"device": str(device), "precision": precision, "threads": None if gpu else compute_threads()}


def give_back_memory() -> None:
    """Return a dropped model's memory to the system: with the image's allocator settings it would never be returned."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)


class Model:
    """The TorchScript model on its device. Blocking: call it from one worker thread."""

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        device: torch.device,
        max_batch: int = MAX_IMAGES,
        *,
        bound: bool = False,
    ) -> None:
        """`bound`: the thread that makes it is the one that calls it; it and its helpers stay on a core each."""
        torch.set_num_threads(compute_threads())
        if bound:
            with own_cores():
                torch.zeros(1 << 20).add_(1)  # enough for all threads, which this starts
        # Left alone, PyTorch uses TF32 on a GPU in convolutions and not in matrix products.
        coarse = (os.environ.get("PRECISION") or "fp32") != "fp32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = coarse
        # Debian's build stalls for minutes in this fuser; without it nothing is lost.
        torch._C._jit_set_texpr_fuser_enabled(False)
        self._device = device
        sizes = [1, max_batch]
        if device.type == "cpu":
            sizes = sorted({size for n in range(1, max_batch + 1) for size in self.parts(n)})
            # oneDNN's fuser takes a third off the time of an image. It compiles for a size of batch, so parts have few.
            torch.jit.enable_onednn_fusion(True)
            torch.jit.set_fusion_strategy([("STATIC", len(sizes))])
        model = torch.jit.load(str(path), map_location=device).eval()
        self.engine = engine(device, half=any(weight.dtype == torch.float16 for weight in model.parameters()))
        # Frozen weights in channels_last take half the time of the plain model.
        self._model = torch.jit.freeze(model.to(memory_format=torch.channels_last))
        self._labels = manifest.labels
        side = manifest.preprocess.crop
        # TorchScript looks at its first run of a size and compiles for it in the second; the third is as fast as those
        # that follow. The largest part takes its memory now and not under load.
        for n in sizes:
            for _ in range(3):
                self([np.zeros((n, 3, side, side), np.float32)])

    def parts(self, images: int) -> list[int]:
        """The sizes of the parts of a batch: on a CPU PART as often as it fits, then powers of two."""
        if self._device.type != "cpu":
            return [images]
        whole, rest = divmod(images, PART)
        return [PART] * whole + [size for size in (2, 1) if rest & size]

    def __call__(self, tensors: Sequence[Tensor]) -> list[Prediction]:
        """One batch out of the requests' tensors [n, 3, H, W]; one Prediction per image, in order."""
        batch = torch.from_numpy(tensors[0] if len(tensors) == 1 else np.concatenate(tensors))
        parts = batch.split(self.parts(len(batch)))
        with torch.inference_mode():
            found = [self._model(part.to(self._device, memory_format=torch.channels_last)) for part in parts]
        return predictions([torch.cat(output).cpu().numpy() for output in zip(*found, strict=True)], self._labels)


@dataclass(eq=False)
class _Work:
    """One request in the queue: its tensors [n, 3, H, W], and the future that its caller awaits."""

    tensors: Tensor
    stages: Stages
    answer: asyncio.Future[list[Prediction]]
    queued_at: float


class TorchPredictor:
    """An upstream in this process: a Model. Use as `async with TorchPredictor(manifest) as predictor`."""

    def __init__(self, manifest: Manifest, told_batch: Callable[[int], object] = lambda _: None) -> None:
        """`told_batch` is told how many images each batch has. Raises ServingError if the device is absent."""
        self.manifest = manifest
        self.last_answer = float("-inf")
        """When the model last answered, on time.monotonic's clock."""
        self.device = pick_device()
        self._decoders = ThreadPoolExecutor(available_cores(), thread_name_prefix="decode")
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._queue: dict[_Work, None] = {}  # ordered, and a cancelled request leaves it in O(1)
        self._arrived = asyncio.Event()
        self._line = Line()
        self._told_batch = told_batch
        self._pump: asyncio.Task[None] | None = None

    @property
    def engine(self) -> Mapping[str, str | int | None]:
        """What computes here, once the model is loaded."""
        return self._model.engine

    @property
    def pending(self) -> int:
        """The images in progress, from decode to answer."""
        return self._line.images

    async def __aenter__(self) -> Self:
        """Load the model and answer once per warm-up batch: a predictor that entered has worked."""
        loop = asyncio.get_running_loop()
        path = self.manifest.directory / "model.pt"
        load = partial(Model, path, self.manifest, self.device, bound=True)
        self._model = await loop.run_in_executor(self._worker, load)
        self.last_answer = time.monotonic()
        self._pump = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop without waiting for a thread that may hang."""
        if self._pump:
            self._pump.cancel()
        self._worker.shutdown(wait=False, cancel_futures=True)
        self._decoders.shutdown(wait=False, cancel_futures=True)

    async def predict(self, jpegs: Sequence[bytes], *, stages: Stages, timeout: float | None) -> list[Prediction]:
        """See gateways.upstreams. OVERLOADED when MAX_WAITING images are in progress already, or it would wait too
        long (gateways.core.waiting)."""
        check_count(len(jpegs))
        if self.pending + len(jpegs) > MAX_WAITING:
            raise ServeError(Status.OVERLOADED, f"{self.pending} images are waiting: send this again in a second")
        names = [f"images[{i}]" for i in range(len(jpegs))] if len(jpegs) > 1 else ["image"]
        try:
            with self._line.join(len(jpegs), timeout):
                async with asyncio.timeout(timeout):
                    with stages.stage("preprocess"):
                        batch = await tensors(self._decoders, self.manifest.preprocess, jpegs, names)
                    return await self._enqueue(batch, stages)
        except TimeoutError:
            raise ServeError(Status.TIMEOUT, f"no answer within {timeout} s: send fewer images at once") from None

    async def _enqueue(self, batch: Tensor, stages: Stages) -> list[Prediction]:
        work = _Work(batch, stages, asyncio.get_running_loop().create_future(), time.perf_counter())
        self._queue[work] = None
        self._arrived.set()
        try:
            return await work.answer
        finally:
            self._queue.pop(work, None)

    def _take(self) -> list[_Work]:
        """The oldest request and those after it that fit one batch with it, out of the queue."""
        images = accumulate(len(work.tensors) for work in self._queue)
        first, most = next(iter(self._queue), None), CPU_AT_ONCE if self.device.type == "cpu" else MAX_IMAGES
        taken = [work for work, total in zip(self._queue, images, strict=True) if total <= most or work is first]
        for work in taken:
            del self._queue[work]
        return taken

    async def _run(self) -> None:
        """Feed the worker thread, one batch at a time, for as long as the predictor lives."""
        loop = asyncio.get_running_loop()
        while True:
            self._arrived.clear()
            while batch := self._take():
                self._told_batch(sum(len(work.tensors) for work in batch))
                start = time.perf_counter()
                try:
                    answers = iter(
                        await loop.run_in_executor(self._worker, self._model, [work.tensors for work in batch])
                    )
                except Exception as error:
                    failure = told(error, log, f"a batch of {len(batch)} failed")
                    for work in batch:
                        if not work.answer.done():
                            work.answer.set_exception(failure)
                    continue
                end = time.perf_counter()
                self.last_answer = time.monotonic()
                for work in batch:
                    mine = list(islice(answers, len(work.tensors)))
                    if not work.answer.done():  # its caller may have gone meanwhile
                        work.stages.add("queue", (start - work.queued_at) * 1e3)
                        work.stages.add("compute", (end - start) * 1e3)
                        work.answer.set_result(mine)
            await self._arrived.wait()
