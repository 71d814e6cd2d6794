"""Protobuf messages from a client's bytes."""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from gateways.core.errors import ServeError, Status

M = TypeVar("M", bound=Message)


def parse(kind: type[M], body: bytes, proto: str = "this service's proto") -> M:
    """A message from a client's bytes. Raises ServeError for malformed bytes, which gRPC itself answers with
    INTERNAL."""
    try:
        return kind.FromString(body)
    except DecodeError:
        raise ServeError(
            Status.INVALID, f"the message is not a {kind.DESCRIPTOR.full_name}: generate your client from {proto}"
        ) from None
