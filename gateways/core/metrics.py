"""What a gateway tells Prometheus: some counters per request, at METRICS_PORT (docs/metrics.md).

A gateway is one process, so these are its figures. With several, each would answer with its own.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import Counter, Gauge, Histogram, start_http_server

from gateways.core.errors import ServeError, Status
from gateways.core.timing import Stages

OK, CANCELLED = "OK", "CANCELLED"

REQUESTS = Counter("fiveway_requests", "Requests for inference that have ended, by outcome", ["status"])
STAGE = Histogram(
    "fiveway_stage_seconds",
    "Where the time of a request went: the stages of its Server-Timing",
    ["stage"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
BATCH = Histogram("fiveway_batch_images", "Images computed or sent on together", buckets=(1, 2, 4, 8, 16, 32))
PENDING = Gauge("fiveway_pending_images", "Images that wait or are computed")
SERVING = Gauge("fiveway_upstream_serving", "1: the upstream has answered a photo lately", ["upstream"])

# From the start, because a rate needs a value before the first error.
for _name in (OK, CANCELLED, *Status.__members__):
    REQUESTS.labels(_name)


def expose(pending: Callable[[], int]) -> None:
    """Answer Prometheus from a thread of its own, with the images that `pending` counts at that moment. Without
    METRICS_PORT nobody asks, and nothing listens."""
    PENDING.set_function(pending)
    if port := os.environ.get("METRICS_PORT"):
        start_http_server(int(port))


@contextmanager
def counted(stages: Stages, gone: type[BaseException] = asyncio.CancelledError) -> Iterator[None]:
    """Count the request that the body answers: OK, CANCELLED, or a Status by its name. `gone`: its client has left."""
    status = OK
    try:
        yield
    except gone:
        status = CANCELLED
        raise
    except BaseException as error:
        status = (error.status if isinstance(error, ServeError) else Status.INTERNAL).name
        raise
    finally:
        REQUESTS.labels(status).inc()
        for name, ms in stages.until_now().items():
            STAGE.labels(name).observe(ms / 1e3)
