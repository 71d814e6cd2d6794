"""Which errors a client may see, and how each protocol says them.

    client --bytes--> gateway --JPEGs--> decode --tensors--> upstream --answers--> client
                      INVALID            INVALID             OVERLOADED, TIMEOUT, UNAVAILABLE
                      UNSUPPORTED_MEDIA  TOO_LARGE
                      NOT_FOUND

Code raises ServeError with a message written for the client: what is wrong and what to do. Any other exception that
escapes is a bug: the gateway logs it and the client gets INTERNAL with the fixed message below, never its text.
"""

from enum import Enum
from logging import Logger

INTERNAL_MESSAGE = "internal error: the server's log has the details"


RETRY_S = 1
"""The hint to clients: HTTP's retry-after, in seconds, and gRPC's grpc-retry-pushback-ms."""


class Status(Enum):
    """One failure class and its two spellings: the HTTP status code and the name of the gRPC status code."""

    INVALID = (400, "INVALID_ARGUMENT")
    UNSUPPORTED_MEDIA = (415, "INVALID_ARGUMENT")
    TOO_LARGE = (413, "RESOURCE_EXHAUSTED")
    NOT_FOUND = (404, "NOT_FOUND")
    UNIMPLEMENTED = (404, "UNIMPLEMENTED")
    OVERLOADED = (429, "RESOURCE_EXHAUSTED")
    UNAVAILABLE = (503, "UNAVAILABLE")
    TIMEOUT = (504, "DEADLINE_EXCEEDED")
    INTERNAL = (500, "INTERNAL")

    def __init__(self, http: int, grpc: str) -> None:
        self.http, self.grpc = http, grpc

    @property
    def later(self) -> bool:
        """Whether the same request may well be answered in RETRY_S seconds."""
        return self in (Status.OVERLOADED, Status.UNAVAILABLE)


class ServeError(Exception):
    """A failure with a message for the client."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def told(error: BaseException, log: Logger, what: str = "internal error") -> ServeError:
    """`error` itself if it was written for clients; else the fixed INTERNAL text, and the log has `what` failed."""
    if isinstance(error, ServeError):
        return error
    log.error(what, exc_info=error)
    return ServeError(Status.INTERNAL, INTERNAL_MESSAGE)
