"""Between the contract's messages and the core's types. Pure functions; wrong requests raise ServeError."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import grpc
from fiveway.vision.v1 import vision_pb2 as pb
from google.rpc import status_pb2

from gateways.core.answer import TOP_K, Prediction
from gateways.core.batch import check_count
from gateways.core.errors import ServeError, Status
from gateways.core.manifest import Manifest

_WEIGHTS = {"real": pb.WEIGHTS_REAL, "random": pb.WEIGHTS_RANDOM}


@dataclass(frozen=True)
class Request:
    """A PredictRequest that was checked, but for its JPEGs."""

    images: Sequence[bytes]
    top_k: int
    embedding: bool
    classes: bool


def request(message: pb.PredictRequest, *, upstream: str, max_top_k: int | None) -> Request:
    """Check everything that needs no look into the images. `max_top_k` is the most that `upstream` answers."""
    check_count(len(message.images))
    top_k = message.top_k or TOP_K
    if max_top_k is not None and top_k > max_top_k:
        raise ServeError(
            Status.INVALID,
            f"top_k is {top_k}: the backend {upstream} answers at most {max_top_k} classes, ask for that or less",
        )
    outputs = set(message.outputs) or {pb.OUTPUT_EMBEDDING, pb.OUTPUT_CLASSES}
    if wrong := outputs - {pb.OUTPUT_EMBEDDING, pb.OUTPUT_CLASSES}:
        raise ServeError(
            Status.INVALID,
            f"outputs has {min(wrong)}: send OUTPUT_EMBEDDING (1), OUTPUT_CLASSES (2), or leave it out for both",
        )
    return Request(message.images, top_k, pb.OUTPUT_EMBEDDING in outputs, pb.OUTPUT_CLASSES in outputs)


def response(predictions: Sequence[Prediction], asked: Request, manifest: Manifest) -> pb.PredictResponse:
    """The answer, with the parts that were asked for."""
    return pb.PredictResponse(
        predictions=[_prediction(p, asked) for p in predictions],
        model=manifest.model,
        weights=_WEIGHTS[manifest.weights],
    )


def _prediction(prediction: Prediction, asked: Request) -> pb.Prediction:
    values = cast("list[float]", prediction.embedding.tolist())  # numpy cannot say that it has one dimension
    return pb.Prediction(
        embedding=pb.Embedding(values=values) if asked.embedding else None,
        classes=[pb.ClassScore(index=c.index, label=c.label, score=c.score) for c in prediction.classes]
        if asked.classes
        else (),
    )


def error(code: grpc.StatusCode, message: str) -> status_pb2.Status:
    """The failure of one message of a stream."""
    return status_pb2.Status(code=code.value[0], message=message)
