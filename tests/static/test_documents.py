"""Pages that repeat what the code says are held to it."""

import re

from tests.repository import ROOT
from tests.stack.errors_page import PAGE, render


def test_every_route_is_in_the_readme() -> None:
    """The route table has one row per route, named as everywhere."""
    from tests.clients import ROUTES

    readme = (ROOT / "README.md").read_text()
    rows = re.findall(r"^\| *`([\w-]+)`", readme, re.M)
    assert [name for name in rows if name in ROUTES] == list(ROUTES)


def test_a_route_has_one_name_everywhere() -> None:
    """Envoy cluster, Locust user class, test client."""
    from locustfiles.routes import ROUTES as LOADED
    from tests.clients import ROUTES

    clusters = re.findall(r"^    - name: ([\w-]+)$", (ROOT / "compose/envoy/envoy.yaml").read_text().split("  clusters:")[1], re.M)
    assert set(clusters) - {"admin"} == set(ROUTES) == set(LOADED)


def test_the_errors_page_is_the_tested_table() -> None:
    """docs/errors.md is what tests/stack/bad_input.py says: `python -m tests.stack.errors_page` writes it."""
    assert (ROOT / PAGE).read_text() == render()
