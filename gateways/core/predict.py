"""The one call that every gateway makes, whatever stands behind it."""

from collections.abc import Sequence
from typing import Protocol

from gateways.core.answer import Prediction
from gateways.core.errors import ServeError, Status
from gateways.core.timing import Stages

MAX_IMAGES = 32


class Predictor(Protocol):
    """A model that answers JPEGs."""

    async def predict(self, jpegs: Sequence[bytes], *, stages: Stages, timeout: float | None) -> list[Prediction]:
        """One Prediction per JPEG, in order; its time goes into `stages`.

        `timeout` is in seconds; None waits as long as the backend's own limit. Cancelling the call drops its work.
        Raises ServeError; a message about one image names it as images[i].
        """
        ...


def check_count(count: int) -> None:
    """Refuse an empty request and one above the batch limit."""
    if not 1 <= count <= MAX_IMAGES:
        raise ServeError(Status.INVALID, f"{count} images: send 1 to {MAX_IMAGES} in one request")
