"""Preprocessing: the numbers of torchvision's own transforms, for every shape of photo."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

from gateways.core.preprocess import Preprocess
from tests.unit.tiny_model import jpeg

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.mark.parametrize("interpolation", ["bicubic", "bilinear"])
@pytest.mark.parametrize("size", [(63, 48), (48, 63), (41, 33), (20, 31)])
@pytest.mark.parametrize(("resize", "crop"), [(32, 32), (32, 28), (32, 27)])
def test_equals_torchvision(interpolation: str, size: tuple[int, int], resize: int, crop: int) -> None:
    """Resize, CenterCrop, ToTensor and Normalize give the same tensor (too small for a scaled decode)."""
    data = jpeg(size=size)
    got = Preprocess(resize, crop, interpolation, MEAN, STD).tensor(data)  # type: ignore[arg-type]
    reference = v2.Compose(
        [
            v2.Resize(resize, interpolation=v2.InterpolationMode(interpolation)),
            v2.CenterCrop(crop),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(MEAN, STD),
        ]
    )
    want = reference(Image.open(io.BytesIO(data)).convert("RGB")).numpy()
    assert got.shape == want.shape == (3, crop, crop)
    assert got.dtype == np.float32
    assert got.flags.c_contiguous
    # One step of 8 bits is 0.017 after Normalize: the crop in source coordinates may round a pixel the other way.
    assert np.abs(got - want).max() < 0.02
    assert np.abs(got - want).mean() < 1e-4


@pytest.mark.parametrize("size", [(1, 20_000), (20_000, 1), (1, 1)])
def test_thin_and_tiny_photos_cost_no_memory(size: tuple[int, int]) -> None:
    """The crop is cut before the resize, so a 1 x 20,000 photo never becomes 224 x 4,480,000."""
    assert Preprocess(224, 224, "bicubic", MEAN, STD).tensor(jpeg(size=size)).shape == (3, 224, 224)
