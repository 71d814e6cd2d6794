"""Between the contract's messages and the core's types. Wrong requests raise ServeError."""

from collections.abc import Sequence
from typing import cast

from fiveway.vision.v1 import vision_pb2 as pb

from gateways.core.answer import TOP_K, Prediction
from gateways.core.errors import ServeError, Status
from gateways.core.image import check_bytes, check_count
from gateways.core.manifest import Manifest

OUTPUTS = {pb.OUTPUT_EMBEDDING, pb.OUTPUT_CLASSES}


def check(message: pb.PredictRequest, *, upstream: str, max_top_k: int | None) -> None:
    """Check every field, and fill in the defaults. `max_top_k` is the most classes that `upstream` answers. Of a photo
    only the first bytes are read: whoever decodes it looks at the rest, TorchServe's handler or this gateway's threads.
    """
    check_count(len(message.images))
    for index, jpeg in enumerate(message.images):
        check_bytes(jpeg, name=f"images[{index}]")
    message.top_k = message.top_k or TOP_K
    if max_top_k is not None and message.top_k > max_top_k:
        limit = f"the backend {upstream} answers at most {max_top_k} classes, ask for that or less"
        raise ServeError(Status.INVALID, f"top_k is {message.top_k}: {limit}")
    if not message.outputs:
        message.outputs.extend(OUTPUTS)
    if wrong := set(message.outputs) - OUTPUTS:
        raise ServeError(
            Status.INVALID,
            f"outputs has {min(wrong)}: send OUTPUT_EMBEDDING (1), OUTPUT_CLASSES (2), or leave it out for both",
        )


def response(predictions: Sequence[Prediction], asked: pb.PredictRequest, manifest: Manifest) -> pb.PredictResponse:
    """The answer, with the parts that were asked for."""
    return pb.PredictResponse(
        predictions=[_prediction(p, asked) for p in predictions],
        model=manifest.model,
        weights=pb.Weights.Value(f"WEIGHTS_{manifest.weights.upper()}"),
    )


def _prediction(prediction: Prediction, asked: pb.PredictRequest) -> pb.Prediction:
    answer = pb.Prediction()
    if pb.OUTPUT_EMBEDDING in asked.outputs:
        values = prediction.embedding
        answer.embedding.values.extend(values if isinstance(values, list) else cast("list[float]", values.tolist()))
    if pb.OUTPUT_CLASSES in asked.outputs:
        answer.classes.extend(pb.ClassScore(index=c.index, label=c.label, score=c.score) for c in prediction.classes)
    return answer
