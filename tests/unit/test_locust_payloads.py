"""Which photos a request carries, and what a machine without their tensors sends. The bytes are held by their answers:
tests/stack asks every route, and test_locust_tensors.py has those of Triton's own client."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from fiveway.vision.v1.vision_pb2 import PredictRequest

from locustfiles import payloads
from locustfiles.payloads import ALL, Images, photo_sizes, photos
from tests.unit.tiny_artifacts import TINY, tiny

SMALL = photo_sizes()[0]


@pytest.fixture(scope="module")
def tensors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tensor per photo."""
    return tiny(tmp_path_factory.mktemp("artifacts")) / TINY / "tensors"


def test_photos_come_in_sizes() -> None:
    """Every size has photos of its own, and together they are all photos."""
    assert photo_sizes() == ("224x224", "360x640", "720x1280", "1080x1920")
    assert sorted(name for size in photo_sizes() for name in photos(size)) == list(photos(ALL))


def test_without_the_builder_s_tensors_their_sizes_are_right() -> None:
    """Photos of any size, from 0 to 1: good for load on a machine that has no artefacts."""
    rough = payloads.tensor(Images((photos(SMALL)[0], photos("1080x1920")[0]), None, "tiny"))
    assert rough.shape == (2, 3, 224, 224)
    assert rough.dtype == np.float32
    assert 0 <= rough.min() < rough.max() <= 1


@pytest.mark.parametrize(("batch", "requests"), [(1, 4), (3, 4), (4, 1), (6, 2)])
def test_every_photo_is_sent_equally_often(tensors: Path, batch: int, requests: int) -> None:
    """However many photos a request takes, one round of requests has each of the four equally often, as it is."""
    ready = payloads.payloads(payloads.typed_grpc, "tiny", tensors, SMALL, batch)
    sent = Counter(image for payload in ready for image in PredictRequest.FromString(payload.body).images)
    assert len(ready) == requests
    assert sent == {(payloads.PHOTOS / f"{name}.jpg").read_bytes(): batch * requests // 4 for name in photos(SMALL)}


def test_large_requests_are_few(tensors: Path) -> None:
    """A worker keeps no more bytes ready for one route than its memory allows, and at least one request."""
    ready = payloads.payloads(payloads.kserve_http, "tiny", tensors, ALL, 31)
    assert 1 <= len(ready) < len(photos(ALL))
    assert sum(len(payload.body) for payload in ready) <= payloads.READY_BYTES


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    """Without the model builder's files the error says which file is not there."""
    with pytest.raises(OSError, match=str(tmp_path)):
        payloads.payloads(payloads.kserve_http, "tiny", tmp_path, SMALL, 1)
