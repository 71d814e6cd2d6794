"""From the model's outputs to what a client reads: an embedding and the most likely classes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TOP_K = 5


@dataclass(frozen=True)
class Class:
    """One class of the model: its index, its label, and its probability (0 to 1)."""

    index: int
    label: str
    score: float


@dataclass(frozen=True, eq=False)
class Prediction:
    """The answer for one image: embedding [D], and classes by falling score (none for an embedding model)."""

    embedding: npt.NDArray[np.float32] | list[float]
    classes: tuple[Class, ...]


def softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Probabilities along the last axis; large logits do not overflow."""
    exp = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(exp / exp.sum(axis=-1, keepdims=True), dtype=np.float32)


def top_k(logits: npt.NDArray[np.float32], labels: Sequence[str], k: int = TOP_K) -> tuple[Class, ...]:
    """The k most likely classes of one image, from logits [C], best first; equal scores by index."""
    scores = softmax(logits)
    order = np.argsort(-scores, kind="stable")[:k]
    return tuple(Class(int(i), labels[i], float(scores[i])) for i in order)


def predictions(outputs: Sequence[npt.NDArray[np.float32]], labels: Sequence[str], k: int = TOP_K) -> list[Prediction]:
    """One per image, from the model's outputs: embeddings [N, D] and, where there are labels, logits [N, C]."""
    classes = [top_k(row, labels, k) for row in outputs[1]] if labels else [()] * len(outputs[0])
    return [Prediction(embedding, best) for embedding, best in zip(outputs[0], classes, strict=True)]
