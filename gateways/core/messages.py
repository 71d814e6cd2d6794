"""Protobuf messages from a client's bytes."""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from gateways.core.errors import ServeError, Status

M = TypeVar("M", bound=Message)


def parse(kind: type[M], body: bytes, proto: str = "this service's proto") -> M:
    """Raises ServeError: gRPC's own answer to bytes that are no message would be an internal error."""
    try:
        return kind.FromString(body)
    except DecodeError:
        raise ServeError(
            Status.INVALID, f"the message is no {kind.DESCRIPTOR.full_name}: generate your client from {proto}"
        ) from None
