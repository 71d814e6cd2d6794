"""The clients of the study `frames`: a camera's frame there, the changed one back, and read.

Unlike other clients they decode, encode and read a frame inside the clock of every call, because a video pipeline does
so (study_routes/frames.py). Only `carry` differs between them. Those of ZeroMQ block the process while they wait: they
are for one user.
"""

import base64
import binascii
import json
import math
import mmap
import os
import uuid
import zlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pybase64
import simplejpeg
import zmq
from fiveway.transport.v1 import frames_pb2 as pb
from numpy.typing import NDArray

from locustfiles.clients import BOTH, DEADLINE_S, START_TRANSPORT, UNARY, Answer, CallError, Endpoint, Payload
from locustfiles.clients.http import HttpClient

CHANNELS = 3
QUALITY, SUBSAMPLING = 95, "420"
"""Of what the row `jpeg` sends: OpenCV's defaults, which the published comparison has."""
BOUNDARY = "frame-ecb1f4e7"
HUGE_PAGE = 2 << 20
"""Bytes. Memory of whole ones is aligned to them."""

Pixels = NDArray[np.uint8]
"""[height, width, 3]: red, green, blue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed(Answer):
    """The changed frame as it arrived, and the CRC that it should have. Both frames stay valid until the client's next
    call."""

    frame: Pixels
    sent: Pixels
    crc32: int
    """Of the frame: every byte of it was read."""
    wanted: int
    """The CRC-32 of the camera's frame, inverted."""


def folder() -> Path:
    """Shared with the server: compose/transport.yaml."""
    return Path(os.environ.get("FRAMES", "/frames"))


def own_memory(*shape: int) -> Pixels:
    """Zeroed private memory, in huge pages like the shared memory (numpy asks for them from 4 MiB on)."""
    size = math.prod(shape)
    memory = mmap.mmap(-1, -(-size // HUGE_PAGE) * HUGE_PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # this kernel has no huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8, size).reshape(shape)


class FrameClient(ABC):
    """Decodes a camera's frame, has it changed, reads and draws the changed one: that is a call."""

    def __init__(self, to: Endpoint) -> None:
        self._to = to
        self._memory: dict[str, Pixels] = {}

    def send(self, payload: Payload) -> Changed:
        height, width = int(payload.headers["height"]), int(payload.headers["width"])
        frame = self.room(height, width)
        simplejpeg.decode_jpeg(payload.body, buffer=frame)
        changed, headers = self.carry(frame)
        crc32 = zlib.crc32(changed)
        self.draw(changed)
        return Changed(b"", headers, frame=changed, sent=frame, crc32=crc32, wanted=int(payload.headers["crc32"]))

    def room(self, height: int, width: int) -> Pixels:
        """Where the camera's frame is decoded to."""
        return self.memory("room", height, width, CHANNELS)

    def memory(self, use: str, *shape: int) -> Pixels:
        """The same for every frame of one size."""
        found = self._memory.get(use)
        if found is None or found.shape != shape:
            found = self._memory[use] = own_memory(*shape)
        return found

    def draw(self, frame: Pixels) -> None:
        """Into a window's memory, headless: 32 bits a pixel; blue, green, red and one unused."""
        screen = self.memory("screen", *frame.shape[:2], 4)
        for channel in range(CHANNELS):
            screen[:, :, 2 - channel] = frame[:, :, channel]

    @abstractmethod
    def carry(self, frame: Pixels) -> tuple[Pixels, Mapping[str, Any]]:
        """The changed frame, and headers that say what the server took for it; raises CallError."""

    @abstractmethod
    def close(self) -> None: ...


class InProcess(FrameClient):
    """The baseline: no server."""

    def carry(self, frame: Pixels) -> tuple[Pixels, Mapping[str, Any]]:
        return np.invert(frame, out=self.memory("changed", *frame.shape)), {}

    def close(self) -> None:
        pass


class ZmqFrames(FrameClient):
    """ZeroMQ, REQ to REP, over an IPC socket in the shared folder: a JSON head and the frame's bytes, without a copy of
    our own on either side."""

    def __init__(self, to: Endpoint) -> None:
        super().__init__(to)
        self._path = folder() / to.path
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None

    def carry(self, frame: Pixels) -> tuple[Pixels, Mapping[str, Any]]:
        self.post({"width": frame.shape[1], "height": frame.shape[0]}, frame)
        head, changed = self.collect()
        return np.frombuffer(changed.buffer, np.uint8).reshape(frame.shape), _cpu(head)

    def post(self, head: Mapping[str, object], *parts: Pixels) -> None:
        """A request; its answer has to be collected before the next. Raises CallError."""
        if self._context is None:
            if not self._path.is_socket():  # a send would wait for it
                raise CallError(f"ZeroMQ: no server at {self._path}: {START_TRANSPORT}")
            self._context = zmq.Context()
            self._socket = self._context.socket(zmq.REQ)
            self._socket.linger = 0
            self._socket.rcvtimeo = self._socket.sndtimeo = int(DEADLINE_S * 1e3)
            self._socket.connect(f"ipc://{self._path}")
        with self._answered():
            self._socket.send_multipart([json.dumps(head).encode(), *parts], copy=False)

    def collect(self) -> list[zmq.Frame]:
        """The answer, of as many parts as the request; raises CallError."""
        with self._answered():
            answer: list[zmq.Frame] = self._socket.recv_multipart(copy=False)
        about = json.loads(answer[0].bytes)
        if "error" in about:
            raise CallError(f"{about['error']['code']}: {about['error']['message']}")
        return answer

    @contextmanager
    def _answered(self) -> Iterator[None]:
        try:
            yield
        except zmq.ZMQError as error:
            self.close()  # a REQ socket that waits for an answer sends nothing else
            raise CallError(f"ZeroMQ: no answer in {DEADLINE_S:g} s from {self._path}: {error}") from error

    def close(self) -> None:
        if self._context is not None:
            self._socket.close()
            self._context.term()
            self._context = None


class Slot:
    """A file in memory that both sides have mapped: half of it for a frame, half for the changed one."""

    def __init__(self, height: int, width: int) -> None:
        """Raises CallError."""
        size = height * width * CHANNELS
        self._path = folder() / uuid.uuid4().hex
        try:
            with self._path.open("x+b") as file:
                os.fchmod(file.fileno(), 0o666)
                os.posix_fallocate(file.fileno(), 0, 2 * size)
                memory = mmap.mmap(file.fileno(), 2 * size)
        except OSError as error:
            self._path.unlink(missing_ok=True)
            where = f"{self._path}: is the volume `frame-memory` mounted?"
            raise CallError(f"shared memory: {error.strerror}: {where}") from error
        self._linked = True
        self.frame, self.changed = (
            np.frombuffer(memory, np.uint8, size, start).reshape(height, width, CHANNELS) for start in (0, size)
        )
        self.head = {"width": width, "height": height, "slot": self._path.name}

    def unlink(self) -> None:
        """Unlink the file: its memory is freed when both sides have ended."""
        if self._linked:
            self._path.unlink(missing_ok=True)
            self._linked = False


class SharedMemory(ZmqFrames):
    """The frame stays where it was decoded, in a slot. Over ZeroMQ goes a head that names it."""

    _kept = 1
    """Slots, which take turns: the last has this call's frame, and the first of two that of the call before."""

    def __init__(self, to: Endpoint) -> None:
        super().__init__(to)
        self._slots: deque[Slot] = deque()

    def room(self, height: int, width: int) -> Pixels:
        self._slots.rotate(-1)
        if self._slots and self._slots[-1].frame.shape[:2] != (height, width):
            self.forget()
        if len(self._slots) < self._kept:
            self._slots.append(Slot(height, width))
        return self._slots[-1].frame

    def carry(self, frame: Pixels) -> tuple[Pixels, Mapping[str, Any]]:
        try:
            changed, head = self.exchange(self._slots[-1])
        except CallError:
            self.forget()  # another server does not know the slots
            raise
        changed.unlink()  # the server has it mapped
        return changed.changed, _cpu(head)

    def exchange(self, slot: Slot) -> tuple[Slot, zmq.Frame]:
        """Have this slot's frame changed; the slot with the changed frame, and the head of its answer."""
        self.post(slot.head)
        (head,) = self.collect()
        return slot, head

    def close(self) -> None:
        self.forget()
        super().close()

    def forget(self) -> None:
        """The memory."""
        while self._slots:
            self._slots.pop().unlink()


class DoubleBuffered(SharedMemory):
    """One frame ahead, with two slots: a call decodes a frame and draws the one before, which the server changed in the
    meantime. The first call has none before it: it waits for its own frame, which is then changed once more.
    """

    _kept = 2
    _before: Changed | None = None
    """The call before, whose frame the server has."""

    def send(self, payload: Payload) -> Changed:
        call = super().send(payload)
        before, self._before = self._before or call, call
        return replace(call, sent=before.sent, wanted=before.wanted)

    def exchange(self, slot: Slot) -> tuple[Slot, zmq.Frame]:
        changed = self._slots[0] if self._before else slot
        if not self._before:
            self.post(slot.head)
        (head,) = self.collect()
        self.post(slot.head)
        return changed, head

    def forget(self) -> None:
        if self._before:  # its answer was not collected
            self._before = None
            ZmqFrames.close(self)
        super().forget()


class GrpcFrames(FrameClient):
    """Our typed message, in a call for each frame (UNARY) or on an open stream (BOTH)."""

    def __init__(self, messages: str, to: Endpoint) -> None:
        # It wants gevent's patches, which only the load's processes have.
        from locustfiles.clients.grpcio import CLIENTS

        super().__init__(to)
        self._request, self._response = MESSAGES[messages]
        self._client = CLIENTS[messages](to)

    def carry(self, frame: Pixels) -> tuple[Pixels, Mapping[str, Any]]:
        height, width, _ = frame.shape
        request = self._request(width=width, height=height, pixels=frame.tobytes())
        answer = self._response.FromString(self._client.send(Payload(request.SerializeToString(), 1)).body)
        return np.frombuffer(answer.pixels, np.uint8).reshape(frame.shape), _timing(answer.cpu_ms)

    def close(self) -> None:
        self._client.close()


MESSAGES: Mapping[str, Any] = {
    UNARY: (pb.ChangeRequest, pb.ChangeResponse),
    BOTH: (pb.ChangeStreamRequest, pb.ChangeStreamResponse),
}


class Form(NamedTuple):
    """A way to write a frame as an HTTP body, and to read the answer's: equal to the server's."""

    write: Callable[[Pixels], bytes]
    read: Callable[[bytes], Any]


def _text(write: Callable[[Pixels], str], read: Callable[[str], Any]) -> Form:
    """As text in JSON."""

    def message(frame: Pixels) -> bytes:
        height, width, _ = frame.shape
        return json.dumps({"width": width, "height": height, "frame": write(frame)}).encode()

    return Form(message, lambda body: read(json.loads(body)["frame"]))


def _jpeg(frame: Pixels) -> str:
    return pybase64.b64encode_as_string(simplejpeg.encode_jpeg(frame, quality=QUALITY, colorsubsampling=SUBSAMPLING))


def multipart(frame: Pixels) -> bytes:
    """With width, height and the file `frame`."""
    disposition = "content-disposition: form-data; name="
    fields = "".join(
        f'--{BOUNDARY}\r\n{disposition}"{name}"\r\n\r\n{number}\r\n'
        for name, number in (("width", frame.shape[1]), ("height", frame.shape[0]))
    )
    file = f'--{BOUNDARY}\r\n{disposition}"frame"; filename="frame.rgb"\r\ncontent-type: image/raw\r\n\r\n'
    return b"".join([(fields + file).encode(), frame.data, f"\r\n--{BOUNDARY}--\r\n".encode()])


_decoded = partial(pybase64.b64decode, validate=True)
BASE64 = _text(lambda frame: base64.b64encode(frame).decode(), partial(base64.b64decode, validate=True))
PYBASE64 = _text(lambda frame: pybase64.b64encode_as_string(frame.reshape(-1)), _decoded)
HEX = _text(lambda frame: binascii.hexlify(frame).decode(), binascii.unhexlify)
JPEG = _text(_jpeg, lambda text: simplejpeg.decode_jpeg(_decoded(text)))
MULTIPART = Form(multipart, lambda body: body)


class HttpFrames(FrameClient):
    """Over HTTP/1.1 on a kept connection."""

    def __init__(self, form: Form, to: Endpoint) -> None:
        super().__init__(to)
        self._form, self._client = form, HttpClient(to)

    def carry(self, frame: Pixels) -> tuple[Pixels, Mapping[str, Any]]:
        answer = self._client.send(Payload(self._form.write(frame), 1))
        return np.frombuffer(self._form.read(answer.body), np.uint8).reshape(frame.shape), answer.headers

    def close(self) -> None:
        self._client.close()


def _cpu(head: zmq.Frame) -> Mapping[str, str]:
    return _timing(json.loads(head.bytes)["cpu_ms"])


def _timing(cpu_ms: float) -> Mapping[str, str]:
    """As our HTTP servers say it."""
    return {"server-timing": f"cpu;dur={cpu_ms:.3f}"}
