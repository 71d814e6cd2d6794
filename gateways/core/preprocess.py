"""From JPEG bytes to the model's input tensor: the one preprocessing that every route shares."""

from dataclasses import dataclass
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

    def tensor(self, jpeg: bytes, *, name: str = "image") -> npt.NDArray[np.float32]:
        """float32 [3, crop, crop], C-contiguous. Raises ServeError as `decoded` does."""
        with decoded(jpeg, min_side=self.resize, name=name) as image:
            return self.of(image)

    def of(self, image: Image.Image) -> npt.NDArray[np.float32]:
        """The same tensor from a decoded RGB image."""
        pixels = np.asarray(self._square(image), dtype=np.float32)
        tensor = np.ascontiguousarray(pixels.transpose(2, 0, 1))
        mean = np.asarray(self.mean, dtype=np.float32).reshape(3, 1, 1)
        std = np.asarray(self.std, dtype=np.float32).reshape(3, 1, 1)
        tensor /= np.float32(255)
        tensor -= mean
        tensor /= std
        return tensor

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
