"""Where a request's time went, in milliseconds, as a Server-Timing header (HTTP) or trailing metadata (gRPC).

Stages: `preprocess` (JPEG decode, resize, normalise), `queue`, `compute`, `encode`, `backend` (a gateway's call to the
server behind it), `parse` and `decode` (a Seldon message, its array), and `total`, from the creation of the Stages to
the header.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class Stages:
    """The stages of one request, in the order they were first seen."""

    def __init__(self) -> None:
        self._start = perf_counter()
        self._ms: dict[str, float] = {}

    def add(self, name: str, ms: float) -> None:
        """Add a duration that was measured elsewhere; the same stage twice is summed."""
        self._ms[name] = self._ms.get(name, 0.0) + ms

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure the body, also when it raises: a failed decode took its time too."""
        start = perf_counter()
        try:
            yield
        finally:
            self.add(name, (perf_counter() - start) * 1e3)

    def until_now(self) -> dict[str, float]:
        """Each stage in milliseconds, and `total`."""
        return {**self._ms, "total": (perf_counter() - self._start) * 1e3}

    def header(self) -> str:
        """E.g. `preprocess;dur=0.812, queue;dur=0.100, compute;dur=15.200, total;dur=16.900`."""
        return ", ".join(f"{name};dur={ms:.3f}" for name, ms in self.until_now().items())
