"""From a JPEG to a tensor: whole files of a sane size become images, upright and in RGB; numbers are torchvision's."""

import io
import threading
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

from gateways.core import image
from gateways.core.errors import ServeError
from gateways.core.preprocess import Preprocess
from tests.unit.tiny_model import jpeg

GOOD = jpeg()


def decode(data: bytes, min_side: int) -> Image.Image:
    with image.decoded(data, min_side=min_side) as found:
        return found


def test_no_cut_of_a_jpeg_is_accepted() -> None:
    """Wherever the file is cut, in its header too, it is refused with words. Which ones: bad_input.py."""
    for length in range(1, len(GOOD)):
        with pytest.raises(ServeError):
            decode(GOOD[:length], min_side=32)


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_every_kind_of_jpeg_becomes_rgb(mode: str) -> None:
    """Grey and CMYK files are photos too; the colours survive."""
    decoded = decode(jpeg(mode=mode), min_side=32)
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
    assert decode(out.getvalue(), min_side=32).size == size


def test_large_photos_are_decoded_scaled() -> None:
    """A shorter side of 1080 is decoded at 1/4 for a 224 pixel model: never below what the model needs."""
    assert decode(jpeg(size=(1920, 1080)), min_side=224).size == (480, 270)
    assert decode(jpeg(size=(640, 360)), min_side=224).size == (640, 360)


def test_what_is_decoded_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second photo waits while there is no room, and a photo larger than all of it is still decoded, alone."""
    monkeypatch.setattr(image, "MAX_DECODED", 64 * 48 * 3 + 1)
    held, done = threading.Event(), threading.Event()

    def second() -> None:
        with image.decoded(GOOD, min_side=32):
            held.set()
        done.set()

    with image.decoded(GOOD, min_side=32):
        thread = threading.Thread(target=second)
        thread.start()
        assert not held.wait(0.1)
    thread.join(10)
    assert done.is_set()
    assert decode(jpeg(size=(640, 360)), min_side=224).size == (640, 360)
    with pytest.raises(ServeError), image.decoded(GOOD[:-100], min_side=32):
        pass
    assert decode(GOOD, min_side=32).size == (64, 48), "a damaged photo gives its room back"


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
