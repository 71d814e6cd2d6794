"""What a client may see of a failure."""

import grpc
import pytest

from gateways.core.errors import INTERNAL_MESSAGE, ServeError, Status, as_serve_error


@pytest.mark.parametrize("status", Status)
def test_every_status_exists_in_both_protocols(status: Status) -> None:
    """An HTTP error code, and the name of a gRPC status that is neither OK nor UNKNOWN."""
    assert 400 <= status.http < 600
    assert grpc.StatusCode[status.grpc] not in (grpc.StatusCode.OK, grpc.StatusCode.UNKNOWN)


def test_a_bug_never_shows_its_text() -> None:
    """Anything that was not written for clients becomes INTERNAL with a fixed message."""
    shown = as_serve_error(KeyError("/secret/path"))
    assert (shown.status, shown.message) == (Status.INTERNAL, INTERNAL_MESSAGE)


def test_an_error_for_clients_stays_itself() -> None:
    """Same object, same message."""
    error = ServeError(Status.NOT_FOUND, "no such model")
    assert as_serve_error(error) is error
