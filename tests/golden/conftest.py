"""Golden tests need the running stack."""

import pytest


@pytest.fixture(autouse=True, scope="session")
def _running(stack: None) -> None:
    """Every test here talks to the stack."""
