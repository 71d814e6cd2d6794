"""Tensors for Triton in memory that both have (system shared memory of KServe v2); the call itself says where they are.

The load makes the memory and registers it at the server, not through the edge, which has no method that registers. What
lets a call use it is its name, 128 random bits. Its file is gone once the server has it too. What a load process that
is killed has registered, the server keeps until it ends.
https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_shared_memory.md
"""

import mmap
import os
import secrets
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import gevent.socket
from tritonclient.grpc import service_pb2 as kserve

from locustfiles.clients import Answer, CallError, Endpoint, Payload
from locustfiles.clients.grpc import GrpcClient
from locustfiles.clients.sockets import connect
from locustfiles.clients.triton import SHAPE

MEMORY = Path("/dev/shm")
SERVICE = "/inference.GRPCInferenceService"
FAR = "INTERNAL: Triton and the load share no memory here: only ./scripts/bench shm makes them"


Usual = Callable[[Payload, bytes], Payload]
"""Of a payload and a tensor: the message of ModelInfer that has the tensor in it."""


@dataclass(frozen=True, slots=True)
class Region:
    """Memory of one user: a tensor, and behind it its answer."""

    name: str
    memory: mmap.mmap
    sent: int
    """Bytes of the tensor."""


_free: list[Region] = []
_tickets: tuple[int, int] | None = None
"""A pipe with a byte for each free region, its place in `_free`: load processes have both from the one that forks
them, and no two of their users take the same."""


@contextmanager
def lent(to: Endpoint, payload: Payload, users: int, *, server: str, usual: Usual) -> Iterator[None]:
    """While the body runs, so many SharedMemoryClients have memory for requests like this one, here and in processes
    that are forked. `server`: where it is registered, host:port. Raises CallError."""
    global _tickets
    with closing(GrpcClient(to)) as client:  # the answer says how long it is
        said = client.send(usual(payload, payload.body))
    (answer,) = kserve.ModelInferResponse.FromString(said.body).raw_output_contents
    with ExitStack() as stack:
        _tickets = os.pipe()
        for end in _tickets:
            os.set_blocking(end, False)
            stack.callback(os.close, end)
        stack.callback(_free.clear)
        for number in range(users):
            _free.append(stack.enter_context(_registered(server, len(payload.body), len(answer))))
            os.write(_tickets[1], bytes([number]))
        yield


@contextmanager
def _registered(server: str, sent: int, answered: int) -> Iterator[Region]:
    name, size = f"fiveway-{secrets.token_hex(16)}", sent + answered
    file = MEMORY / name
    try:
        with open(file, "xb+") as opened:
            os.fchmod(opened.fileno(), 0o666)  # the server is another user than the bench
            os.posix_fallocate(opened.fileno(), 0, size)  # else a full disk ends the process when it is written
            memory = mmap.mmap(opened.fileno(), size)
        asked = kserve.SystemSharedMemoryRegisterRequest(name=name, key=f"/{name}", byte_size=size)
        _tell(server, "SystemSharedMemoryRegister", asked.SerializeToString())
    except OSError as error:
        raise CallError(f"RESOURCE_EXHAUSTED: {MEMORY} has no room for a request: {error.strerror}") from error
    except CallError as error:
        raise CallError(FAR) from error
    finally:
        file.unlink(missing_ok=True)
    try:
        yield Region(name, memory, sent)
    finally:
        memory.close()
        gone = kserve.SystemSharedMemoryUnregisterRequest(name=name)
        with suppress(CallError):  # a server that is gone has none
            _tell(server, "SystemSharedMemoryUnregister", gone.SerializeToString())


def _tell(server: str, method: str, message: bytes) -> None:
    with closing(GrpcClient(Endpoint(server, f"{SERVICE}/{method}"))) as client:
        client.send(Payload(message, 1))


class SharedMemoryClient:
    """Copies a payload's tensor into its memory, calls, and copies the answer out: all on the clock. Use it within
    `lent`. A payload is one tensor's bytes.
    """

    def __init__(self, to: Endpoint, *, usual: Usual) -> None:
        self._calls, self._usual = GrpcClient(to), usual
        self._number: int | None = None

    def send(self, payload: Payload) -> Answer:
        if self._number is None:
            self._take(payload)  # in the warm-up
        self._memory[: self._sent] = payload.body
        answer = self._calls.send(self._request)
        (output,) = kserve.ModelInferResponse.FromString(answer.body).outputs
        return Answer(self._memory[self._sent :], {**answer.headers, SHAPE: tuple(output.shape)})

    def close(self) -> None:
        if self._number is not None and _tickets:
            os.write(_tickets[1], bytes([self._number]))
            self._number = None
        self._calls.close()

    def _take(self, payload: Payload) -> None:
        assert _tickets, "no memory is lent: see `lent`"
        (self._number,) = os.read(_tickets[0], 1)
        region = _free[self._number]
        self._memory, self._sent = region.memory, region.sent
        request = kserve.ModelInferRequest.FromString(self._usual(payload, b"").body)
        request.ClearField("raw_input_contents")
        spans = (request.inputs[0], 0, self._sent), (request.outputs[0], self._sent, len(self._memory) - self._sent)
        for one, start, length in spans:
            one.parameters["shared_memory_region"].string_param = region.name
            one.parameters["shared_memory_offset"].int64_param = start
            one.parameters["shared_memory_byte_size"].int64_param = length
        self._request = replace(payload, body=request.SerializeToString())


LENGTH = struct.Struct("<q")
"""How many bytes: of a request to the others below, and before their answer."""
_COUNT = """
import socket, struct, sys
one = socket.create_server(("127.0.0.1", 0))
print(one.getsockname()[1], flush=True)
client, _ = one.accept()
room = memoryview(bytearray(1 << 20))
while head := client.recv(8, socket.MSG_WAITALL):
    left = size = struct.unpack("<q", head)[0]
    while left:
        left -= client.recv_into(room[:left])
    client.sendall(struct.pack("<q", size))
"""


class Memcpy:
    """A payload's bytes, copied once within the process: no transport of bytes takes less."""

    def __init__(self, to: Endpoint) -> None:
        self._memory = bytearray()

    def send(self, payload: Payload) -> Answer:
        if len(payload.body) > len(self._memory):
            self._memory = bytearray(len(payload.body))
        self._memory[: len(payload.body)] = payload.body
        return Answer(LENGTH.pack(len(payload.body)))

    def close(self) -> None: ...


class Loopback:
    """A payload's bytes to another process over TCP on this machine, and eight back: what a socket takes by itself."""

    def __init__(self, to: Endpoint) -> None:
        self._other: subprocess.Popen[str] | None = None

    def send(self, payload: Payload) -> Answer:
        if not self._other:
            command = [sys.executable, "-I", "-S", "-c", _COUNT]
            self._other = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert self._other.stdout
            self._socket = connect(f"127.0.0.1:{int(self._other.stdout.readline())}")
        self._socket.sendall(LENGTH.pack(len(payload.body)))
        self._socket.sendall(payload.body)
        return Answer(self._socket.recv(LENGTH.size))

    def close(self) -> None:
        if self._other:
            self._socket.close()  # then it ends
            self._other.wait()


class Alone:
    """Asks servers/triton/alone.py, a process with nothing but ONNX Runtime. It has a tensor from its first call on, so
    a later one is what the model takes, eight bytes to ask for it, and the embeddings.
    """

    def __init__(self, to: Endpoint) -> None:
        self._to, self._sent = to, b""
        self._socket: gevent.socket.socket | None = None

    def send(self, payload: Payload) -> Answer:
        try:
            if not self._socket:
                self._to.on_connect()
                self._socket = connect(self._to.address)
                self._answers = self._socket.makefile("rb")
            tensor = b"" if payload.body is self._sent else payload.body
            self._socket.sendall(LENGTH.pack(len(tensor)) + tensor)
            self._sent = payload.body
            (length,) = LENGTH.unpack(self._answers.read(LENGTH.size))
            return Answer(self._answers.read(length), {SHAPE: (payload.images, -1)})
        except (OSError, struct.error) as error:
            raise CallError(f"ONNX Runtime alone: {error}") from error

    def close(self) -> None:
        if self._socket:
            self._answers.close()
            self._socket.close()
