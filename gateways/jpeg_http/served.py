"""The predictor for the served model."""

from pathlib import Path

from gateways.core import metrics
from gateways.core.errors import ServeError, Status
from gateways.core.manifest import Manifest
from gateways.core.serving import Serving
from gateways.upstreams.torch import TorchPredictor
from gateways.upstreams.torchscript import give_back_memory


class Served:
    """An Answering (gateways.core.following); it has no predictor while the served model takes no photos."""

    def __init__(self, artifacts: Path, serving: Serving) -> None:
        """Raises ServingError if the artefacts are absent."""
        self.serving = serving
        self._predictor = None
        if serving.images:
            self._predictor = TorchPredictor(Manifest.load(artifacts, serving.model), metrics.BATCH.observe)

    @property
    def predictor(self) -> TorchPredictor:
        """Raises ServeError, NOT_FOUND, while the served model takes no photos."""
        if not self._predictor:
            raise ServeError(Status.NOT_FOUND, self.serving.no_photos)
        return self._predictor

    @property
    def pending(self) -> int:
        """Images that wait or are computed."""
        return self._predictor.pending if self._predictor else 0

    async def ready(self, _: object) -> None:
        if self._predictor:
            await self._predictor.__aenter__()

    async def close(self) -> None:
        if self._predictor:
            await self._predictor.__aexit__()
            self._predictor = None
            give_back_memory()
