"""MLServer: `python3 -m servers.peers.mlserver`.

Its own documentation, for throughput:

- parallel_workers, as many as there are cores:
  https://docs.seldon.ai/seldon-core-2/user-guide/performance-tuning/models/inference. Here COMPUTE_THREADS, with one
  thread each.
- max_batch_size and max_batch_time, to be found by experiment:
  https://docs.seldon.ai/mlserver/user-guide/adaptive-batching. Here what LitServe has.

It speaks the Open Inference Protocol v2, over HTTP in JSON only: a photo is a text of a BYTES tensor [N, 1].
"""

import asyncio

from mlserver import MLModel, MLServer, ModelSettings, Settings
from mlserver.codecs import NumpyCodec, StringCodec
from mlserver.types import InferenceRequest, InferenceResponse
from mlserver.utils import install_uvloop_event_loop

from gateways.core.threads import compute_threads
from servers.peers import MODEL, PORT
from servers.peers.embedder import Embedder

WORKERS = compute_threads()


class Peer(MLModel):
    """The model, loaded in each worker."""

    async def load(self) -> bool:
        self._embedder = Embedder(threads=1, instances=WORKERS)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        (photos,) = payload.inputs
        found = self._embedder.embeddings([self._embedder.tensor(one) for one in StringCodec.decode_input(photos)])
        return InferenceResponse(model_name=self.name, outputs=[NumpyCodec.encode_output("embedding", found)])


if __name__ == "__main__":
    install_uvloop_event_loop()  # as its own command does
    model = ModelSettings(
        name=MODEL, implementation="servers.peers.mlserver.Peer", max_batch_size=8, max_batch_time=0.002
    )
    settings = Settings(parallel_workers=WORKERS, http_port=PORT, debug=False)

    async def serve() -> None:
        await MLServer(settings).start([model])

    asyncio.run(serve())
