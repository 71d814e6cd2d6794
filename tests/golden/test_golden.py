"""The golden test: one photo, the same answer over every route, as PyTorch gives it in this process.

The reference is the TorchScript model on the preprocessing of gateways.core, which every server uses too. May differ:

- embedding: cosine >= 0.999;
- classes: the same five in the same order. Two classes whose reference scores are closer than SCORE_TOLERANCE are a
  tie, and may swap; a score may differ by SCORE_TOLERANCE. (Execution providers round differently.)

Photos much larger than the model's input are decoded scaled (1/2, 1/4, 1/8) by every route. What that costs against a
decode in full, which a client of the tensor routes may do instead, has a test and a tolerance of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms

from gateways.core.answer import softmax
from gateways.core.manifest import Manifest
from gateways.core.serving import ARTIFACTS
from tests.clients import CLIENTS, MODEL, Answer, Vector

# Every size and every subject, next to each other in a batch what differs most.
NAMES = (
    "colosseum_224x224", "lake_360x640", "osprey_720x1280", "otter_1080x1920",
    "lake_1080x1920", "otter_224x224", "osprey_360x640",
)  # fmt: skip
MIN_COSINE = 0.999
SCORE_TOLERANCE = 0.001
# Full decode against scaled decode. Measured with efficientnet_lite0: 0.9938 and 0.079 at worst (at 1080x1920).
MIN_COSINE_FULL_DECODE = 0.99
SCORE_TOLERANCE_FULL_DECODE = 0.1


@dataclass(frozen=True, eq=False)
class Reference:
    """PyTorch's answer: embedding [D], and the probability of every class [C] (empty for an embedding model)."""

    embedding: Vector
    scores: Vector


class PyTorch:
    """The TorchScript model of the artefacts, asked in this process; one answer per photo is kept."""

    def __init__(self) -> None:
        torch._C._jit_set_texpr_fuser_enabled(False)  # Debian's build stalls in the fuser
        torch.set_num_threads(1)
        self.manifest = Manifest.load(ARTIFACTS, MODEL)
        self._model = torch.jit.load(str(self.manifest.directory / "model.pt")).eval()
        self._answers: dict[str, Reference] = {}

    def photo(self, name: str, jpeg: bytes) -> Reference:
        if name not in self._answers:
            self._answers[name] = self.tensor(self.manifest.preprocess.tensor(jpeg))
        return self._answers[name]

    def tensor(self, tensor: Vector) -> Reference:
        with torch.inference_mode():
            embedding, *logits = self._model(torch.from_numpy(tensor)[None])
        return Reference(embedding[0].numpy(), softmax(logits[0][0].numpy()) if logits else np.empty(0, np.float32))


@pytest.fixture(scope="module")
def pytorch() -> PyTorch:
    return PyTorch()


def cosine(a: Vector, b: Vector) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def assert_same(
    answer: Answer, wanted: Reference, labels: tuple[str, ...], score_tolerance: float = SCORE_TOLERANCE
) -> None:
    """The tolerances of the module's first lines."""
    assert answer.embedding.shape == wanted.embedding.shape
    assert cosine(answer.embedding, wanted.embedding) >= MIN_COSINE
    best = np.sort(wanted.scores)[::-1]
    assert len(answer.classes) == min(5, len(labels))
    assert len({index for index, _, _ in answer.classes}) == len(answer.classes)
    for rank, (index, label, score) in enumerate(answer.classes):
        assert wanted.scores[index] == pytest.approx(best[rank], abs=score_tolerance), f"#{rank + 1}: {labels[index]}"
        assert score == pytest.approx(wanted.scores[index], abs=score_tolerance)
        assert label in (None, labels[index])


@pytest.mark.parametrize("names", [*([name] for name in NAMES), NAMES], ids=lambda names: "-".join(names[:2]))
@pytest.mark.parametrize("client", CLIENTS)
def test_a_photo_is_the_same_over_every_route(
    client: str, names: Sequence[str], photos: dict[str, bytes], pytorch: PyTorch
) -> None:
    """Top five and embedding as PyTorch's; in one request, photos of all sizes keep their order."""
    answers = CLIENTS[client]([photos[name] for name in names])
    for name, answer in zip(names, answers, strict=True):
        assert_same(answer, pytorch.photo(name, photos[name]), pytorch.manifest.labels)


def test_the_photos_tell_routes_apart(photos: dict[str, bytes], pytorch: PyTorch) -> None:
    """Two different subjects are further apart than the tolerance: a route that answers anything cannot pass."""
    subjects = sorted({name.partition("_")[0] for name in NAMES})
    vectors = [pytorch.photo(f"{subject}_224x224", photos[f"{subject}_224x224"]).embedding for subject in subjects]
    for i, one in enumerate(vectors):
        for other in vectors[i + 1 :]:
            assert cosine(one, other) < MIN_COSINE - 0.01


def test_the_answers_are_right(photos: dict[str, bytes], pytorch: PyTorch) -> None:
    """Real weights see an otter in the otter's photo, at every size."""
    if pytorch.manifest.weights != "real" or not pytorch.manifest.labels:
        pytest.skip(f"{MODEL}: {pytorch.manifest.weights} weights, {len(pytorch.manifest.labels)} classes")
    for name in (name for name in photos if name.startswith("otter_")):
        scores = pytorch.photo(name, photos[name]).scores
        assert pytorch.manifest.labels[int(scores.argmax())] == "otter", name


@pytest.mark.parametrize("name", NAMES)
def test_scaled_decode_is_close_to_full_decode(name: str, photos: dict[str, bytes], pytorch: PyTorch) -> None:
    """A client that decodes in full and preprocesses with torchvision gets close scores and a close embedding."""
    steps = pytorch.manifest.preprocess
    mode = transforms.InterpolationMode(steps.interpolation)
    full = transforms.Compose(
        [
            transforms.Resize(steps.resize, mode),
            transforms.CenterCrop(steps.crop),
            transforms.ToTensor(),
            transforms.Normalize(steps.mean, steps.std),
        ]
    )
    theirs = pytorch.tensor(full(Image.open(BytesIO(photos[name])).convert("RGB")).numpy())
    ours = pytorch.photo(name, photos[name])
    assert cosine(theirs.embedding, ours.embedding) >= MIN_COSINE_FULL_DECODE
    assert theirs.scores == pytest.approx(ours.scores, abs=SCORE_TOLERANCE_FULL_DECODE)
