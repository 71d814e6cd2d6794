"""How long a request would wait for those before it, and its refusal on arrival where that is too long.

An answer that comes too late helps nobody and delays all behind it: a queue is bounded in time, not in length alone.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gateways.core.errors import ServeError, Status
from gateways.core.serving import ServingError

DEFAULT_S = 5.0
"""16 callers with batches of 8 wait 3 s on two slow cores: they are a load that studies make, and not too much."""
SMOOTHING, STEP = 0.1, 2.0
"""The weight of the last request in the time that an image takes, and how many times longer it may be at most: one that
met a hang or a restart says little of the next."""


def max_wait_s() -> float:
    """MAX_WAIT_S, in seconds. Raises ServingError unless it is a positive number."""
    given = os.environ.get("MAX_WAIT_S") or str(DEFAULT_S)
    try:
        if 0 < (found := float(given)) < float("inf"):
            return found
    except ValueError:
        pass
    raise ServingError(f"MAX_WAIT_S is {given!r}: write seconds, like 5 or 0.5")


class Line:
    """The images that a server works on or that wait for it, and how long each has lately taken.

    By Little's law the time in the line over the images in it at the arrival is the time of one image.
    """

    def __init__(self) -> None:
        self.images = 0
        self._image_s = 0.0
        self._max_wait_s = max_wait_s()

    @contextmanager
    def join(self, images: int, timeout: float | None = None) -> Iterator[None]:
        """Stand in the line while the body runs. Raises ServeError, OVERLOADED, if those before would take longer than
        MAX_WAIT_S, or than the `timeout` of the client. Who finds nobody is always taken."""
        wait_s = self.images * self._image_s
        limit_s = self._max_wait_s if timeout is None else min(timeout, self._max_wait_s)
        if wait_s > limit_s:
            waiting = f"{self.images} images are before it, for about {wait_s:.1f} s, and {limit_s:.3g} s is the limit"
            raise ServeError(Status.OVERLOADED, f"{waiting}: send this again in a second")
        self.images += images
        ahead, begin = self.images, time.monotonic()
        try:
            yield
            took_s = (time.monotonic() - begin) / ahead
            known_s = self._image_s or took_s
            self._image_s = known_s + SMOOTHING * (min(took_s, STEP * known_s) - known_s)
        finally:
            self.images -= images
