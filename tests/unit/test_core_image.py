"""Decoding: only whole JPEGs of a sane size become images, and every photo is seen upright and in RGB."""

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gateways.core import image
from gateways.core.errors import ServeError
from tests.unit.tiny_model import jpeg

GOOD = jpeg()


def test_no_cut_of_a_jpeg_is_accepted() -> None:
    """Wherever the file is cut, in its header too, it is refused with words. Which ones: bad_input.py."""
    for length in range(1, len(GOOD)):
        with pytest.raises(ServeError):
            image.decode(GOOD[:length], min_side=32)


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_every_kind_of_jpeg_becomes_rgb(mode: str) -> None:
    """Grey and CMYK files are photos too; the colours survive."""
    decoded = image.decode(jpeg(mode=mode), min_side=32)
    assert (decoded.mode, decoded.size) == ("RGB", (64, 48))
    want = np.asarray(Image.open(io.BytesIO(GOOD)).convert("L" if mode == "L" else "RGB").convert("RGB"), float)
    assert np.abs(np.asarray(decoded, float) - want).mean() < 4


UPRIGHT = Image.Exif()
UPRIGHT[0x0112] = 6


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize(("exif", "size"), [(UPRIGHT, (48, 64)), (b"Exif\0\0MM\0*" + b"\xff" * 40, (64, 48))])
def test_exif_orientation_is_applied(exif: Any, size: tuple[int, int]) -> None:
    """A phone held upright turns the photo by 90 degrees; a damaged block loses the orientation and no pixels."""
    out = io.BytesIO()
    Image.open(io.BytesIO(GOOD)).save(out, "JPEG", exif=exif)
    assert image.decode(out.getvalue(), min_side=32).size == size


def test_large_photos_are_decoded_scaled() -> None:
    """A shorter side of 1080 is decoded at 1/4 for a 224 pixel model: never below what the model needs."""
    assert image.decode(jpeg(size=(1920, 1080)), min_side=224).size == (480, 270)
    assert image.decode(jpeg(size=(640, 360)), min_side=224).size == (640, 360)
