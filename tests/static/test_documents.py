"""Pages that repeat what the code says are held to it."""

import re

from locustfiles.routes import ROUTES as LOADED
from tests.clients import ROUTES, WITHOUT_MODEL
from tests.repository import ROOT
from tests.stack.errors_page import PAGE, render


def test_every_route_is_in_the_readme() -> None:
    """The route table has one row per route, in the order used everywhere."""
    rows = re.findall(r"^\| *`([\w-]+)`", (ROOT / "README.md").read_text(), re.M)
    assert [name for name in rows if name in ROUTES] == list(ROUTES)
    assert [name for name in rows if name in WITHOUT_MODEL] == list(WITHOUT_MODEL)


def test_a_route_has_one_name_everywhere() -> None:
    """Envoy cluster, Locust user class, test client; those without a model have no user class."""
    envoy = (ROOT / "compose/envoy/envoy.yaml").read_text()
    clusters = re.findall(r"^    - name: ([\w-]+)$", envoy.partition("  clusters:")[2], re.M)
    assert set(clusters) - {"admin", *WITHOUT_MODEL} == set(ROUTES) == set(LOADED)


def test_the_errors_page_is_the_tested_table() -> None:
    """docs/errors.md is what tests/stack/bad_input.py says: `python -m tests.stack.errors_page` writes it."""
    assert (ROOT / PAGE).read_text() == render()
