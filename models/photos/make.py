"""Make the sample photos from their source package: `python make.py SOURCE_DIR` writes the JPEGs beside this file.

SOURCE_DIR holds the original files of Debian's `budgie-backgrounds` 3.0-1 (CC0), e.g. from
`apt-get download budgie-backgrounds && dpkg -x budgie-backgrounds_3.0-1_all.deb x`: x/usr/share/backgrounds/budgie.
README.md beside this file has licence and source of each. Needs Pillow.
"""

from argparse import ArgumentParser
from pathlib import Path

from PIL import Image

# Height x width. 224 is the model's input; the other three are the sizes of the published TorchServe comparison.
SIZES = ((224, 224), (360, 640), (720, 1280), (1080, 1920))
QUALITY = 90

# The file, and left, top, right and bottom of a 16:9 view of it in pixels. The subject stands in the middle, where the
# preprocessing crops. Never narrower than 1920: nothing is scaled up.
PHOTOS = {
    "otter": ("oakland-zoo-otters.jpg", (515, 300, 3555, 2010)),
    "osprey": ("perched-osprey.jpg", (180, 380, 2740, 1820)),
    "lake": ("lake-sherburne.jpg", (0, 0, 3840, 2160)),
    "colosseum": ("roman-colosseum.jpg", (0, 300, 3040, 2010)),
}


def render(view: Image.Image, height: int, width: int) -> Image.Image:
    """`view` at `width` x `height`: its centre, cut to that aspect, then scaled down."""
    cut = min(view.width, view.height * width // height)
    left = (view.width - cut) // 2
    return view.resize((width, height), Image.Resampling.LANCZOS, box=(left, 0, left + cut, view.height))


if __name__ == "__main__":
    parser = ArgumentParser(description="Make the sample photos from their source package.")
    parser.add_argument("source", type=Path, help="the folder with the original files")
    source = parser.parse_args().source
    for name, (file, box) in PHOTOS.items():
        view = Image.open(source / file).convert("RGB").crop(box)
        for height, width in SIZES:
            path = Path(__file__).parent / f"{name}_{height}x{width}.jpg"
            render(view, height, width).save(path, quality=QUALITY, optimize=True)
