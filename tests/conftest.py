"""What tests share: the repository, the photos, and a stack that is known to be up."""

from pathlib import Path

import pytest

from tests.docker import containers, health, service_of, wait_until
from tests.repository import ROOT

PHOTOS = ROOT / "models" / "photos"
STACK = {"edge", "jpeg-http", "locust-master", "locust-worker", "torchserve", "triton", "typed-grpc"}
TRANSPORT = {"distance", "echo-grpc", "echo-http", "frames", "seldon-grpc", "seldon-http"}
"""Of the profile of that name."""
# Kills servers: whatever runs with it would see them die.
LAST = "test_healing.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What kills servers runs after everything else; the order of the rest stays."""
    items.sort(key=lambda item: item.path.name == LAST)


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def photo() -> bytes:
    """A natural photo, 224 x 224."""
    return (PHOTOS / "otter_224x224.jpg").read_bytes()


@pytest.fixture(scope="session")
def photos() -> dict[str, bytes]:
    """Every sample photo by its name, e.g. `otter_720x1280`."""
    return {path.stem: path.read_bytes() for path in sorted(PHOTOS.glob("*.jpg"))}


@pytest.fixture(scope="session")
def stack() -> None:
    """Waits until every service is healthy; one line says what is not."""
    try:
        wait_until(all_healthy, "the stack is not up and healthy (start it with ./scripts/up)", seconds=90, every=2)
    except AssertionError as error:
        pytest.exit(str(error), returncode=1)


def all_healthy() -> bool:
    """True when every service runs and is healthy; raises RuntimeError with what is not."""
    states = [(service_of(found), health(found)) for found in containers()]
    wrong = sorted({f"{name} is {state}" for name, state in states if name in STACK and state != "healthy"})
    missing = STACK - {name for name, _ in states}
    if wrong or missing:
        raise RuntimeError(", ".join([*wrong, *(f"{name} is not running" for name in sorted(missing))]))
    return True
