"""A frame, and the work on it: every byte is inverted. The work is the same for every transport."""

import threading
import time
from collections.abc import Buffer

import numpy as np
from numpy.typing import NDArray

from gateways.core.errors import ServeError, Status

MAX_PIXELS = 1920 * 1080
CHANNELS = 3

Pixels = NDArray[np.uint8]
"""[height, width, 3]: red, green, blue."""


def size_of(width: object, height: object) -> int:
    """The size in bytes of a frame of this width and height. Raises ServeError if the frame is too large."""
    if type(width) is not int or type(height) is not int or width < 1 or height < 1 or width * height > MAX_PIXELS:
        text = f"a frame of {width!r} x {height!r}: send whole numbers, 1 to {MAX_PIXELS} pixels (1920 x 1080)"
        raise ServeError(Status.INVALID, text[:200])
    return width * height * CHANNELS


def pixels(data: Buffer, width: object, height: object) -> Pixels:
    """The bytes as a frame, not copied. Raises ServeError."""
    wanted, found = size_of(width, height), memoryview(data).nbytes
    if found != wanted:
        text = f"{found} bytes for a frame of {width} x {height}: send {wanted}, red, green and blue of each pixel"
        raise ServeError(Status.INVALID, text)
    return np.frombuffer(data, np.uint8).reshape(height, width, CHANNELS)  # type: ignore[call-overload]


def change(frame: Pixels) -> Pixels:
    """A new frame with every byte inverted."""
    return np.invert(frame)


class Usage:
    """Counts frames, and the CPU time of this process from one answer to the next. That includes the work of its
    libraries before our code gets the request."""

    def __init__(self) -> None:
        self.frames = 0
        self._last_s = time.process_time()
        self._lock = threading.Lock()

    def spent_ms(self) -> float:
        """Count one more frame; returns the CPU time since the previous answer."""
        with self._lock:
            now = time.process_time()
            spent, self._last_s = now - self._last_s, now
            self.frames += 1
        return spent * 1e3
