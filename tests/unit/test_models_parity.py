"""An export that answers something else than PyTorch is never let through."""

import numpy as np
import numpy.typing as npt
import pytest

from models.builder.parity import check
from models.builder.spec import BuildError

NAMES = ("lake", "otter", "osprey")
Array = npt.NDArray[np.float32]


def outputs() -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((3, width), dtype=np.float32) for width in (16, 10)]


@pytest.mark.parametrize("output", [0, 1])
@pytest.mark.parametrize("value", [9.0, np.nan, np.inf])
def test_one_wrong_number_fails_and_the_photo_is_named(output: int, value: float) -> None:
    """NaN compares false with every limit: that must not read as "within"."""
    wanted, got = outputs(), outputs()
    got[output][1, 3] = value
    with pytest.raises(BuildError, match="ONNX disagrees with PyTorch on 1 of 3 photos, most on otter"):
        check("ONNX", NAMES, wanted, got)


def test_the_limit_follows_the_size_of_the_output_and_its_shape_must_fit() -> None:
    """Logits of a thousand may differ by more than logits of one."""
    wanted: list[Array] = [np.asarray(output * 1000, np.float32) for output in outputs()]
    parity = check("ONNX", NAMES, wanted, [output + np.float32(0.01) for output in wanted])
    assert (parity.photos, parity.max_abs < 0.02, parity.min_cosine > 0.99999) == (3, True, True)
    with pytest.raises(BuildError):
        check("ONNX", NAMES, outputs(), [output + np.float32(0.01) for output in outputs()])
    with pytest.raises(BuildError, match="shapes"):
        check("ONNX", NAMES, outputs(), outputs()[:1])
