"""A first look at the JPEGs, so that no backend is bothered with what its header already rules out."""

from collections.abc import Sequence
from io import BytesIO

from PIL import Image

from gateways.core.image import MAX_BYTES, MAX_PIXELS, decode


def check(jpegs: Sequence[bytes]) -> None:
    """Raise core's ServeError for the first JPEG that is too large, too many pixels, or has no readable header.

    About 40 microseconds per photo. A hostile header can take seconds: call it in a thread.
    """
    for index, jpeg in enumerate(jpegs):
        if not _fine(jpeg):
            decode(jpeg, min_side=1, name=f"images[{index}]")  # has the words for what is wrong


def _fine(jpeg: bytes) -> bool:
    if len(jpeg) > MAX_BYTES:
        return False
    try:
        width, height = Image.open(BytesIO(jpeg), formats=["JPEG"]).size
    except Exception:  # Pillow raises OSError, SyntaxError, struct.error, ... for a damaged header
        return False
    return width * height <= MAX_PIXELS
