"""LitServe: `python3 -m servers.peers.litserve`.

Its own documentation, for throughput (LitServer's and LitAPI's docstrings in release 0.2.19):

- workers_per_device: on a CPU the number of cores. Here COMPUTE_THREADS, with one thread each.
- fast_queue: for hundreds of requests per second. num_api_servers: by default as many as there are workers.
- max_batch_size: what TorchServe has here. batch_timeout: short, and above 0, with which an idle worker never rests and
  takes a core from what is measured beside it (https://lightning.ai/docs/litserve/features/batching).
"""

from collections.abc import Sequence
from typing import Any

import litserve
from starlette.requests import Request
from starlette.responses import Response

from gateways.core.threads import compute_threads
from gateways.upstreams.torchscript import Tensor
from servers.peers import PATH, PORT
from servers.peers.embedder import Embedder

WORKERS = compute_threads()
MOST, WAIT_S = 8, 0.002


class Api(litserve.LitAPI):
    """LitServe's steps of a request; all run in a worker."""

    def setup(self, device: str) -> None:
        self._embedder = Embedder(threads=1, instances=WORKERS)

    def decode_request(self, request: Request) -> Tensor:
        message: Any = request  # what LitServe hands over is its JSON
        (text,) = message["images"]
        return self._embedder.tensor(text)

    def batch(self, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        return inputs  # the model puts them together

    def predict(self, x: Sequence[Tensor]) -> list[bytes]:
        return self._embedder.answers(x)

    def encode_response(self, output: bytes) -> Response:
        return Response(output, media_type="application/json")


if __name__ == "__main__":
    api = Api(max_batch_size=MOST, batch_timeout=WAIT_S, api_path=PATH)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=WORKERS, fast_queue=True)
    server.run(port=PORT, generate_client_file=False, log_level="warning", access_log=False)
