"""With an API_KEY: what Locust's page answers without it, and which workers join the master."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.measure.ports import free_port
from locustfiles import health
from tests.unit.locust_processes import paths, python, until
from tests.unit.tiny_artifacts import tiny

KEY = "0123456789abcdef"
OPEN = {"/login", "/assets/<path:path>"}
"""What a browser needs to ask for the key."""
OURS = ("/report", "/routes.csv", "/matrix.csv", "/routes.json")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a master with a key. Three workers knock: without a key, with another, with the right one."""
    port, web = free_port(), free_port()
    environment = paths(tiny(tmp_path_factory.mktemp("artifacts")))
    quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with ExitStack() as stack:

        def locust(key: str, *options: Any) -> subprocess.Popen[str]:
            asked = environment | ({"API_KEY": key} if key else {})
            return stack.enter_context(python("-m", "locust", *options, env=asked, **quiet))

        locust(KEY, "--master", "--web-login", "--web-port", web, "--master-bind-port", port)
        for key in ("", KEY[::-1], KEY):
            locust(key, "--worker", "--master-port", port)
        yield f"http://127.0.0.1:{web}"


def test_only_a_worker_with_the_key_joins(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without encryption all three would be here: the right one is the last to come."""
    monkeypatch.setenv("API_KEY", KEY)  # the health check sends it
    port = httpx.URL(page).port or 0
    until(lambda: health.workers("127.0.0.1", port), "the worker with the key")
    assert len(health.workers("127.0.0.1", port)) == 1


def test_every_page_asks_for_the_key(page: str) -> None:
    """Every path of Locust and of this project leads to the login page. Only the form and its styles are open."""
    locust = find_spec("locust")  # to import it would patch this process
    assert locust
    assert locust.origin
    source = Path(locust.origin).with_name("web.py").read_text()
    theirs = re.findall(r'@app_blueprint\.route\("([^"]+)"(?:, methods=\["(\w+)"\])?', source)
    assert len(theirs) > 15
    for path, method in [*theirs, *((path, "") for path in OURS)]:
        answer = httpx.request(method or "GET", page + path, timeout=10)
        to = answer.headers.get("location", "")
        assert (answer.status_code == 302 and to.startswith("/login?next=")) is (path not in OPEN), (path, answer)


def test_the_form_lets_in_who_has_the_key(page: str) -> None:
    """A wrong key is said to be wrong; the right one opens the page, and a cookie that no other site can send stays."""
    with httpx.Client(base_url=page, timeout=10) as browser:
        refused = browser.post("/key", data={"key": "wrong"}, follow_redirects=True)
        assert (refused.url.path, "That is not the key" in refused.text) == ("/login", True)
        assert browser.get("/").status_code == 302
        opened = browser.post("/key", data={"key": KEY})
        assert (opened.status_code, opened.headers["location"]) == (303, "/")
        assert {"HttpOnly", "SameSite=Strict"} <= {*opened.headers["set-cookie"].split("; ")}
        assert browser.get("/").status_code == browser.get("/routes.csv").status_code == 200
