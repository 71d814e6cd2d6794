"""JPEG bytes to an RGB image, with every check made before memory is spent.

These rules hold on every route:
- only JPEG is taken, known by its first bytes and not by a declared type;
- the header's size is checked before any pixel is decoded;
- a truncated file is refused, never padded with grey;
- EXIF orientation is applied: a phone's photo is seen upright, as every viewer shows it;
- grey and CMYK become RGB;
- a photo much larger than the model's input is decoded at 1/2, 1/4 or 1/8 (Image.draft): 1080p in 4 ms, not 20;
- a process holds MAX_DECODED bytes of pixels at once: a photo that does not fit waits for the others.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

from PIL import Image, ImageFile, ImageOps

from gateways.core.errors import ServeError, Status

MAX_BYTES = 20 * 1024 * 1024
MAX_PIXELS = 50_000_000
MAX_IMAGES = 32
"""In one request."""
MAX_DECODED = 256 * 1024 * 1024
"""Bytes of pixels: one photo of MAX_PIXELS, or as many smaller ones as there are threads."""

# Pillow's own limit is off: opened() checks MAX_PIXELS before decoding, with an error written for clients.
Image.MAX_IMAGE_PIXELS = None
ImageFile.LOAD_TRUNCATED_IMAGES = False


def check_count(count: int) -> None:
    """Refuse an empty request and one above the batch limit."""
    if not 1 <= count <= MAX_IMAGES:
        raise ServeError(Status.INVALID, f"{count} images: send 1 to {MAX_IMAGES} in one request")


@contextmanager
def decoded(data: bytes, *, min_side: int, name: str = "image") -> Iterator[Image.Image]:
    """The RGB image in `data`, inside the block; its shorter side is at least `min_side` pixels where the photo's is.

    `name` says in messages which image is meant ("images[2]"). Raises ServeError: TOO_LARGE above MAX_BYTES, INVALID
    for anything that is not a whole JPEG of at most MAX_PIXELS.
    """
    image = opened(data, name=name)
    image.draft(None, (min_side, min_side))
    copied = image.mode != "RGB" or "exif" in image.info
    pixel_bytes = len(image.getbands()) + 3 * copied
    with _room.of(image.width * image.height * pixel_bytes):
        try:
            image.load()
        except Exception as error:
            raise ServeError(Status.INVALID, f"{name} is truncated or damaged: send the whole JPEG file") from error
        upright = _upright(image)
        yield upright if upright.mode == "RGB" else upright.convert("RGB")


class _Room:
    """MAX_DECODED bytes, shared by the threads of this process."""

    def __init__(self) -> None:
        self._held = 0
        self._freed = threading.Condition()

    @contextmanager
    def of(self, size: int) -> Iterator[None]:
        """Waits until so many bytes are free; more than there are at all get all of them."""
        size = min(size, MAX_DECODED)
        with self._freed:
            self._freed.wait_for(lambda: self._held + size <= MAX_DECODED)
            self._held += size
        try:
            yield
        finally:
            with self._freed:
                self._held -= size
                self._freed.notify_all()


_room = _Room()


def check_bytes(data: bytes, *, name: str) -> None:
    """Refuse what the first bytes and their number rule out already. Raises ServeError as `decoded` does."""
    if not data:
        raise ServeError(Status.INVALID, f"{name} is empty: send JPEG bytes")
    if len(data) > MAX_BYTES:
        size, limit = len(data) // 1024**2, MAX_BYTES // 1024**2
        raise ServeError(Status.TOO_LARGE, f"{name} is {size} MiB: send a JPEG of at most {limit} MiB")
    if not data.startswith(b"\xff\xd8\xff"):
        raise ServeError(Status.INVALID, f"{name} is not a JPEG: send JPEG bytes (they start with FF D8 FF)")


def opened(data: bytes, *, name: str) -> Image.Image:
    """The photo with its header read and no pixel decoded. Raises ServeError as `decoded` does."""
    check_bytes(data, name=name)
    try:
        image: Image.Image = Image.open(BytesIO(data), formats=["JPEG"])
    except Exception as error:  # Pillow raises OSError, SyntaxError, struct.error, ... for a damaged header
        raise ServeError(Status.INVALID, f"{name} has a damaged JPEG header: encode the photo again") from error
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise ServeError(
            Status.INVALID,
            f"{name} is {width} x {height} pixels: send at most {MAX_PIXELS:,} pixels (scale it down first)",
        )
    return image


def _upright(image: Image.Image) -> Image.Image:
    """The image turned as its EXIF says; unchanged if it has no EXIF or the EXIF cannot be read."""
    if "exif" not in image.info:
        return image
    try:
        return ImageOps.exif_transpose(image) or image
    except Exception:  # a damaged EXIF block is no reason to refuse good pixels
        return image
