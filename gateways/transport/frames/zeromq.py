"""Frames over ZeroMQ on an IPC socket, as bytes or in shared memory: a REP socket in a thread of its own.

    [{"width", "height"}, the frame's bytes]   -> [{"cpu_ms"}, the changed frame's bytes]
    [{"width", "height", "slot": "<name>"}]    -> [{"cpu_ms"}]
    anything else                              -> [{"error": {"code", "message"}}], with gRPC's names of the codes

A *slot* is a file of twice the frame's size that the client makes in the shared folder: first the frame, then room for
the changed one. The server keeps it mapped, so the client may unlink it after the first answer. Its memory is freed
when both sides have ended.
"""

import json
import logging
import mmap
import os
import re
import stat
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import zmq

from gateways.core.errors import ServeError, Status, told
from gateways.transport.frames import SOCKET
from gateways.transport.frames.frame import Usage, change, pixels, size_of

log = logging.getLogger(__name__)

MAX_HEAD = 1024
MAX_PART = 16 * 1024 * 1024
"""ZeroMQ ends the connection of a client whose message has a larger part."""
MAX_SLOTS = 4
"""Slots mapped at the same time. A further one replaces the least recently used."""
NAME = re.compile(r"[a-z0-9]{8,64}")
WAKE_MS = 200
"""How often the thread checks whether to stop."""


class Slots:
    """The mapped slots."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mapped: OrderedDict[str, mmap.mmap] = OrderedDict()

    def change(self, name: object, width: object, height: object) -> None:
        """Write the changed frame of a slot beside the frame. Raises ServeError."""
        size = size_of(width, height)
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ServeError(Status.INVALID, "slot is not a valid name: send 8 to 64 lower-case letters and digits")
        memory = self._mapped.get(name) or self._map(name)
        self._mapped.move_to_end(name)
        # A file that is truncated before this line is refused. One that is truncated while it is written ends this
        # process.
        if len(memory) != 2 * size or memory.size() != 2 * size:
            del self._mapped[name]
            text = f"slot {name} has {memory.size()} bytes: a frame of {width} x {height} needs {2 * size}, for both"
            raise ServeError(Status.INVALID, text)
        frame = pixels(memoryview(memory)[:size], width, height)
        np.invert(frame, out=pixels(memoryview(memory)[size:], width, height))

    def _map(self, name: str) -> mmap.mmap:
        try:
            opened = os.open(self._folder / name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            text = f"slot {name} cannot be opened ({error.strerror}): make the file in the shared folder, mode 0666"
            raise ServeError(Status.NOT_FOUND, text) from None
        try:
            about = os.fstat(opened)
            if not stat.S_ISREG(about.st_mode) or not about.st_size or about.st_blocks * 512 < about.st_size:
                text = f"slot {name} has no memory: reserve all of the file (posix_fallocate)"
                raise ServeError(Status.INVALID, text)
            memory = mmap.mmap(opened, 0)
        finally:
            os.close(opened)
        if len(self._mapped) == MAX_SLOTS:
            self._mapped.popitem(last=False)
        self._mapped[name] = memory
        return memory


class ZmqServer(threading.Thread):
    """Serves from start() to stop()."""

    def __init__(self, folder: Path, usage: Usage) -> None:
        super().__init__(name="zmq", daemon=True)
        self._slots = Slots(folder)
        self._usage = usage
        self._ended = threading.Event()
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.REP)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MAX_PART)
        self._socket.setsockopt(zmq.RCVTIMEO, WAKE_MS)
        self._socket.bind(f"ipc://{folder / SOCKET}")
        os.chmod(folder / SOCKET, 0o666)  # the load runs as the owner of its results

    def run(self) -> None:
        with self._context, self._socket:
            while not self._ended.is_set():
                try:
                    parts = self._socket.recv_multipart(copy=False)
                except zmq.Again:
                    continue
                self._socket.send_multipart(self.answer(parts), copy=False)

    def stop(self) -> None:
        """Within WAKE_MS."""
        self._ended.set()
        self.join()

    def answer(self, parts: Sequence[zmq.Frame]) -> Sequence[bytes | memoryview]:
        """The parts of an answer; never raises."""
        try:
            asked = _head(parts[0])
            width, height = asked.get("width"), asked.get("height")
            changed = []
            if "slot" in asked:
                self._slots.change(asked["slot"], width, height)
            elif len(parts) == 2:
                changed = [change(pixels(parts[1].buffer, width, height)).data]
            else:
                raise ServeError(Status.INVALID, f"{len(parts)} parts: send a JSON head, and the frame or a slot")
            return [b'{"cpu_ms": %.3f}' % self._usage.spent_ms(), *changed]
        except Exception as error:
            failure = told(error, log)
            return [json.dumps({"error": {"code": failure.status.grpc, "message": failure.message}}).encode()]


def _head(part: zmq.Frame) -> dict[str, object]:
    try:
        found = json.loads(bytes(part.buffer)) if len(part.buffer) <= MAX_HEAD else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        text = f"the first part is not a JSON object of at most {MAX_HEAD} bytes: send width, height and slot"
        raise ServeError(Status.INVALID, text)
    return found
