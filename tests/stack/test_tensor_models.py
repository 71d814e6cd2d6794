"""The examples that are no image models: built by the models image, served by the Triton image, right in value."""

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
from tritonclient.utils import np_to_triton_dtype

from tests.docker import docker, wait_until
from tests.stack.test_triton_backend import HARDENED, IMAGE, status

pytestmark = pytest.mark.slow

MODELS_IMAGE = os.environ.get("MODELS_IMAGE", "fiveway-models")


@contextmanager
def serving(model: str) -> Iterator[tritonclient.http.InferenceServerClient]:
    """Build `model` without any network, which its package makes needless, and serve its repository."""
    name = f"test-tensors-{uuid.uuid4().hex[:8]}"
    volume = f"--volume={name}:/artifacts"
    repository = f"--env=MODEL_REPOSITORY=/artifacts/{model}/repository"
    try:
        said = docker(
            "run", "--rm", "--network=none", volume, MODELS_IMAGE, "python", "-m", "models.builder", "build", model
        )
        assert f"{model} is ready, real weights" in said
        docker("run", "--detach", f"--name={name}", *HARDENED, "--publish=127.0.0.1::8000", volume, repository, IMAGE)
        address = docker("port", name, "8000/tcp").splitlines()[0]
        wait_until(lambda: status(f"http://{address}/v2/models/{model}/ready") == 200, f"{model} is ready", seconds=90)
        with tritonclient.http.InferenceServerClient(address) as client:
            yield client
    finally:
        print(docker("logs", name, check=False))
        docker("rm", "--force", name, check=False)
        docker("volume", "rm", name, check=False)


def tensor(name: str, array: NDArray[Any]) -> tritonclient.http.InferInput:
    made = tritonclient.http.InferInput(name, list(array.shape), np_to_triton_dtype(array.dtype))
    made.set_data_from_numpy(array)
    return made


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
        answer = client.infer("magika", [tensor("bytes", batch)], outputs=[best]).as_numpy("target_label")
        assert [one.decode().rpartition(":")[2] for (one,) in answer] == ["python", "jpeg"]


def test_silero_hears_no_speech_in_noise() -> None:
    """Three inputs of different types, a scalar among them that decides the answer, and a state to be handed on."""
    noise = np.random.default_rng(0).normal(0, 0.01, (1, 576)).astype(np.float32)
    with serving("silero_vad") as client:

        def speech(rate: int, state: NDArray[Any]) -> tuple[float, NDArray[Any]]:
            inputs = [tensor("input", noise), tensor("state", state), tensor("sr", np.array([rate]))]
            answer = client.infer("silero_vad", inputs)
            return float(answer.as_numpy("output")[0, 0]), answer.as_numpy("stateN")

        first, state = speech(16000, np.zeros((2, 1, 128), np.float32))
        assert 0 < first < 0.05
        assert state.shape == (2, 1, 128)
        assert speech(16000, state)[0] != first
        assert speech(8000, np.zeros_like(state))[0] > 2 * first
        described = client.get_model_config("silero_vad")
        assert described["parameters"]["load.sr"]["string_value"] == "16000"
