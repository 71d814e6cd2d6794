"""The predictor that answers now. It follows /artifacts/serving.json: the new model is loaded beside the old one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

from gateways.core.errors import ServeError, Status
from gateways.core.manifest import Manifest
from gateways.core.serving import Serving, Users, follow, followed
from gateways.upstreams.torch import TorchPredictor, give_back_memory


class Served:
    """Use as `async with Served(artifacts, serving)`. `predictor` is None while the served model takes no photos."""

    def __init__(self, artifacts: Path, serving: Serving) -> None:
        """Raises ServingError where the artefacts are not there."""
        self._artifacts = artifacts
        self.serving = serving
        self.predictor = self._predictor_of(serving)
        self._users = Users()

    async def __aenter__(self) -> Self:
        if self.predictor:
            await self.predictor.__aenter__()
        followed(self.serving)
        self._follower = asyncio.create_task(follow(self._artifacts, self.serving, self._switch))
        return self

    async def __aexit__(self, *error: object) -> None:
        self._follower.cancel()
        if self.predictor:
            await self.predictor.__aexit__(*error)

    @asynccontextmanager
    async def use(self) -> AsyncIterator[TorchPredictor]:
        """The predictor for one request, which it keeps to its end. NOT_FOUND while there is none."""
        if not (predictor := self.predictor):
            raise ServeError(Status.NOT_FOUND, self.serving.no_photos)
        with self._users.one():
            yield predictor

    def _predictor_of(self, serving: Serving) -> TorchPredictor | None:
        return TorchPredictor(Manifest.load(self._artifacts, serving.model)) if serving.images else None

    async def _switch(self, serving: Serving) -> None:
        """Load, then change over between two requests, then let go of the old one when its last request has ended."""
        new = self._predictor_of(serving)
        if new:
            await new.__aenter__()
        old, self.predictor, self.serving = self.predictor, new, serving
        users, self._users = self._users, Users()
        if old:
            await users.gone()
            await old.__aexit__()
            del old
            give_back_memory()
        followed(serving)
