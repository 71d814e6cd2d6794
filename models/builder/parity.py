"""Compares the outputs of an exported model with PyTorch's, on the sample photos."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from models.builder.spec import BuildError

Outputs = Sequence[npt.NDArray[np.float32]]

MAX_ERROR = 1e-4
"""Largest difference allowed, as a part of the output's largest value (measured: 1e-6 to 1e-5)."""

MIN_COSINE = 0.99999
"""Smallest cosine allowed between the two embeddings of one photo."""


@dataclass(frozen=True)
class Parity:
    """How far an export is from PyTorch on the sample photos."""

    photos: int
    max_abs: float
    min_cosine: float


def check(what: str, names: Sequence[str], wanted: Outputs, got: Outputs) -> Parity:
    """Compare outputs [photos, width], the embedding first. Raises BuildError beyond the limits, and for NaN."""
    if [a.shape for a in wanted] != [b.shape for b in got]:
        raise BuildError(f"{what} answers shapes {[b.shape for b in got]}, PyTorch {[a.shape for a in wanted]}")
    errors = np.stack([np.abs(a - b).max(axis=1) for a, b in zip(wanted, got, strict=True)])  # [outputs, photos]
    scales = np.array([np.abs(a).max() for a in wanted])[:, None]
    cosines = _cosine(wanted[0], got[0])
    bad = ~((errors <= MAX_ERROR * scales).all(axis=0) & (cosines >= MIN_COSINE))  # NaN compares false: bad
    result = Parity(len(names), float(errors.max()), float(cosines.min()))
    if bad.any():
        worst = int(np.argmax(np.nan_to_num((errors / scales).max(axis=0), nan=np.inf)))
        raise BuildError(
            f"{what} disagrees with PyTorch on {int(bad.sum())} of {len(names)} photos, most on {names[worst]}: "
            f"largest difference {result.max_abs:.3g} (allowed: {MAX_ERROR:g} of the largest value), "
            f"smallest cosine {result.min_cosine:.6f} (allowed: {MIN_COSINE})"
        )
    return result


def _cosine(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Of each pair of rows."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):  # an infinite output gives NaN, which check() refuses
        return np.asarray((x * y).sum(axis=1) / (np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)), np.float64)
