"""What is the same in every peer."""

import os
from collections.abc import Sequence

import numpy as np
import orjson

from gateways.core.manifest import Manifest
from gateways.core.serving import ARTIFACTS, Serving, ServingError
from gateways.core.text import unbase64
from gateways.upstreams.torchscript import Model, Tensor, pick_device
from servers import ENGINE


class Embedder:
    """The served model in this process: from a request's message to the bytes of its answer."""

    def __init__(self, threads: int | None = None, instances: int = 1) -> None:
        """`threads` compute a batch, by default COMPUTE_THREADS; `instances` of the model are in as many processes.
        Raises ServingError."""
        if threads:
            os.environ["COMPUTE_THREADS"] = str(threads)
        serving = Serving.load()
        if not serving.images:
            raise ServingError(serving.no_photos)
        manifest = Manifest.load(ARTIFACTS, serving.model)
        self._preprocess = manifest.preprocess
        self._about = {"model": manifest.model, "weights": manifest.weights}
        self._model = Model(manifest.directory / "model.pt", manifest, pick_device())
        ENGINE.write_bytes(orjson.dumps(self._model.engine | {"instances": instances}))

    def tensor(self, text: str) -> Tensor:
        """[3, H, W] of a photo in base64."""
        return self._preprocess.tensor(unbase64(text, "image"), channels_last=True)

    def embeddings(self, tensors: Sequence[Tensor]) -> Tensor:
        """[N, D] of these, in order."""
        return np.stack([one.embedding for one in self._model.tensors(tensors)])

    def answers(self, tensors: Sequence[Tensor]) -> list[bytes]:
        """The JSON for each of these."""
        found = [{"embeddings": [one], **self._about} for one in self.embeddings(tensors)]
        return [orjson.dumps(one, option=orjson.OPT_SERIALIZE_NUMPY) for one in found]
