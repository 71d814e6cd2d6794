"""Bytes that a client sends as text."""

from collections.abc import Callable

import pybase64

from gateways.core.errors import ServeError, Status


def unbase64(text: str, name: str, decode: Callable[..., bytes] = pybase64.b64decode) -> bytes:
    """The bytes of base64 text, which messages call `name`. Raises ServeError. `decode` is the decoder to use."""
    try:
        return decode(text, validate=True)
    except ValueError:
        raise ServeError(
            Status.INVALID, f"{name} is not base64: send standard base64 with padding, without line breaks"
        ) from None
