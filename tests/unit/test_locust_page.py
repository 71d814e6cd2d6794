"""What the Locust page is taught, asked as its form and its tabs ask it: a master and two workers, stand-in servers."""

import contextlib
import csv
import io
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from tests.unit import test_locust_runs as runs
from tests.unit.test_locust_runs import DELAY_S, GRPC, HTTP, Page, Servers, free_port, python, until

environment, good = runs.environment, runs.good

BATCHES = (1, 4, 8, 16, 32)
STEPS = [*[f"onnx-http b{batch} c1" for batch in BATCHES], "onnx-http b1 c8", "onnx-http b1 c16"]
MATRIX: dict[str, Any] = {"shape_class": "5-way matrix"}
# Workers report every 3 s, and the page asks again after 2 s.
SETTLED_S = 5.5


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty results folder, which the master finds."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RESULTS", str(folder))
        yield folder


@pytest.fixture(scope="module")
def cluster(environment: None, results: Path) -> Iterator[Page]:
    """A master with its page and two workers. Before it has any, it refuses to start."""
    page, port = Page(free_port()), free_port()
    master = ["-m", "locust", "--master", "--class-picker", "--web-port", page.address[1], "--master-bind-port", port]
    worker = ["-m", "locust", "--worker", "--master-port", port]
    with contextlib.ExitStack() as stack:
        stack.enter_context(python(master, stderr=subprocess.DEVNULL))
        until(lambda: answers(page))
        refusal = page.post("/swarm", user_count=9, spawn_rate=9, host="http://127.0.0.1:1")
        assert "no worker is connected" in refusal["message"]
        for _ in range(2):
            stack.enter_context(python(worker, stderr=subprocess.DEVNULL))
        until(lambda: page.workers() == 2)
        yield page


def start(page: Page, host: str, *routes: str, users: int = 2, without: str = "", **changes: Any) -> dict[str, Any]:
    """Post the form as the page does: with every field. Locust keeps what a form leaves out from the run before."""
    form = {"batch": 1, "photo": "224x224", "target": "edge", "policy": "pooled", "step_seconds": 1}
    form |= {"user_count": users, "spawn_rate": users, "host": host, "user_classes": routes} | changes
    form.pop(without, None)
    return page.post("/swarm", **form)


@pytest.fixture
def page(cluster: Page) -> Iterator[Page]:
    """Without any load, before and after."""
    yield cluster
    finish(cluster)


def answers(page: Page) -> bool:
    with contextlib.suppress(OSError):
        return bool(page.stats())
    return False


def get(page: Page, path: str) -> tuple[int, Message, str]:
    """Status, headers and text."""
    try:
        with urllib.request.urlopen(f"{page.url}{path}", timeout=10) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def shown(page: Page, tab: str) -> list[dict[str, str]]:
    """A tab's rows as its table shows them: a browser shows no leading blanks."""
    (found,) = [one["data"] for one in page.stats()["extended_stats"] if one["key"] == tab]
    return [{key: text.strip() for key, text in row.items()} for row in found]


def downloaded(page: Page, name: str) -> list[dict[str, str]]:
    status, headers, text = get(page, f"/{name}.csv")
    assert status == 200
    assert headers["Content-Disposition"] == f"attachment; filename={name}.csv"
    return list(csv.DictReader(io.StringIO(text)))


def finish(page: Page) -> None:
    """Stop, and wait until the workers' last numbers have come."""
    if page.stats()["state"] in ("spawning", "running"):
        assert page.post("/stop")["success"]
        until(lambda: page.stats()["state"] == "stopped")
        time.sleep(SETTLED_S)


def test_routes_tab_says_what_the_workers_did(good: Servers, page: Page) -> None:
    """Requests are Locust's own count, p50 has two decimals, a pooled user has a connection; the CSV is the table."""
    assert start(page, good.http, *HTTP, users=2 * len(HTTP))["success"]
    until(lambda: all(page.counts().get(name, (0, 0))[0] > 120 for name in HTTP))
    finish(page)
    table = {row["route"]: row for row in shown(page, "routes")}
    counts = page.counts()
    assert set(table) == set(HTTP)
    for name, row in table.items():
        assert int(row["requests"].replace(",", "")) == counts[name][0]
        assert row["failures"] == "0"
        assert row["p50_ms"] == f"{float(row['p50_ms']):.2f}"
        assert float(row["p50_ms"]) >= DELAY_S * 1000
        assert float(row["images_per_s"]) > 0
        assert row["connections"] == "2"
    assert table["onnx-http"]["sent_per_image"].startswith("602,")
    for row in downloaded(page, "routes"):
        bare = {key: text.replace(",", "").replace("–", "") for key, text in table[row["route"]].items()}
        # What is recent changes with the time of reading.
        del row["images_per_s_now"]
        assert row.items() <= bare.items()
    assert {row["route"] for row in json.loads(get(page, "/routes.json")[2])["routes"]} == set(HTTP)


def test_a_new_test_begins_with_an_empty_table(good: Servers, page: Page) -> None:
    """Of the run before nothing is left; Locust's reset button empties the table too."""
    assert start(page, good.http, "typed-http")["success"]
    until(lambda: [row["route"] for row in shown(page, "routes")] == ["typed-http"])
    finish(page)
    with urllib.request.urlopen(f"{page.url}/stats/reset", b"", timeout=10) as answer:
        assert answer.status == 200
    until(lambda: shown(page, "routes") == [])


@pytest.mark.parametrize(("policy", "connections"), [("shared", range(1, 3)), ("cold", range(20, 10_000))])
def test_the_policy_reaches_the_workers(policy: str, connections: range, good: Servers, page: Page) -> None:
    """Eight users on a route: with `shared` one connection per worker at most, with `cold` one per call."""
    assert start(page, good.grpc, *GRPC, users=8 * len(GRPC), policy=policy)["success"]
    until(lambda: all(page.counts().get(name, (0, 0))[0] > 40 for name in GRPC))
    rows = shown(page, "routes")
    assert {row["route"] for row in rows} == set(GRPC)
    assert all(int(row["connections"].replace(",", "")) in connections for row in rows)


def test_one_process_fills_the_table_too(good: Servers) -> None:
    """Locust without workers records and shows in the same process."""
    page = Page(free_port())
    with python(["-m", "locust", "--web-port", page.address[1], "--host", good.http], stderr=subprocess.DEVNULL):
        until(lambda: answers(page))
        assert page.post("/swarm", user_count=1, spawn_rate=1, target="direct")["success"] is False
        assert page.post("/swarm", user_classes="jpeg-http", user_count=9, spawn_rate=9)["success"]
        until(lambda: any(row["route"] == "jpeg-http" and int(row["requests"]) > 9 for row in shown(page, "routes")))
        assert page.stats()["state"] in ("spawning", "running")


def test_matrix_steps_through_batches_and_users_and_stops(good: Servers, page: Page) -> None:
    """Each step is measured with its own batch and users, one route at a time; then the load ends by itself."""
    assert start(page, good.http, "onnx-http", **MATRIX)["success"]
    until(lambda: page.stats()["state"] == "running")
    assert "is running: stop it first" in start(page, good.http)["message"]
    until(lambda: page.stats()["state"] == "stopped")
    until(lambda: all(row["requests"] not in ("0", "–") for row in shown(page, "matrix")))
    rows = shown(page, "matrix")
    assert [(row["step"], row["state"]) for row in rows] == [(step, "done") for step in STEPS]
    # Of the warm-ups too: a user whose call fails connects again.
    assert [row["failures"] for row in shown(page, "routes")] == ["0"]
    assert {row["failures"] for row in rows} == {"0"}
    assert [row["connections"] for row in rows] == ["1"] * len(BATCHES) + ["8", "16"]
    # A tensor request has a header of some 200 bytes: the more images share it, the fewer bytes has each.
    sent = [float(row["sent_per_image"].replace(",", "")) for row in rows]
    assert sent[:5] == sorted(set(sent[:5]), reverse=True)
    assert sent[0] == sent[5] == sent[6]
    assert [row["step"] for row in downloaded(page, "matrix")] == STEPS
    (route,) = shown(page, "routes")
    assert int(route["requests"].replace(",", "")) == page.counts()["onnx-http"][0]
    assert (route["p50_ms"], route["images_per_s"]) == ("–", "–"), "a mix of all steps"

    # The batch of the last step is not left behind.
    assert start(page, good.http, "onnx-http", without="batch")["success"]
    until(lambda: [row["sent_per_image"] for row in shown(page, "routes")] == [rows[0]["sent_per_image"]])


def test_a_matrix_that_is_stopped_says_so(good: Servers, page: Page) -> None:
    """The step that was under way is marked, the later ones stay ahead, and an ordinary run can follow."""
    assert start(page, good.http, "jpeg-http", step_seconds=60, **MATRIX)["success"]
    until(lambda: shown(page, "matrix")[0].get("state") == "measuring")
    finish(page)
    assert [row["state"] for row in shown(page, "matrix")] == ["stopped"] + ["ahead"] * 6
    assert start(page, good.http, "jpeg-http")["success"]
    until(lambda: [row["images_per_s"] not in ("", "–") for row in shown(page, "routes")] == [True])
    assert "before the 5-way matrix starts" in start(page, good.http, "jpeg-http", **MATRIX)["message"]


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({"policy": "none"}, "unknown policy none: choose pooled, shared, cold"),
        ({"target": "moon"}, "target 'moon': choose edge, direct, or write an edge like http://edge:8080"),
        ({"target": "direct"}, "only at the edge: typed-http"),
        ({"shape_class": "Wave"}, "unknown shape class Wave: choose Default or 5-way matrix"),
        (MATRIX | {"user_classes": ["typed-http", "onnx-http"]}, "the 5-way matrix has no typed-http: pick from jpeg-"),
        (MATRIX | {"user_classes": ["nope"]}, "unknown user class nope: choose from jpeg-http"),
        (MATRIX | {"batch": 8}, "the 5-way matrix sets the batch of each step itself: leave batch at 1"),
        (MATRIX | {"step_seconds": "long"}, "step seconds long: choose 1 to 600"),
        (MATRIX | {"step_seconds": "0"}, "step seconds 0: choose 1 to 600"),
        (MATRIX | {"policy": "none"}, "unknown policy none"),
    ],
)
def test_refusals_say_what_to_choose(form: dict[str, Any], says: str, page: Page) -> None:
    """A form that cannot be run is refused with one line, and nothing starts."""
    answer = start(page, "http://127.0.0.1:1", **form)
    assert answer["success"] is False
    assert says in answer["message"]
    assert page.stats()["state"] in ("ready", "stopped")


def test_the_form_has_our_fields_and_no_shape_by_default(page: Page) -> None:
    """Batch, photo, target, policy, size, distance, step seconds are in it; its shapes: `Default`, then the matrix."""
    html = get(page, "/")[2]
    arguments = json.loads(html.partition("window.templateArgs = ")[2].partition("\n")[0])
    assert {"batch", "photo", "target", "policy", "size", "distance", "step_seconds"} == set(arguments["extra_options"])
    assert arguments["extra_options"]["policy"]["choices"] == ["pooled", "shared", "cold"]
    assert arguments["available_shape_classes"] == ["Default", "5-way matrix"]
    assert [tab["title"] for tab in arguments["extended_tabs"]] == ["Routes", "Matrix"]
    assert "./report" in html


def test_report_is_the_newest(results: Path, page: Page) -> None:
    """The latest date, then the last written; without any, one sentence that says how to make one."""
    status, _, text = get(page, "/report")
    assert status == 404
    assert text == "There is no report yet. Make one with ./scripts/bench fiveway --quick\n"
    for number, where in enumerate(["2026-03-01/lab/b", "2026-03-01/lab/a", "2026-02-28/lab/z", "old/lab/x"]):
        (results / where).mkdir(parents=True)
        file = results / where / "report.html"
        file.write_text(f"<p>report of {where} é")
        os.utime(file, (9e8 + (100 - number if "03-01" in where else 999),) * 2)
    status, headers, text = get(page, "/report")
    assert (status, text) == (200, "<p>report of 2026-03-01/lab/b é")
    assert headers["Content-Type"].startswith("text/html")
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline';")
    assert "script" not in policy


def test_report_is_the_only_file_that_is_served(results: Path, tmp_path: Path, page: Page) -> None:
    """No path in the address leads anywhere, and a link out of results/ is no report."""
    (tmp_path / "secret.html").write_text("secret")
    shutil.rmtree(results / "2026-03-01", ignore_errors=True)
    shutil.rmtree(results / "2026-02-28", ignore_errors=True)
    (results / "2026-03-01" / "lab" / "run").mkdir(parents=True)
    (results / "2026-03-01" / "lab" / "run" / "report.html").symlink_to(tmp_path / "secret.html")
    for path in ("/report", "/report/../secret.html", "/report/%2e%2e/secret.html", "/report?path=../secret.html"):
        status, _, text = get(page, path)
        assert status == 404, path
        assert "secret" not in text
