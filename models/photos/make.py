"""Make the sample photos from their source package: `python make.py SOURCE_DIR` writes the JPEGs beside this file.

SOURCE_DIR holds the original files of Debian's `budgie-backgrounds` 3.0-1 (CC0), e.g. from
`apt-get download budgie-backgrounds && dpkg -x budgie-backgrounds_3.0-1_all.deb x`: x/usr/share/backgrounds/budgie.
README.md beside this file has licence and source of each. Needs Pillow.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

# Height x width. 224 is the model's input; the other three are the sizes of the published TorchServe comparison.
SIZES = ((224, 224), (360, 640), (720, 1280), (1080, 1920))
QUALITY = 90


@dataclass(frozen=True)
class Photo:
    """A 16:9 view of `file`: its left, top and width in source pixels.

    The subject stands in the middle, where the preprocessing crops. Never narrower than 1920: nothing is scaled up.
    """

    name: str
    file: str
    left: int
    top: int
    width: int

    @property
    def box(self) -> tuple[int, int, int, int]:
        return self.left, self.top, self.left + self.width, self.top + self.width * 9 // 16


PHOTOS = (
    Photo("otter", "oakland-zoo-otters.jpg", 515, 300, 3040),
    Photo("osprey", "perched-osprey.jpg", 180, 380, 2560),
    Photo("lake", "lake-sherburne.jpg", 0, 0, 3840),
    Photo("colosseum", "roman-colosseum.jpg", 0, 300, 3040),
)


def render(view: Image.Image, height: int, width: int) -> Image.Image:
    """`view` at `width` x `height`: its centre, cut to that aspect, then scaled down."""
    cut = min(view.width, view.height * width // height)
    left = (view.width - cut) // 2
    return view.resize((width, height), Image.Resampling.LANCZOS, box=(left, 0, left + cut, view.height))


def main(source: Path, target: Path) -> None:
    for photo in PHOTOS:
        view = Image.open(source / photo.file).convert("RGB").crop(photo.box)
        for height, width in SIZES:
            path = target / f"{photo.name}_{height}x{width}.jpg"
            render(view, height, width).save(path, quality=QUALITY, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).parent)
