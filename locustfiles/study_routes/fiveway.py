"""The rows of study `fiveway`, the 5-way comparison, and its matrix of batches and users."""

from collections.abc import Mapping, Sequence

from locustfiles.routes import ROUTES, Route

ROWS: Mapping[str, Route] = {
    name: ROUTES[name] for name in ("jpeg-http", "onnx-http", "onnx-grpc", "trt-http", "trt-grpc")
}
BATCHES, CONCURRENCY = (1, 4, 8, 16, 32), (1, 8, 16)


def matrix(batches: Sequence[int] = BATCHES, concurrency: Sequence[int] = CONCURRENCY) -> list[tuple[int, int]]:
    """(images per request, users): every batch with one user, every number of users at batch 1."""
    return list(dict.fromkeys([(batch, 1) for batch in batches] + [(1, users) for users in concurrency]))
