"""A TorchScript model on its device, and the threads that compute it.

The threads of a CPU take photos of their own, from JPEG to answer: threads that compute one together wait for each
other in every layer. Only a photo that is alone is computed by all of them, as its caller would wait longer by one.
A GPU computes many as one batch, by one thread.
"""

import ctypes
import logging
import math
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import batched
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from gateways.core.answer import Prediction, predictions
from gateways.core.errors import ServeError, told
from gateways.core.image import MAX_IMAGES
from gateways.core.manifest import Manifest
from gateways.core.serving import ServingError
from gateways.core.threads import available_cores, compute_threads, own_cores

SHARE = 4
"""Photos that a thread of a CPU takes at once, at most: they are answered together."""

Tensor = npt.NDArray[np.float32]
Photo = Tensor | Callable[[], Tensor]
"""The tensor [3, H, W], or a function that makes it. The function raises ServeError for a bad photo."""

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


class Answers(NamedTuple):
    """Of some photos, in order: each one's Prediction, or the error that its Photo raised. Then how long they took, in
    seconds: the photos to become tensors, and those to be computed. What ran at the same time is counted once."""

    found: list[Prediction | ServeError]
    preprocess_s: float
    compute_s: float


class Model:
    """The model, ready for every batch once it is made."""

    def __init__(self, path: Path, manifest: Manifest, device: torch.device) -> None:
        # Left alone, PyTorch uses TF32 on a GPU in convolutions and not in matrix products.
        coarse = (os.environ.get("PRECISION") or "fp32") != "fp32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = coarse
        # Debian's build stalls for minutes in this fuser; without it nothing is lost.
        torch._C._jit_set_texpr_fuser_enabled(False)
        self._device, self._gpu = device, device.type != "cpu"
        self._labels, self._side = manifest.labels, manifest.preprocess.crop
        model = torch.jit.load(str(path), map_location=device).eval()
        self.engine = engine(device, half=any(weight.dtype == torch.float16 for weight in model.parameters()))
        # Frozen weights in channels_last take half the time of the plain model.
        model = model.to(memory_format=torch.channels_last)
        self.at_once = 1 if self._gpu else compute_threads()
        """Calls of `submit` that are computed at the same time."""
        self.most = MAX_IMAGES if self._gpu else SHARE
        """Photos of one of them, at most."""
        # PyTorch's number of threads belongs to the thread that calls it. What oneDNN compiles holds for that number:
        # with another it answers wrongly.
        self._together = ThreadPoolExecutor(1, "model", _with_helpers)
        self._whole = self._together.submit(self._compiled, model).result()
        self._apart, self._single = self._together, self._whole
        if self.at_once > 1:
            self._apart = ThreadPoolExecutor(self.at_once, "model", torch.set_num_threads, (1,))
            self._single = self._apart.submit(self._compiled, model).result()
        self.decoders = ThreadPoolExecutor(available_cores(), "decode") if self._gpu else None
        """The threads that make tensors for a GPU. On a CPU those that compute do."""

    def _compiled(self, model: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
        """For threads that have as many helpers as this one."""
        if not self._gpu:
            # oneDNN's fuser takes a third off the time of a photo. It compiles for a size of batch.
            torch.jit.enable_onednn_fusion(True)
            torch.jit.set_fusion_strategy([("STATIC", 1)])
        model = torch.jit.freeze(model)
        give_back_memory()  # what loading took; what the runs take stays
        # TorchScript looks at its first run of a size and compiles for it in the second; the third is as fast as those
        # that follow.
        for n in (1, MAX_IMAGES) if self._gpu else (1,):
            for _ in range(3):
                self._run(model, [np.zeros((3, self._side, self._side), np.float32)] * n)
        return model

    def submit(self, photos: Sequence[Photo], *, alone: bool) -> Future[Answers]:
        """To be computed by the next thread that is free, or by all of them if nothing else is: `alone`."""
        if alone:
            return self._together.submit(self._answers, self._whole, photos)
        return self._apart.submit(self._answers, self._single, photos)

    def answers(self, photos: Sequence[Photo]) -> Answers:
        """Blocking, for a caller that has the model for itself."""
        start = time.perf_counter()
        shares = batched(photos, math.ceil(len(photos) / self.at_once), strict=False)
        jobs = [self.submit(share, alone=len(photos) == 1) for share in shares]
        return joined([job.result() for job in jobs], time.perf_counter() - start)

    def tensors(self, tensors: Sequence[Tensor]) -> list[Prediction]:
        """The answers to tensors [3, H, W], computed in the calling thread."""
        return self._run(self._whole, tensors)

    def close(self) -> None:
        """Stop without waiting for a thread that may hang."""
        for threads in (self._together, self._apart, self.decoders):
            if threads:
                threads.shutdown(wait=False, cancel_futures=True)

    def _answers(self, model: torch.jit.ScriptModule, photos: Sequence[Photo]) -> Answers:
        start = time.perf_counter()
        each = self.decoders.map if self.decoders and callable(photos[0]) else map
        found = list(each(_tensor, photos))
        decoded = time.perf_counter()
        good = [one for one in found if not isinstance(one, ServeError)]
        computed = iter(self._run(model, good) if good else [])
        answers = [one if isinstance(one, ServeError) else next(computed) for one in found]
        return Answers(answers, decoded - start, time.perf_counter() - decoded)

    def _run(self, model: torch.jit.ScriptModule, tensors: Sequence[Tensor]) -> list[Prediction]:
        """One batch on a GPU; on a CPU one after another, which is as fast."""
        batches = [np.stack(tensors)] if self._gpu else [one[None] for one in tensors]
        with torch.inference_mode():
            inputs = (torch.from_numpy(one).to(self._device, memory_format=torch.channels_last) for one in batches)
            found = [model(one) for one in inputs]
        return predictions([torch.cat(output).cpu().numpy() for output in zip(*found, strict=True)], self._labels)


def _with_helpers() -> None:
    """This thread computes with all threads that it may, which start here."""
    torch.set_num_threads(compute_threads())
    with own_cores():
        torch.zeros(1 << 20).add_(1)  # enough for all of them


def joined(parts: Sequence[Answers], took_s: float) -> Answers:
    """The answers to photos of which some were computed at the same time, in `took_s` seconds in all."""
    preprocess_s, compute_s = sum(part.preprocess_s for part in parts), sum(part.compute_s for part in parts)
    share = preprocess_s / ((preprocess_s + compute_s) or 1)
    return Answers([one for part in parts for one in part.found], took_s * share, took_s * (1 - share))


def _tensor(photo: Photo) -> Tensor | ServeError:
    try:
        return photo() if callable(photo) else photo
    except Exception as error:
        return told(error, log, "decode failed")
