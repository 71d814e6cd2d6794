"""Compares the outputs of an exported model with PyTorch's, on the sample photos."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from models.builder.spec import BuildError

Outputs = Sequence[npt.NDArray[np.float32]]


class Limits(NamedTuple):
    """What an export in one precision may differ from PyTorch's FP32."""

    error: float
    """Largest difference, as a part of the output's largest value."""
    cosine: float
    """Smallest cosine between the two embeddings of one photo."""


FP32 = Limits(1e-4, 0.99999)
"""Measured: 1e-6 to 1e-5."""
FP16 = Limits(0.05, 0.999)
"""FP16 has 11 bits: a rounding is off by at most 2^-11. The limits are what about a hundred of them add up to if all go
in one direction, like one in each layer (a part e of the length, sideways, is a cosine of 1 - e^2 / 2). Measured on a
CPU with efficientnet_lite0: 0.008 and 0.99998."""


@dataclass(frozen=True)
class Parity:
    """How far an export is from PyTorch on the sample photos."""

    photos: int
    max_abs: float
    min_cosine: float


def check(what: str, names: Sequence[str], wanted: Outputs, got: Outputs, limits: Limits = FP32) -> Parity:
    """Compare outputs [photos, width], the embedding first. Raises BuildError beyond the limits, and for NaN."""
    if [a.shape for a in wanted] != [b.shape for b in got]:
        raise BuildError(f"{what} answers shapes {[b.shape for b in got]}, PyTorch {[a.shape for a in wanted]}")
    errors = np.stack([np.abs(a - b).max(axis=1) for a, b in zip(wanted, got, strict=True)])  # [outputs, photos]
    scales = np.array([np.abs(a).max() for a in wanted])[:, None]
    cosines = _cosine(wanted[0], got[0])
    bad = ~((errors <= limits.error * scales).all(axis=0) & (cosines >= limits.cosine))  # NaN compares false: bad
    result = Parity(len(names), float(errors.max()), float(cosines.min()))
    if bad.any():
        worst = int(np.argmax(np.nan_to_num((errors / scales).max(axis=0), nan=np.inf)))
        raise BuildError(
            f"{what} disagrees with PyTorch on {int(bad.sum())} of {len(names)} photos, most on {names[worst]}: "
            f"largest difference {result.max_abs:.3g} (allowed: {limits.error:g} of the largest value), "
            f"smallest cosine {result.min_cosine:.6f} (allowed: {limits.cosine})"
        )
    return result


def _cosine(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Of each pair of rows."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):  # an infinite output gives NaN, which check() refuses
        return np.asarray((x * y).sum(axis=1) / (np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)), np.float64)
