"""The examples that take no photos: built by the models image, served by the Triton image, with correct values."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.http
from numpy.typing import NDArray

from chaos.docker import docker, wait_until
from tests.clients import tensor
from tests.stack.test_triton_backend import address, status
from tests.stack.test_triton_backend import serving as triton

pytestmark = pytest.mark.slow

MODELS_IMAGE = os.environ.get("MODELS_IMAGE", "fiveway-models:local")


@contextmanager
def serving(model: str) -> Iterator[tritonclient.http.InferenceServerClient]:
    """Build `model` without any network, which its package makes needless, and serve its repository."""
    volume = f"test-tensors-{uuid.uuid4().hex[:8]}"
    mount, repository = f"--volume={volume}:/artifacts", f"--env=MODEL_REPOSITORY=/artifacts/{model}/repository"
    build = ("python", "-m", "models.builder", "build", model)
    try:
        said = docker("run", "--rm", "--network=none", mount, MODELS_IMAGE, *build)
        assert f"{model} is ready, real weights" in said
        with triton({}, mount, repository) as name:
            url = address(name, 8000)
            wait_until(lambda: status(f"http://{url}/v2/models/{model}/ready") == 200, f"{model} is ready", seconds=90)
            with tritonclient.http.InferenceServerClient(url) as client:
                yield client
    finally:
        docker("volume", "rm", volume, check=False)


def as_magika_sees(content: bytes) -> list[int]:
    """Both ends of a file, as the package's own code takes them."""
    head, tail = content[:4096].strip()[:1024], content[-4096:].strip()[-1024:]
    return [*head, *[256] * (1024 - len(head)), *[256] * (1024 - len(tail)), *tail]


def test_magika_tells_what_a_file_is() -> None:
    """A batch of this file and a photo: a label for each, by Triton's classification extension."""
    photo = Path(__file__).parents[2] / "models" / "photos" / "otter_720x1280.jpg"
    batch = np.array([as_magika_sees(path.read_bytes()) for path in (Path(__file__), photo)], np.int32)
    with serving("magika") as client:
        best = tritonclient.http.InferRequestedOutput("target_label", class_count=1)
        answer = client.infer("magika", [tensor(tritonclient.http, "bytes", batch)], outputs=[best])
        assert [one.decode().rpartition(":")[2] for (one,) in answer.as_numpy("target_label")] == ["python", "jpeg"]


def test_silero_hears_no_speech_in_noise() -> None:
    """Three inputs of different types, a scalar among them that decides the answer, and a state to be handed on."""
    noise = np.random.default_rng(0).normal(0, 0.01, (1, 576)).astype(np.float32)
    with serving("silero_vad") as client:

        def speech(rate: int, state: NDArray[Any]) -> tuple[float, NDArray[Any]]:
            inputs = {"input": noise, "state": state, "sr": np.array([rate])}
            answer = client.infer("silero_vad", [tensor(tritonclient.http, *one) for one in inputs.items()])
            return float(answer.as_numpy("output")[0, 0]), answer.as_numpy("stateN")

        first, state = speech(16000, np.zeros((2, 1, 128), np.float32))
        assert 0 < first < 0.05
        assert state.shape == (2, 1, 128)
        assert speech(16000, state)[0] != first
        assert speech(8000, np.zeros_like(state))[0] > 2 * first
        described = client.get_model_config("silero_vad")
        assert described["parameters"]["load.sr"]["string_value"] == "16000"
