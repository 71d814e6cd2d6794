"""The contents of requests: photos and tensors, encoded for each wire format before any clock starts."""

import base64
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import simplejpeg
from fiveway.vision.v1.vision_pb2 import PredictRequest
from numpy.typing import NDArray
from torchserve.inference_pb2 import PredictionsRequest
from tritonclient.grpc.service_pb2 import ModelInferRequest

from locustfiles.clients import Payload
from locustfiles.serving import SIDE

PHOTOS = Path(__file__).parents[1] / "models" / "photos"
ALL = "all"
"""The choice of photos of every size."""

# A batch of 32 tensors is 19.3 MB: so many bytes of different requests are kept ready for one route at most.
READY_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Images:
    """The contents of one request: photos by name, the folder of their tensors, and the model's name at its server."""

    names: tuple[str, ...]
    tensors: Path | None
    """None: this machine has no such folder. Tensors are then approximate."""
    served: str
    size: str = ""
    """The requested size where no photo is sent, in the unit of its study, e.g. `10000` vectors."""
    turn: int = 0
    """Which of the requests of that size, from 0: as many as Format.turns says."""


Encoder = Callable[[Images], Payload]


# KServe's names; BF16 has no type in numpy: its bytes are the upper half of an FP32's.
TYPES: Mapping[str, str] = {
    "BOOL": "?",
    **{f"UINT{bits}": f"<u{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"INT{bits}": f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": f"<f{bits // 8}" for bits in (16, 32, 64)},
    "BF16": "<u2",
}
BYTES = "BYTES"


class RawTensor(NamedTuple):
    """A tensor as KServe v2 carries it: `datatype` is KServe's name, `raw` its bytes, little-endian."""

    name: str
    datatype: str
    shape: Sequence[int]
    raw: bytes


@cache
def photos(size: str) -> tuple[str, ...]:
    """The sample photos of one size (`224x224`), or of ALL sizes, by name without `.jpg`."""
    return tuple(sorted(path.stem for path in PHOTOS.glob("*.jpg") if size in (ALL, _size(path.stem))))


@cache
def photo_sizes() -> tuple[str, ...]:
    """The sizes that the sample photos come in, smallest first."""
    return tuple(sorted({_size(name) for name in photos(ALL)}, key=lambda size: math.prod(map(int, size.split("x")))))


def _size(name: str) -> str:
    return name.rpartition("_")[2]


@lru_cache(maxsize=16)  # an entry for each route; entries of earlier runs are dropped
def payloads(encode: Encoder, served: str, tensors: Path | None, size: str, batch: int) -> tuple[Payload, ...]:
    """The requests of `batch` images that a user sends in turn; each goes on where the one before it ended.

    There are as many as it takes to send every photo equally often, within READY_BYTES.
    Raises OSError when an input is missing: the photos come with the image, the tensors from the model builder.
    """
    names = photos(size)

    def beginning_at(start: int) -> Payload:
        return encode(Images(tuple(names[(start + i) % len(names)] for i in range(batch)), tensors, served))

    return in_turn(beginning_at, len(names), batch)


def in_turn(beginning_at: Callable[[int], Payload], items: int, batch: int) -> tuple[Payload, ...]:
    """As many requests as it takes to send each of so many items equally often, within READY_BYTES."""
    first = beginning_at(0)
    evenly = items // math.gcd(items, batch)
    count = min(evenly, max(1, READY_BYTES // max(1, len(first.body))))
    return (first, *(beginning_at(batch * i) for i in range(1, count)))


def base64_json(images: Images) -> Payload:
    """{"images": [base64 JPEG, ...]}: the JPEG server's body, and the typed proto's JSON form."""
    encoded = [base64.b64encode(jpeg).decode() for jpeg in _jpegs(images)]
    return Payload(json.dumps({"images": encoded}).encode(), len(encoded))


def jpeg(images: Images) -> Payload:
    """One JPEG file as it is."""
    (only,) = _jpegs(images)
    return Payload(only, 1)


def torchserve_grpc(images: Images) -> Payload:
    """TorchServe's generic message: one JPEG under the key `data`."""
    (only,) = _jpegs(images)
    return Payload(PredictionsRequest(model_name=images.served, input={"data": only}).SerializeToString(), 1)


def typed_grpc(images: Images) -> Payload:
    """Our typed message: JPEG files."""
    return Payload(PredictRequest(images=_jpegs(images)).SerializeToString(), len(images.names))


def _pixels(protocol: str, images: Images) -> Payload:
    """The photos as one FP32 tensor [N,3,224,224]."""
    batch = tensor(images)
    return _embeddings(protocol, images, RawTensor("image", "FP32", batch.shape, batch.tobytes()))


def _files(protocol: str, images: Images) -> Payload:
    """The photos as one BYTES tensor [N,1] of JPEG files."""
    shape = (len(images.names), 1)
    return _embeddings(protocol, images, RawTensor("jpeg", "BYTES", shape, elements(_jpegs(images))))


def _embeddings(protocol: str, images: Images, tensor: RawTensor) -> Payload:
    """Only the embedding is asked for, so that the answer says what the JPEG server's says."""
    return kserve(protocol, images.served, [tensor], ["embedding"], len(images.names))


kserve_http, kserve_grpc = partial(_pixels, "HTTP"), partial(_pixels, "gRPC")
kserve_jpeg_http, kserve_jpeg_grpc = partial(_files, "HTTP"), partial(_files, "gRPC")


def kserve(protocol: str, model: str, inputs: Sequence[RawTensor], outputs: Iterable[str], items: int) -> Payload:
    """One KServe v2 request of `items` items, its tensors as raw bytes in both directions: over HTTP by the binary
    tensor extension, behind a JSON header, over gRPC in `raw_input_contents`."""
    if protocol == "gRPC":
        request = ModelInferRequest(model_name=model, raw_input_contents=[one.raw for one in inputs])
        for one in inputs:
            request.inputs.add(name=one.name, datatype=one.datatype, shape=one.shape)
        for name in outputs:
            request.outputs.add(name=name)
        return Payload(request.SerializeToString(), items)
    about = [
        {"name": name, "shape": shape, "datatype": kind, "parameters": {"binary_data_size": len(raw)}}
        for name, kind, shape, raw in inputs
    ]
    asked = [{"name": name, "parameters": {"binary_data": True}} for name in outputs]
    header = json.dumps({"inputs": about, "outputs": asked}).encode()
    body = b"".join([header, *(one.raw for one in inputs)])
    return Payload(body, items, {"inference-header-content-length": str(len(header))})


def elements(values: Iterable[bytes]) -> bytes:
    """A BYTES tensor as KServe writes it: each element behind its length."""
    return b"".join(len(value).to_bytes(4, "little") + value for value in values)


def _jpegs(images: Images) -> Sequence[bytes]:
    return [_jpeg(name) for name in images.names]


def tensor(images: Images) -> NDArray[np.float32]:
    """[N,3,224,224], the photos after the server's own preprocessing; approximate without the builder's folder."""
    folder = images.tensors
    return np.stack([_prepared(folder / f"{name}.npy") if folder else _rough(name) for name in images.names])


# Read once: encoding a request is timed in a column of its own, and reading files must not be part of it.
@cache
def _jpeg(name: str) -> bytes:
    return (PHOTOS / f"{name}.jpg").read_bytes()


@cache
def _prepared(path: Path) -> NDArray[np.float32]:
    return np.load(path).astype(np.float32)


@cache
def _rough(name: str) -> NDArray[np.float32]:
    """A photo as [3,224,224] from 0 to 1, without the model's own preprocessing: enough for load, but answers mean
    nothing."""
    pixels = simplejpeg.decode_jpeg(_jpeg(name))
    rows, columns = (np.arange(SIDE) * size // SIDE for size in pixels.shape[:2])
    return pixels[rows][:, columns].transpose(2, 0, 1).astype(np.float32) / np.float32(255)
