"""Pages that repeat what the code says are held to it."""

import json
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


def test_the_budgets_page_has_the_measured_numbers() -> None:
    """The table of docs/budgets.md is the newest result of scripts/budgets."""
    newest = max(ROOT.glob("results/*/*/budgets.json"))
    result, page = json.loads(newest.read_text()), (ROOT / "docs/budgets.md").read_text()
    assert str(newest.relative_to(ROOT)) in page
    for row in (
        f"| all images together, unique layers | <= 4 GB | {result['images_unique_layers_mb'] / 1000:.2f} GB |",
        f"| all containers idle | <= 3 GB | {result['idle_memory_mib'] * 1.048576 / 1000:.2f} GB |",
        f"| built images to everything healthy | <= 60 s | {result['start_to_healthy_s']} s |",
    ):
        assert row in page
