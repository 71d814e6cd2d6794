"""The rows of study `fiveway`, the 5-way comparison, and its matrix of batches and users.

onnx-grpc has a second row, by grpcio: most programs use it, and it is heavier than this project's own client.
"""

from collections.abc import Sequence

from locustfiles.routes import ROUTES, by_name
from locustfiles.study_routes.clients import ASKED_BY

FIVE = ("jpeg-http", "onnx-http", "onnx-grpc", "trt-http", "trt-grpc")
GRPCIO = ASKED_BY["onnx-grpc"]["grpcio"]
ROWS = by_name(*(ROUTES[name] for name in FIVE), GRPCIO)
BATCHES, CONCURRENCY = (1, 4, 8, 16, 32), (1, 8, 16)


def matrix(batches: Sequence[int] = BATCHES, concurrency: Sequence[int] = CONCURRENCY) -> list[tuple[int, int]]:
    """(images per request, users): every batch with one user, every number of users at batch 1."""
    return list(dict.fromkeys([(batch, 1) for batch in batches] + [(1, users) for users in concurrency]))
