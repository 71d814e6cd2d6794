"""The one call that every upstream answers."""

from collections.abc import Sequence
from typing import Protocol

from gateways.core.answer import Prediction
from gateways.core.timing import Stages


class Upstream(Protocol):
    """A server that answers JPEGs."""

    @property
    def name(self) -> str: ...

    @property
    def max_top_k(self) -> int | None:
        """The most classes that it answers; None: all."""
        ...

    async def answered(self) -> int | None:
        """How many requests it has answered so far, whoever asked; None where it does not say."""
        ...

    async def predict(
        self, jpegs: Sequence[bytes], *, stages: Stages, timeout: float | None, top_k: int
    ) -> list[Prediction]:
        """One Prediction per JPEG, in order; its time goes into `stages`.

        `timeout` is in seconds; None waits as long as the upstream's own limit. Cancelling the call drops its work.
        Raises ServeError; a message about one image names it as images[i].
        """
        ...

    async def close(self) -> None: ...
