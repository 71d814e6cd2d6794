"""JPEGs decoded by DALI (on a GPU by nvJPEG), in NVIDIA's image. servers/triton/jpeg/model.py asks it first.

    header: gateways/core -> DALI: decode in full, mean of each block of pixels -> resize, normalise: gateways/core

The mean of 2 x 2, 4 x 4 or 8 x 8 pixels stands for the scaled decode of gateways/core (Image.draft), which DALI cannot
do: it leaves the same picture but for rounding. (A decode in full, resized at once, does not.)

DALI fails a whole batch for one photo, and nvJPEG may take files that a route must refuse. So DALI gets plain photos
only. What it fails to decode is decoded again by gateways/core, which says which photo is bad and why.
"""

import math
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image

from gateways.core.image import decoded, opened

# Where NVIDIA's image has it. Last on the path: the numpy beside it is not the one that Triton's backend was built for.
sys.path.append("/opt/tritonserver/backends/dali/wheel/dali")

MAX_PHOTOS = 32
MAX_PIXELS = 100_000_000
"""Of one run, decoded in full: 300 MB on the device."""
TOLERANCE = 2.0
"""The most that two decoders may differ: mean over a picture, of 255."""


@dataclass(frozen=True)
class _Photo:
    position: int
    jpeg: npt.NDArray[np.uint8]
    blocks: tuple[int, int, int, int, int]
    """[rows, scale, columns, scale, 3]: each scale x scale pixels of the photo become one."""


class Dali:
    """DALI's pipeline, on a GPU or on the CPU. Raises where DALI is not there, or makes another picture."""

    def __init__(self, min_side: int, threads: int, *, gpu: bool) -> None:
        self._min_side = min_side
        self._threads = threads
        self._gpu = gpu
        self._pipeline = self._built()
        jpeg = _sample(4 * min_side)
        (image,) = self.images([jpeg])
        if image is None:
            raise RuntimeError("DALI did not decode a plain photo")
        with decoded(jpeg, min_side=min_side) as picture:
            wanted = np.asarray(picture, np.float32)
        if (off := float(np.abs(np.asarray(image) - wanted).mean())) > TOLERANCE:
            raise RuntimeError(f"DALI's picture is {off:.1f} of 255 from the one of gateways/core")

    def images(self, jpegs: Sequence[bytes]) -> list[Image.Image | None]:
        """As gateways.core.image.decode; None for a photo that is not plain, or that DALI failed. Never raises."""
        images: list[Image.Image | None] = [None] * len(jpegs)
        for run in _runs([photo for index, jpeg in enumerate(jpegs) if (photo := self._plain(index, jpeg))]):
            try:
                for photo, image in zip(run, self._run(run), strict=True):
                    images[photo.position] = image
            except Exception:
                traceback.print_exc()
                self._pipeline = None  # the pipeline cannot be used any more
        return images

    def _plain(self, position: int, jpeg: bytes) -> _Photo | None:
        """The photo, where DALI does the same with it as gateways/core: whole, coloured, upright, of whole blocks."""
        try:
            image = opened(jpeg, name="")
            turned = image.getexif().get(ExifTags.Base.Orientation, 1) != 1
        except Exception:
            return None
        if turned or image.mode != "RGB" or not jpeg.endswith(b"\xff\xd9"):
            return None
        width, height = image.size
        image.draft(None, (self._min_side, self._min_side))
        scale = round(width / image.width)
        if width % scale or height % scale:
            return None
        return _Photo(position, np.frombuffer(jpeg, np.uint8), (height // scale, scale, width // scale, scale, 3))

    def _run(self, photos: Sequence[_Photo]) -> list[Image.Image]:
        """Raises DALI's own errors, after which the pipeline cannot be used."""
        self._pipeline = self._pipeline or self._built()
        self._pipeline.feed_input("jpeg", [photo.jpeg for photo in photos])
        self._pipeline.feed_input("blocks", [np.array(photo.blocks, np.int32) for photo in photos])
        (output,) = self._pipeline.run()
        images = output.as_cpu() if self._gpu else output
        return [Image.fromarray(np.array(images.at(index))) for index in range(len(photos))]

    def _built(self) -> Any:
        from nvidia.dali import fn, pipeline_def, types  # where there is one: Triton's image decides

        @pipeline_def
        def steps() -> Any:
            jpeg = fn.external_source(name="jpeg", dtype=types.UINT8, ndim=1)
            blocks = fn.external_source(name="blocks", dtype=types.INT32, ndim=1)
            device = "mixed" if self._gpu else "cpu"
            # Colours of half the resolution are interpolated, as libjpeg does it for Pillow.
            image = fn.decoders.image(jpeg, device=device, output_type=types.RGB, jpeg_fancy_upsampling=True)
            means = fn.reductions.mean(fn.reshape(image, shape=blocks, layout="HYWXC"), axes=[1, 3])
            return fn.cast(means, dtype=types.UINT8)

        device = 0 if self._gpu else None
        pipeline = steps(batch_size=MAX_PHOTOS, num_threads=self._threads, device_id=device, prefetch_queue_depth=1)
        pipeline.build()
        return pipeline


def _runs(photos: Sequence[_Photo]) -> list[list[_Photo]]:
    """The photos in order, so many in a run as a run may have."""
    runs: list[list[_Photo]] = []
    pixels = 0
    for photo in photos:
        more = math.prod(photo.blocks[:4])
        if not runs or len(runs[-1]) == MAX_PHOTOS or pixels + more > MAX_PIXELS:
            runs.append([])
            pixels = 0
        runs[-1].append(photo)
        pixels += more
    return runs


def _sample(side: int) -> bytes:
    """A square picture of slopes and edges."""
    ramp = np.add.outer(np.arange(side), np.arange(side)) * 255 // (2 * side)
    image = np.stack([ramp, ramp[::-1], np.where(ramp // 16 % 2, 40, 220)], axis=2).astype(np.uint8)
    file = BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=90)
    return file.getvalue()
