"""What the load generator sends, byte for byte, and which photos it is about."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from fiveway.vision.v1.vision_pb2 import PredictRequest
from torchserve.inference_pb2 import PredictionsRequest
from tritonclient.grpc.service_pb2 import ModelInferRequest
from tritonclient.utils import serialize_byte_tensor

from locustfiles import payloads
from locustfiles.payloads import ALL, Images, photo_sizes, photos

SMALL = photo_sizes()[0]


@pytest.fixture(scope="module")
def tensors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tensor per photo, full of the photo's own number."""
    folder = tmp_path_factory.mktemp("tensors")
    for number, name in enumerate(photos(ALL)):
        np.save(folder / f"{name}.npy", np.full((3, 224, 224), number, np.float32))
    return folder


@pytest.fixture
def two(tensors: Path) -> Images:
    return Images(photos(SMALL)[:2], tensors, "tiny_trt")


def jpeg(name: str) -> bytes:
    return (payloads.PHOTOS / f"{name}.jpg").read_bytes()


def test_photos_come_in_sizes() -> None:
    """Every size has photos of its own, and together they are all photos."""
    assert photo_sizes() == ("224x224", "360x640", "720x1280", "1080x1920")
    assert sorted(name for size in photo_sizes() for name in photos(size)) == list(photos(ALL))
    assert all(name.endswith("_360x640") for name in photos("360x640"))


def test_kserve_carries_the_files_over_both_protocols(two: Images) -> None:
    """HTTP, behind a JSON header, and gRPC: files behind their lengths; the embedding alone is asked for. Tensors, and
    base64 in JSON, are compared by their answers."""
    http = payloads.kserve_jpeg_http(two)
    request = ModelInferRequest.FromString(payloads.kserve_jpeg_grpc(two).body)
    wanted = serialize_byte_tensor(np.array([jpeg(name) for name in two.names], dtype=object)).item()
    length = int(http.headers["inference-header-content-length"])
    header = json.loads(http.body[:length])
    (tensor,) = header["inputs"]
    assert http.body[length:] == request.raw_input_contents[0] == wanted
    assert tensor["parameters"] == {"binary_data_size": len(wanted)}
    assert (tensor["name"], tensor["datatype"], tensor["shape"]) == ("jpeg", "BYTES", [2, 1])
    asked = request.inputs[0]
    assert (asked.name, asked.datatype, list(asked.shape)) == ("jpeg", "BYTES", [2, 1])
    assert [one["name"] for one in header["outputs"]] == [one.name for one in request.outputs] == ["embedding"]
    assert request.model_name == "tiny_trt"


def test_without_the_builder_s_tensors_their_sizes_are_right() -> None:
    """Photos of any size, from 0 to 1: good for load on a machine that has no artefacts."""
    rough = payloads.tensor(Images((photos(SMALL)[0], photos("1080x1920")[0]), None, "tiny"))
    assert rough.shape == (2, 3, 224, 224)
    assert rough.dtype == np.float32
    assert 0 <= rough.min() < rough.max() <= 1


def test_jpeg_messages_carry_the_files(two: Images) -> None:
    """TorchServe's generic message and our typed one hold the files as they are."""
    one = Images(two.names[:1], two.tensors, "tiny")
    generic = PredictionsRequest.FromString(payloads.torchserve_grpc(one).body)
    assert (generic.model_name, generic.input["data"]) == ("tiny", jpeg(one.names[0]))
    assert list(PredictRequest.FromString(payloads.typed_grpc(two).body).images) == [jpeg(n) for n in two.names]
    assert payloads.jpeg(one).body == jpeg(one.names[0])


@pytest.mark.parametrize(("batch", "requests"), [(1, 4), (2, 2), (3, 4), (4, 1), (6, 2), (8, 1)])
def test_every_photo_is_sent_equally_often(tensors: Path, batch: int, requests: int) -> None:
    """However many photos a request takes, one round of requests has each of the four equally often."""
    ready = payloads.payloads(payloads.typed_grpc, "tiny", tensors, SMALL, batch)
    sent = Counter(image for payload in ready for image in PredictRequest.FromString(payload.body).images)
    assert len(ready) == requests
    assert sent == {jpeg(name): batch * requests // 4 for name in photos(SMALL)}


def test_large_requests_are_few(tensors: Path) -> None:
    """A worker keeps no more bytes ready for one route than its memory allows, and at least one request."""
    ready = payloads.payloads(payloads.kserve_http, "tiny", tensors, ALL, 31)
    assert 1 <= len(ready) < len(photos(ALL))
    assert sum(len(payload.body) for payload in ready) <= payloads.READY_BYTES


def test_a_missing_tensor_is_named(tmp_path: Path) -> None:
    """Without the model builder's files the error says which file is not there."""
    with pytest.raises(OSError, match=str(tmp_path)):
        payloads.payloads(payloads.kserve_http, "tiny", tmp_path, SMALL, 1)
