"""The rows of study `shm`: a tensor to Triton in memory that both have, over gRPC and over HTTP, and three limits of
the machine: one copy of the same bytes, one way over a socket, and the model in a process that has nothing else.

The tensor is made before the clock everywhere. Copying it into the shared memory, and the answer out of it, is on it.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from locustfiles import answers
from locustfiles.clients import Answer, Payload, shm, triton
from locustfiles.payloads import Images, RawTensor, kserve, tensor
from locustfiles.routes import ROUTES, TENSOR_GRPC, Format, Route, by_name
from locustfiles.study_routes.clients import check_array

SHM, GRPC, HTTP = "onnx-shm", "onnx-grpc", "onnx-http"
BYTES = MEMCPY, LOOPBACK = "memcpy", "loopback"
ALONE = "onnxruntime"
LIMITS = (*BYTES, ALONE)


def encode(images: Images) -> Payload:
    """The tensor's bytes, and what a call says of it."""
    batch = tensor(images)
    return Payload(batch.tobytes(), len(batch), {"model": images.served, "shape": ",".join(map(str, batch.shape))})


def usual(payload: Payload, tensor: bytes) -> Payload:
    """onnx-grpc's message."""
    shape = [int(size) for size in payload.headers["shape"].split(",")]
    sent = RawTensor("image", "FP32", shape, tensor)
    return kserve("gRPC", payload.headers["model"], [sent], ["embedding"], payload.images)


def arrived(answer: Answer) -> int:
    """How many bytes."""
    (length,) = shm.LENGTH.unpack(answer.body)
    return int(length)


def _check(answer: Answer, images: int) -> None:
    answers.expect(len(answer.body), shm.LENGTH.size, "{:g} of {} bytes that say how many arrived")


def _limit(name: str, protocol: str, client: Any) -> Route:
    return Route(name, "", "in-process:0", Format(protocol, encode, _check, arrived, client=client), asks="bytes")


_OVER_GRPC = ROUTES[GRPC]
_FORM = replace(
    TENSOR_GRPC,
    encode=encode,
    check=check_array,
    read=triton.read,
    client=partial(shm.SharedMemoryClient, usual=usual),
    lends=partial(shm.lent, server="triton:8001", usual=usual),
    tensors=False,
)
_ALONE = Format("TCP", encode, check_array, triton.read, client=shm.Alone)
ROWS = by_name(
    ROUTES[HTTP],
    _OVER_GRPC,
    replace(_OVER_GRPC, name=SHM, format=_FORM, of=GRPC),
    _limit(MEMCPY, "none", shm.Memcpy),
    _limit(LOOPBACK, "TCP", shm.Loopback),
    Route(ALONE, "", "onnxruntime:8000", _ALONE, behind_edge=False),
)
