"""Ray Serve: `python3 -m servers.peers.ray_serve`.

Its own documentation, for throughput:

- RAY_SERVE_ENABLE_HA_PROXY and RAY_SERVE_THROUGHPUT_OPTIMIZED, which the image sets:
  https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/kuberay-serve-high-throughput.html. The model then has to
  stay off the event loop: https://docs.ray.io/en/latest/serve/advanced-guides/performance.html.
- num_replicas, with a core each: COMPUTE_THREADS, with one thread each.
- serve.batch: https://docs.ray.io/en/latest/serve/advanced-guides/dyn-req-batch.html. Here what LitServe has.
- max_ongoing_requests, for a callable with async: the performance page's value.
"""

import asyncio
from collections.abc import Sequence

import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

from gateways.core.threads import compute_threads
from servers.peers import PORT
from servers.peers.embedder import Embedder

WORKERS = compute_threads()


@serve.deployment(num_replicas=WORKERS, max_ongoing_requests=1000, ray_actor_options={"num_cpus": 1})
class Peer:
    """The model, once in each replica."""

    def __init__(self) -> None:
        self._embedder = Embedder(threads=1, instances=WORKERS)

    def _answers(self, photos: Sequence[str]) -> list[bytes]:
        return self._embedder.answers([self._embedder.tensor(one) for one in photos])

    @serve.batch(max_batch_size=8, batch_wait_timeout_s=0.002)
    async def _batch(self, photos: list[str]) -> list[bytes]:
        return await asyncio.to_thread(self._answers, photos)

    async def __call__(self, request: Request) -> Response:
        (photo,) = (await request.json())["images"]
        return Response(await self._batch(photo), media_type="application/json")


if __name__ == "__main__":
    ray.init(num_cpus=WORKERS, include_dashboard=False, object_store_memory=80 * 2**20)
    serve.start(http_options={"host": "0.0.0.0", "port": PORT})
    app = Peer.bind()  # type: ignore[attr-defined]  # the decorator has no types
    serve.run(app, blocking=True, logging_config={"enable_access_log": False})
