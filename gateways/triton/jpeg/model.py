"""JPEG to tensor inside Triton: the first step of `<model>_jpeg`, by the code that every gateway uses.

The models service copies this file into the repository, as <model>_preprocess/1/model.py; Triton's Python backend runs
it. The numbers are in that model's config.pbtxt.

    jpeg BYTES [N, 1]  ->  image FP32 [N, 3, H, W]      bad photo  -> INVALID_ARG for its request alone
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

from gateways.core.errors import INTERNAL_MESSAGE, ServeError
from gateways.core.preprocess import Preprocess

Tensor = npt.NDArray[np.float32]


class TritonPythonModel:
    """One model instance. Triton calls the methods by these names."""

    def initialize(self, args: dict[str, str]) -> None:
        numbers = json.loads(args["model_config"])["parameters"]["preprocess"]["string_value"]
        self._preprocess = Preprocess(**json.loads(numbers))
        # Pillow decodes and resizes without the interpreter's lock.
        self._pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer every request, in order. Never raises: an exception here would fail all of them."""
        pending = [
            [
                self._pool.submit(self._preprocess.tensor, jpeg, name=f"jpeg[{index}]")
                for index, jpeg in enumerate(request.inputs()[0].as_numpy().ravel())
            ]
            for request in requests
        ]
        return [_answer(tensors) for tensors in pending]


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
