"""How many images a request may have."""

from gateways.core.errors import ServeError, Status

MAX_IMAGES = 32


def check_count(count: int) -> None:
    """Refuse an empty request and one above the batch limit."""
    if not 1 <= count <= MAX_IMAGES:
        raise ServeError(Status.INVALID, f"{count} images: send 1 to {MAX_IMAGES} in one request")
