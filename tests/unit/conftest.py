"""What all unit tests share."""

import os
from collections.abc import Iterator

import pytest

from gateways.core.threads import CORES


@pytest.fixture(autouse=True)
def unbound() -> Iterator[None]:
    """An engine that a test makes binds the test's own thread to a core: the next test has them all again."""
    yield
    os.sched_setaffinity(0, CORES)
