"""BentoML: `bentoml serve servers.peers.bentoml:Peer`.

Its own documentation, for throughput:

- batchable: https://docs.bentoml.com/en/latest/get-started/adaptive-batching.html, whose size and window these are.
- workers, on a CPU as many as there are cores:
  https://docs.bentoml.com/en/latest/build-with-bentoml/parallelize-requests.html. Here COMPUTE_THREADS, with one thread
  each.
- concurrency, equal to the batch: https://docs.bentoml.com/en/latest/guides/concurrency.html.

A batchable endpoint answers with an array, without an object around it.
"""

import bentoml
import numpy as np

from gateways.core.image import MAX_IMAGES
from gateways.core.threads import compute_threads
from servers.peers import PATH, PORT
from servers.peers.embedder import Embedder

WORKERS = compute_threads()


@bentoml.service(
    workers=WORKERS,
    traffic={"timeout": 30, "concurrency": MAX_IMAGES},
    http={"port": PORT},
    logging={"access": {"enabled": False}},
)
class Peer:
    """The model, once in each worker."""

    def __init__(self) -> None:
        self._embedder = Embedder(threads=1, instances=WORKERS)

    @bentoml.api(route=PATH, batchable=True, max_batch_size=MAX_IMAGES, max_latency_ms=1000)
    def embed(self, images: list[str]) -> np.ndarray:  # type: ignore[type-arg]  # BentoML reads it
        return self._embedder.embeddings([self._embedder.tensor(one) for one in images])
