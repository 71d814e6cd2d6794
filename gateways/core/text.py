"""What a client sends as text: base64 and JSON."""

from collections.abc import Callable
from typing import Any

import orjson
import pybase64

from gateways.core.errors import ServeError, Status


def unbase64(text: object, name: str, decode: Callable[..., bytes] = pybase64.b64decode) -> bytes:
    """The bytes of base64 text, which messages call `name`. Raises ServeError. `decode` is the decoder to use."""
    if not isinstance(text, str):
        raise ServeError(Status.INVALID, f"{name} is not a string: send base64")
    try:
        return decode(text, validate=True)
    except ValueError:
        raise ServeError(
            Status.INVALID, f"{name} is not base64: send standard base64 with padding, without line breaks"
        ) from None


def parsed_json(body: bytes, example: str) -> Any:
    """The value of a JSON body. Raises ServeError, which says what to send by this `example`."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ServeError(Status.INVALID, f"the body is not JSON ({error}): send {example}") from None
