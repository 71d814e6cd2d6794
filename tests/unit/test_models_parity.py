"""An export that answers something else than PyTorch is never let through."""

import numpy as np
import numpy.typing as npt
import pytest

from models.builder.parity import BuildError, check

NAMES = ("lake", "otter", "osprey")
Array = npt.NDArray[np.float32]


def outputs() -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((3, width), dtype=np.float32) for width in (16, 10)]


def test_rounding_passes_and_is_reported() -> None:
    wanted = outputs()
    parity = check("ONNX", NAMES, wanted, [output + np.float32(1e-6) for output in wanted])
    assert parity.photos == 3
    assert 0 < parity.max_abs < 1e-5
    assert parity.min_cosine > 0.999999


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
    check("ONNX", NAMES, wanted, [output + np.float32(0.01) for output in wanted])
    with pytest.raises(BuildError):
        check("ONNX", NAMES, outputs(), [output + np.float32(0.01) for output in outputs()])
    with pytest.raises(BuildError, match="shapes"):
        check("ONNX", NAMES, outputs(), outputs()[:1])
