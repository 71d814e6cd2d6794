"""What tests share: the repository, the photos, and a stack that is known to be up."""

import functools
import os
from pathlib import Path
from typing import Any

import pytest

from chaos.docker import containers, health, service_of, wait_until
from tests.repository import ROOT, compose

PHOTOS = ROOT / "models" / "photos"
# Kills servers: whatever runs with it would see them die.
LAST = "test_chaos.py"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shard", default="1/1", metavar="I/N", help="only the I-th of N shares of the test files")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Of a shard its files only: what is not collected is not imported either."""
    share, shares = map(int, config.getoption("--shard").split("/"))
    if shares == 1 or not collection_path.match("test_*.py"):
        return None
    beside = sorted(collection_path.parent.glob("test_*.py"))
    return True if beside.index(collection_path) % shares != share - 1 else None


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


@functools.cache
def services() -> set[str]:
    """Those that go on running, the profile `transport` too: what scripts/test has started."""
    found: dict[str, dict[str, Any]] = compose()["services"]
    wanted = {name for name, about in found.items() if not set(about.get("profiles", ())) - {"transport"}}
    return {name for name in wanted if found[name]["restart"] != "no"}


@pytest.fixture(scope="session")
def stack() -> None:
    """Waits until every service is healthy; one line says what is not. On a cluster tests/kubernetes has waited."""
    if "KUBECONFIG" in os.environ:
        return
    try:
        wait_until(all_healthy, "the stack is not up and healthy (scripts/test starts it)", seconds=90, every=2)
    except AssertionError as error:
        pytest.exit(str(error), returncode=1)


@pytest.fixture(autouse=True, scope="module")
def _running(request: pytest.FixtureRequest) -> None:
    """Golden and stack tests talk to the stack."""
    if request.path.parent.name in ("golden", "stack"):
        request.getfixturevalue("stack")


def all_healthy() -> bool:
    """True when every service runs and is healthy; raises RuntimeError with what is not."""
    states = [(service_of(found), health(found)) for found in containers()]
    wrong = sorted({f"{name} is {state}" for name, state in states if name in services() and state != "healthy"})
    missing = services() - {name for name, _ in states}
    if wrong or missing:
        raise RuntimeError(", ".join([*wrong, *(f"{name} is not running" for name in sorted(missing))]))
    return True
