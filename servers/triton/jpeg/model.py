"""JPEG to tensor inside Triton: the first step of `<model>_jpeg`, with the gateways' code.

The models service copies this file into the repository, as <model>_preprocess/1/model.py; Triton's Python backend runs
it. The numbers are in that model's config.pbtxt.

    jpeg BYTES [N, 1]  ->  image FP32 [N, 3, H, W]      bad photo  -> INVALID_ARG for its request alone

With JPEG_DECODER=dali it asks DALI first (servers/triton/dali.py), and counts in Triton's metrics who decoded.
"""

import json
import os
import traceback
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import triton_python_backend_utils as pb_utils
from PIL.Image import Image

from gateways.core.errors import INTERNAL_MESSAGE, ServeError
from gateways.core.preprocess import Preprocess
from gateways.core.threads import available_cores

Tensor = npt.NDArray[np.float32]


class TritonPythonModel:
    """One model instance. Triton calls the methods by these names."""

    def initialize(self, args: dict[str, str]) -> None:
        model, version = args["model_name"], args["model_version"]
        numbers = json.loads(args["model_config"])["parameters"]["preprocess"]["string_value"]
        self._preprocess = Preprocess(**json.loads(numbers))
        # Pillow decodes and resizes without the interpreter's lock.
        threads = available_cores()
        self._pool = ThreadPoolExecutor(threads)
        self._dali, self._decoded = None, None
        if os.environ.get("JPEG_DECODER") == "dali":
            self._dali = _working_dali(model, self._preprocess, threads)
            self._decoded = _Decoded(model, version)

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer every request, in order. Never raises: an exception here would fail all of them."""
        photos = [request.inputs()[0].as_numpy().ravel() for request in requests]
        images = self._dali.images(np.concatenate(photos)) if self._dali else [None] * sum(map(len, photos))
        image = iter(images)
        pending = [[self._tensor(index, jpeg, next(image)) for index, jpeg in enumerate(row)] for row in photos]
        answers = [_answer(tensors) for tensors in pending]
        if self._decoded:
            tensors = [tensor for row in pending for tensor in row]
            pillow = sum(not image and not tensor.exception() for image, tensor in zip(images, tensors, strict=True))
            self._decoded.add(DALI=len(images) - images.count(None), Pillow=pillow)
        return answers

    def _tensor(self, index: int, jpeg: bytes, image: Image | None) -> Future[Tensor]:
        """The tensor of one photo, from its bytes or from DALI's picture."""
        if image:
            return self._pool.submit(self._preprocess.of, image)
        return self._pool.submit(self._preprocess.tensor, jpeg, name=f"jpeg[{index}]")


def _working_dali(model: str, preprocess: Preprocess, threads: int) -> Any:
    """DALI, where it is in the image and works, else None; a line in the log says which."""
    gpu = os.environ.get("DEVICE") == "cuda"
    try:
        from servers.triton.dali import Dali

        dali = Dali(preprocess.resize, threads, gpu=gpu)
    except Exception as error:
        print(f"{model}: Pillow decodes on the CPU, for DALI does not: {error!r}", flush=True)
        return None
    print(f"{model}: DALI decodes on the {'GPU' if gpu else 'CPU'}", flush=True)
    return dali


class _Decoded:
    """How many photos each decoder has decoded, in Triton's metrics."""

    def __init__(self, model: str, version: str) -> None:
        self._family = pb_utils.MetricFamily(  # kept, because its metrics end with it
            name="fiveway_decoded_photos",
            description="Photos that each decoder decoded, where JPEG_DECODER asks for DALI",
            kind=pb_utils.MetricFamily.COUNTER,
        )
        self._counters = {
            decoder: self._family.Metric(labels={"model": model, "version": version, "provider": decoder})
            for decoder in ("DALI", "Pillow")
        }

    def add(self, **photos: int) -> None:
        for decoder, count in photos.items():
            self._counters[decoder].increment(count)


def _answer(tensors: Sequence[Future[Tensor]]) -> Any:
    try:
        image = np.stack([tensor.result() for tensor in tensors])
    except ServeError as error:
        return _refusal(error.message, pb_utils.TritonError.INVALID_ARG)  # Triton has no word for "too large"
    except Exception:
        traceback.print_exc()
        return _refusal(INTERNAL_MESSAGE, pb_utils.TritonError.INTERNAL)
    return pb_utils.InferenceResponse([pb_utils.Tensor("image", image)])


def _refusal(message: str, code: Any) -> Any:
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, code))
