"""From JPEG bytes to the model's input tensor: the one preprocessing that every route shares."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from gateways.core.image import decoded

_RESAMPLING = {"bicubic": Image.Resampling.BICUBIC, "bilinear": Image.Resampling.BILINEAR}


@dataclass(frozen=True)
class Preprocess:
    """Resize the shorter side, crop the centre, normalise: what torchvision's Resize, CenterCrop and Normalize do."""

    resize: int
    crop: int
    interpolation: Literal["bicubic", "bilinear"]
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def __post_init__(self) -> None:
        if not 0 < self.crop <= self.resize:
            raise ValueError(f"crop must be between 1 and resize, got crop {self.crop} and resize {self.resize}")
        if self.interpolation not in _RESAMPLING:
            raise ValueError(f"interpolation must be one of {', '.join(_RESAMPLING)}, got {self.interpolation!r}")

    def tensor(self, jpeg: bytes, *, name: str = "image", channels_last: bool = False) -> npt.NDArray[np.float32]:
        """float32 [3, crop, crop], C-contiguous; or `channels_last`, a view of [crop, crop, 3], as PyTorch wants it.
        Raises ServeError as `decoded` does."""
        with decoded(jpeg, min_side=self.resize, name=name) as image:
            tensor = self._of(image)
        return tensor if channels_last else np.ascontiguousarray(tensor)

    def of(self, image: Image.Image) -> npt.NDArray[np.float32]:
        """The same tensor from a decoded RGB image."""
        return np.ascontiguousarray(self._of(image))

    def _of(self, image: Image.Image) -> npt.NDArray[np.float32]:
        rows = np.asarray(self._square(image)).reshape(self.crop, -1)
        scale, offset = self._row
        tensor = np.multiply(rows, scale, dtype=np.float32)
        tensor += offset
        return tensor.reshape(self.crop, self.crop, 3).transpose(2, 0, 1)

    @cached_property
    def _row(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """What a row of pixels, 0 to 255, is multiplied by, and what is added then: (x / 255 - mean) / std."""
        mean, std = np.tile(self.mean, self.crop), np.tile(self.std, self.crop)
        return (1 / (255 * std)).astype(np.float32), (-mean / std).astype(np.float32)

    def _square(self, image: Image.Image) -> Image.Image:
        """The crop x crop centre of the resized image, in one pass.

        The crop is taken in source coordinates, so a 1 x 50,000 photo never becomes 224 x 11,200,000. Rounding follows
        torchvision: the longer side is cut to an integer, the offsets are rounded.
        """
        shorter = min(image.size)
        width, height = (self.resize * side // shorter for side in image.size)
        left, top = round((width - self.crop) / 2), round((height - self.crop) / 2)
        x, y = image.width / width, image.height / height
        box = (left * x, top * y, min((left + self.crop) * x, image.width), min((top + self.crop) * y, image.height))
        return image.resize((self.crop, self.crop), _RESAMPLING[self.interpolation], box=box)
