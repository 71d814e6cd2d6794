"""The rows of study `shm`: memory shared with a small real server of KServe's three methods, and the limits."""

import errno
import itertools
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2 as kserve

from locustfiles import payloads
from locustfiles.clients import CallError, Endpoint, Payload, shm
from locustfiles.clients.grpc import GrpcClient
from locustfiles.payloads import Images
from locustfiles.routes import ROUTES
from locustfiles.study_routes.shm import ALONE, BYTES, GRPC, ROWS, SHM, encode, usual
from servers.triton import alone
from servers.triton.backends.onnxruntime.signature import Signature, Tensor
from tests.unit.locust_servers import WIDTH
from tests.unit.tiny_artifacts import TINY, tiny

PHOTOS = ("colosseum_224x224", "lake_224x224")
SERVICE = shm.SERVICE.strip("/")


class Server:
    """Answers with the first WIDTH numbers of each image; in memory where it is told to, as Triton does."""

    def __init__(self) -> None:
        self.regions: dict[str, mmap.mmap] = {}
        self.longest = 0
        """Bytes of a message of ModelInfer that named a region."""
        self.used: set[str] = set()
        """Names of regions that a call named."""
        self.refuses = False
        self._grpc = grpc.server(ThreadPoolExecutor(2))
        methods: dict[str, Callable[[bytes, grpc.ServicerContext], bytes]] = {
            "SystemSharedMemoryRegister": self.register,
            "SystemSharedMemoryUnregister": self.unregister,
            "ModelInfer": self.infer,
        }
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            name: grpc.unary_unary_rpc_method_handler(method) for name, method in methods.items()
        }
        self._grpc.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        self.address = f"127.0.0.1:{self._grpc.add_insecure_port('127.0.0.1:0')}"
        self._grpc.start()

    def close(self) -> None:
        self._grpc.stop(0)

    def register(self, body: bytes, context: grpc.ServicerContext) -> bytes:
        if self.refuses:
            context.abort(grpc.StatusCode.INTERNAL, "Unable to open shared memory region")
        asked = kserve.SystemSharedMemoryRegisterRequest.FromString(body)
        with open(f"/dev/shm{asked.key}", "rb+") as opened:
            self.regions[asked.name] = mmap.mmap(opened.fileno(), asked.byte_size)
        return b""

    def unregister(self, body: bytes, context: grpc.ServicerContext) -> bytes:
        self.regions.pop(kserve.SystemSharedMemoryUnregisterRequest.FromString(body).name).close()
        return b""

    def infer(self, body: bytes, context: grpc.ServicerContext) -> bytes:
        asked = kserve.ModelInferRequest.FromString(body)
        (tensor,), (wanted,) = asked.inputs, asked.outputs
        if asked.raw_input_contents:
            sent = asked.raw_input_contents[0]
        else:
            self.longest = max(self.longest, len(body))
            region, start, length = _place(tensor.parameters)
            self.used.add(region)
            sent = self.regions[region][start : start + length]
        answer = np.frombuffer(sent, "<f4").reshape(tensor.shape[0], -1)[:, :WIDTH].tobytes()
        said = kserve.ModelInferResponse()
        said.outputs.add(name=wanted.name, datatype="FP32", shape=[tensor.shape[0], WIDTH])
        if "shared_memory_region" in wanted.parameters:
            region, start, length = _place(wanted.parameters)
            self.regions[region][start : start + length] = answer
        else:
            said.raw_output_contents.append(answer)
        return said.SerializeToString()


def _place(said: Mapping[str, kserve.InferParameter]) -> tuple[str, int, int]:
    """Region, first byte, and how many."""
    names = "shared_memory_offset", "shared_memory_byte_size"
    start, length = (said[name].int64_param for name in names)
    return said["shared_memory_region"].string_param, start, length


@pytest.fixture
def server() -> Iterator[Server]:
    with closing(Server()) as server:
        yield server


@pytest.fixture
def images(tmp_path: Path) -> Images:
    return Images(PHOTOS, tiny(tmp_path) / TINY / "tensors", TINY)


@contextmanager
def lent(server: Server, images: Images, users: int = 1) -> Iterator[list[shm.SharedMemoryClient]]:
    to = Endpoint(server.address, ROUTES[GRPC].path)
    with shm.lent(to, encode(images), users, server=server.address, usual=usual), ExitStack() as stack:
        yield [stack.enter_context(closing(shm.SharedMemoryClient(to, usual=usual))) for _ in range(users)]


def left() -> list[str]:
    return [path.name for path in shm.MEMORY.glob("fiveway-*")]


def test_the_tensor_and_the_answer_are_in_memory(server: Server, images: Images) -> None:
    """The message has names alone, and the answer is onnx-grpc's; nobody else finds the memory by a file, and it is
    given back."""
    with lent(server, images) as (shared,), closing(GrpcClient(Endpoint(server.address, ROUTES[GRPC].path))) as usual:
        wanted = ROUTES[GRPC].format.read(usual.send(ROUTES[GRPC].format.encode(images)))
        for turn in (images, replace(images, names=PHOTOS[::-1])):
            answer = shared.send(encode(turn))
            ROWS[SHM].format.check(answer, len(PHOTOS))
            found = ROWS[SHM].format.read(answer)
            assert found.tolist() == (wanted if turn is images else wanted[::-1]).tolist()
        assert 0 < server.longest < 1000
        assert len(server.regions) == 1
        assert left() == []
    assert server.regions == {}


def test_users_have_memory_of_their_own(server: Server, images: Images) -> None:
    """What a client gives back is the next one's."""
    turned = replace(images, names=PHOTOS[::-1])
    with lent(server, images, 2) as (first, second):
        wanted = ROWS[SHM].format.read(first.send(encode(images))).tolist()
        assert ROWS[SHM].format.read(second.send(encode(turned))).tolist() == wanted[::-1]
        assert len(server.used) == 2
        first.close()
        with closing(shm.SharedMemoryClient(Endpoint(server.address, ROUTES[GRPC].path), usual=usual)) as third:
            assert ROWS[SHM].format.read(third.send(encode(images))).tolist() == wanted
        assert len(server.used) == 2


def test_a_server_without_this_memory_is_told_apart(server: Server, images: Images) -> None:
    """Equal failures have equal texts, without the random name; nothing is left."""
    server.refuses = True
    with pytest.raises(CallError, match=r"^INTERNAL: .*scripts/bench shm"), lent(server, images):
        pass
    assert left() == []


def test_memory_that_is_full_is_an_error(server: Server, images: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    """And does not end the process later, when it writes there. What others have is given back."""
    real, turns = os.posix_fallocate, itertools.count()

    def fills(*of: int) -> None:
        if next(turns):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*of)

    monkeypatch.setattr(os, "posix_fallocate", fills)
    with pytest.raises(CallError, match=r"^RESOURCE_EXHAUSTED: .*/dev/shm"), lent(server, images, 2):
        pass
    assert left() == []
    assert server.regions == {}


@pytest.mark.parametrize("name", BYTES)
def test_a_limit_takes_every_byte(name: str, images: Images) -> None:
    """Copied, or at another process; more and fewer than its buffer holds."""
    form = ROWS[name].format
    assert form.client
    with closing(form.client(Endpoint("", ""))) as limit:
        for body in (b"", b"1" * 1000, bytes(3 << 20), encode(images).body):
            answer = limit.send(Payload(body, 1))
            form.check(answer, 1)
            assert form.read(answer) == len(body)


class Means:
    """In the place of ONNX Runtime: the mean of each channel. It notes how many items a batch had."""

    signature = Signature((Tensor("image", "TYPE_FP32", (-1, 3, 224, 224)),), ())

    def __init__(self) -> None:
        self.batches: list[int] = []

    def run(self, outputs: Sequence[str], feeds: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
        self.batches.append(len(feeds["image"]))
        return [feeds["image"].mean((2, 3))]


def test_the_model_alone_has_the_tensor_from_the_first_call_on(images: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later call is answered the same, and sends eight bytes; another tensor is sent again. A server that is gone is
    an error of the call."""
    form, payload = ROWS[ALONE].format, encode(images)
    wanted = payloads.tensor(images).mean((2, 3))
    with alone.Server(cast("Any", engine := Means()), 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        monkeypatch.setattr(alone, "PORT", port)
        alone.healthy()
        assert form.client
        with closing(form.client(Endpoint(f"127.0.0.1:{port}", ""))) as asks:
            for one in (payload, payload, encode(replace(images, names=PHOTOS[:1]))):
                answer = asks.send(one)
                form.check(answer, one.images)
                np.testing.assert_array_equal(form.read(answer), wanted[: one.images])
        server.shutdown()
    assert engine.batches == [1, len(PHOTOS), len(PHOTOS), 1]
    with pytest.raises(CallError, match="refused"):
        form.client(Endpoint(f"127.0.0.1:{port}", "")).send(payload)
