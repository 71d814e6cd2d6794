"""How long a request would wait for those before it, and its refusal on arrival where that is too long.

An answer that comes too late helps nobody and delays all behind it: a queue is bounded in time, not in length alone.
"""

import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from gateways.core.errors import ServeError, Status
from gateways.core.serving import ServingError

DEFAULT_S = 5.0
"""16 callers with batches of 8 wait 3 s on two slow cores: they are a load that studies make, and not too much."""
RECENT = 64
"""How many requests tell what an image takes."""


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
    """The images that a server works on or that wait for it, and how fast they have lately come out of it.

    The time of an image is the time between two requests that leave a line in which somebody stands, over the images of
    the second. (Not a request's own time over those before it: forty that come together each find few and take long.)
    """

    def __init__(self) -> None:
        self.images = 0
        self._took_s = deque[float](maxlen=RECENT)
        self._counts = deque[int](maxlen=RECENT)
        self._since_s = 0.0  # when the last one left, or the first came
        self._max_wait_s = max_wait_s()

    @contextmanager
    def join(self, images: int, timeout: float | None = None) -> Iterator[None]:
        """Stand in the line while the body runs. Raises ServeError, OVERLOADED, if those before would take longer than
        MAX_WAIT_S, or than the `timeout` of the client. Who finds nobody is always taken."""
        wait_s = self.images * self._image_s() if self.images else 0.0
        limit_s = self._max_wait_s if timeout is None else min(timeout, self._max_wait_s)
        if wait_s > limit_s:
            waiting = f"{self.images} images are before it, for about {wait_s:.1f} s, and {limit_s:.3g} s is the limit"
            raise ServeError(Status.OVERLOADED, f"{waiting}: send this again in a second")
        if not self.images:
            self._since_s = time.monotonic()
        self.images += images
        try:
            yield
            now_s = time.monotonic()
            self._took_s.append(now_s - self._since_s)
            self._counts.append(images)
            self._since_s = now_s
        finally:
            self.images -= images

    def _image_s(self) -> float:
        """Without the longest time, where there are others: one hang or restart says little of the next request."""
        took_s, images = sum(self._took_s), sum(self._counts)
        if len(self._took_s) > 1:
            longest_s = max(self._took_s)
            took_s -= longest_s
            images -= self._counts[self._took_s.index(longest_s)]
        return took_s / max(1, images)
