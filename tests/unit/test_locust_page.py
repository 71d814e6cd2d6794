"""What the Locust page is taught, asked as its form and its tabs ask it: a master and two workers, stand-in servers."""

import csv
import io
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.measure.ports import free_port
from chaos.docker import wait_until
from locustfiles import health
from locustfiles.routes import ROUTES
from tests.unit.locust_processes import paths, python, until
from tests.unit.locust_servers import StandIn, standing_in
from tests.unit.tiny_artifacts import tiny

MATRIX: dict[str, Any] = {"shape_class": "5-way matrix"}
STEPS = ["onnx-http b1 c1", "onnx-http b4 c1", "onnx-http b1 c4"]
"""Of the matrix as locust_fast.py has it."""
HELD_S = 4
"""Twice the pause between two steps. (Importing the shape would import Locust, which patches this process.)"""
GRPC = [name for name, route in ROUTES.items() if route.format.protocol == "gRPC"]


class Page(httpx.Client):
    """Locust's web API, as its page uses it."""

    def __init__(self, host: str) -> None:
        self.port, self._host = free_port(), host
        super().__init__(base_url=f"http://127.0.0.1:{self.port}", timeout=10)

    def start(self, *routes: str, without: str = "", **changes: Any) -> Any:
        """Post the form as the page does: with every field. Locust keeps what a form leaves out from the run before."""
        form = {"batch": 1, "photo": "224x224", "target": "edge", "policy": "pooled", "step_seconds": 1}
        form |= {"user_count": 2, "spawn_rate": 50, "host": self._host, "user_classes": routes} | changes
        form.pop(without, None)

        def started() -> Any:
            answer = self.post("/swarm", data=form).json()
            return None if "try again" in answer["message"] else answer

        answer = wait_until(started, "the end of the test before", seconds=60, every=0.2)
        if answer["success"]:  # from then on the numbers are this test's
            until(lambda: self.stats()["state"] in ("spawning", "running"), "a running test")
        return answer

    def stats(self) -> Any:
        return self.get("/stats/requests").json()

    def counts(self) -> dict[str, tuple[int, int]]:
        """Requests and failures by name."""
        found = {row["name"]: (row["num_requests"], row["num_failures"]) for row in self.stats()["stats"]}
        found.pop("Aggregated", None)
        return found

    def called(self, *routes: str, least: int) -> bool:
        """Has each of the routes so many requests?"""
        found = self.counts()
        return all(found.get(name, (0, 0))[0] > least for name in routes)

    def tab(self, name: str) -> list[dict[str, str]]:
        """Its rows as its table shows them: a browser shows no leading blanks."""
        (found,) = [one["data"] for one in self.stats()["extended_stats"] if one["key"] == name]
        return [{key: text.strip() for key, text in row.items()} for row in found]

    def stop(self) -> None:
        """Stop the test, where there is one; its workers leave and join again."""
        if self.stats()["state"] not in ("ready", "stopped"):
            self.post("/stop")
        resting = ["ready", "ready"]
        until(lambda: [one["state"] for one in self.stats()["workers"]] == resting, "two workers that rest")


@pytest.fixture(scope="module")
def servers() -> Iterator[StandIn]:
    """Slow ones: what is asked here needs few calls."""
    with standing_in(0.1) as found:
        yield found


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty results folder, which the master finds."""
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def image(results: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An image's environment, with a model `tiny` and a tensor per photo."""
    return paths(tiny(tmp_path_factory.mktemp("artifacts"))) | {"RESULTS": str(results)}


@pytest.fixture(scope="module")
def cluster(servers: StandIn, image: dict[str, str]) -> Iterator[tuple[Page, list[subprocess.Popen[str]]]]:
    """A master with its page and two workers. Before it has any, it refuses to start."""
    page, port = Page(servers.host), free_port()
    master = ["--master", "--class-picker", "--web-port", page.port, "--master-bind-port", port]
    with ExitStack() as stack:

        def locust(*options: Any) -> subprocess.Popen[str]:
            quiet = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            return stack.enter_context(python("-m", "locust", *options, env=image, **quiet))

        processes = [locust(*master)]
        until(page.stats, "the page")
        assert "no worker" in page.start()["message"]
        processes += [locust("--worker", "--master-port", port) for _ in range(2)]
        until(lambda: len(health.workers("127.0.0.1", page.port)) == 2, "two workers")
        yield page, processes


@pytest.fixture
def page(cluster: tuple[Page, Any]) -> Iterator[Page]:
    """Without any load, before and after."""
    yield cluster[0]
    cluster[0].stop()


@pytest.mark.parametrize(
    ("policy", "connections"), [("pooled", [8]), ("shared", range(1, 3)), ("cold", range(20, 10_000))]
)
def test_the_form_reaches_the_workers(policy: str, connections: Sequence[int], page: Page) -> None:
    """Eight users on a route: with `pooled` one connection each, with `shared` at most one a worker, with `cold` one a
    call; its batch. At rest the table has Locust's own counts, until Locust's reset button empties it too."""
    routes = ["onnx-grpc", "onnx-jpeg-grpc"]
    started = page.start(*routes, user_count=8 * len(routes), policy=policy, batch=2)
    assert started["user_classes"] == routes

    def counted() -> bool:
        made = {row["route"]: int(row["connections"].replace(",", "")) for row in page.tab("routes")}
        return set(made) == set(routes) and all(number in connections for number in made.values())

    until(lambda: page.called(*routes, least=20) and counted(), f"twenty calls each, {connections} connections")
    page.stop()

    def at_rest() -> bool:
        rows = page.get("/routes.json").json()["routes"]
        counts = {row["route"]: (row["requests"], row["failures"]) for row in rows}
        return counts == page.counts() and counted()

    until(at_rest, "the counts that Locust has")
    page.post("/stats/reset")
    until(lambda: page.tab("routes") == [], "an empty table")


def test_one_process_fills_the_table_too(servers: StandIn, image: dict[str, str]) -> None:
    """Locust without workers records and shows in the same process."""
    page = Page(servers.host)
    with python("-m", "locust", "--web-port", page.port, env=image, stderr=subprocess.DEVNULL):
        until(page.stats, "the page")
        assert page.start(*ROUTES, target="direct")["success"] is False
        assert page.start()["success"]
        until(lambda: page.tab("routes"), "a row")


def test_matrix_steps_through_batches_and_users_and_stops(
    page: Page, cluster: tuple[Page, list[subprocess.Popen[str]]]
) -> None:
    """Each step is measured with its own batch and users, one route at a time; then the load ends by itself.

    The workers are held up between two steps: what they are told meanwhile reaches them at once.
    """
    assert page.start("onnx-http", step_seconds=2, **MATRIX)["success"]
    assert "stop it first" in page.start("onnx-http")["message"]
    until(lambda: page.tab("matrix")[0]["state"] == "measuring", "a step that is measured")
    time.sleep(1)  # ten calls
    for worker in cluster[1][1:]:
        worker.send_signal(signal.SIGSTOP)
    until(lambda: page.tab("matrix")[0]["state"] == "done", "the end of the step")
    time.sleep(HELD_S)
    for worker in cluster[1][1:]:
        worker.send_signal(signal.SIGCONT)
    until(lambda: page.stats()["state"] == "stopped", "the end of the matrix")
    page.stop()
    until(lambda: [row["connections"] for row in page.tab("matrix")] == ["1", "1", "4"], "the numbers of both workers")
    rows = page.tab("matrix")
    assert all(row["requests"] not in ("0", "–") for row in rows)
    assert [(row["step"], row["state"], row["failures"]) for row in rows] == [(step, "done", "0") for step in STEPS]
    # A tensor request has a header of some 200 bytes: the more images share it, the fewer bytes has each.
    one, four, again = [float(row["sent_per_image"].replace(",", "")) for row in rows]
    assert four < one == again
    assert [row["step"] for row in csv.DictReader(io.StringIO(page.get("/matrix.csv").text))] == STEPS
    (route,) = page.tab("routes")
    # Of the warm-ups too: a user whose call fails connects again.
    assert (route["failures"], route["p50_ms"], route["images_per_s"]) == ("0", "–", "–"), "a mix of all steps"

    # The batch of the last step is not left behind.
    assert page.start("onnx-http", without="batch")["success"]
    until(lambda: [row["sent_per_image"] for row in page.tab("routes")] == [rows[0]["sent_per_image"]], "batch 1")


def test_a_matrix_that_is_stopped_says_so(page: Page) -> None:
    """The step that was under way is marked, the later ones stay ahead, and an ordinary run can follow."""
    assert page.start("jpeg-http", step_seconds=60, **MATRIX)["success"]
    until(lambda: page.tab("matrix")[0].get("state") == "measuring", "a step that is measured")
    page.stop()
    assert [row["state"] for row in page.tab("matrix")] == ["stopped", "ahead", "ahead"]
    assert page.start("jpeg-http")["success"]
    until(lambda: [row["images_per_s"] not in ("", "–") for row in page.tab("routes")] == [True], "a rate")
    assert "stop it before" in page.start("jpeg-http", **MATRIX)["message"]


@pytest.mark.parametrize(
    ("form", "word"),
    [
        ({"batch": 2}, "torchserve-http"),
        ({"shape_class": "Wave"}, "Wave"),
        (MATRIX | {"user_classes": ["typed-http", "onnx-http"]}, "typed-http"),
        (MATRIX | {"user_classes": ["nope"]}, "nope"),
        (MATRIX | {"batch": 8}, "batch"),
        (MATRIX | {"step_seconds": "long"}, "step seconds"),
        (MATRIX | {"step_seconds": "0"}, "step seconds"),
        (MATRIX | {"policy": "none"}, "pooled"),
    ],
)
def test_a_form_that_cannot_be_run_is_refused(form: dict[str, Any], word: str, page: Page) -> None:
    """With one line that says what is wrong, and nothing starts."""
    answer = page.start(**form)
    assert answer["success"] is False
    assert word in answer["message"]
    assert page.stats()["state"] in ("ready", "stopped")


def test_the_form_has_our_fields_and_no_shape_by_default(page: Page) -> None:
    """Batch, photo, target, policy, size, distance, step seconds are in it; its shapes: `Default`, then the matrix."""
    html = page.get("/").text
    arguments = json.loads(html.partition("window.templateArgs = ")[2].partition("\n")[0])
    assert {"batch", "photo", "target", "policy", "size", "distance", "step_seconds"} == set(arguments["extra_options"])
    assert arguments["extra_options"]["policy"]["choices"] == ["pooled", "shared", "cold"]
    assert arguments["available_shape_classes"] == ["Default", "5-way matrix"]
    assert [tab["title"] for tab in arguments["extended_tabs"]] == ["Routes", "Matrix"]
    assert "./report" in html


def test_report_is_the_newest_and_the_only_file_that_is_served(results: Path, tmp_path: Path, page: Page) -> None:
    """The latest date, then the last written; a link out of results/ does not count."""
    (results / "2026-04-01/lab/run").mkdir(parents=True)
    (results / "2026-04-01/lab/run/report.html").symlink_to(tmp_path / "secret.html")
    (tmp_path / "secret.html").write_text("secret")
    for path in ("/report", "/report?path=../secret.html"):
        answer = page.get(path)
        assert (answer.status_code, "./scripts/bench" in answer.text, "secret" in answer.text) == (404, True, False)
    for number, where in enumerate(["2026-03-01/lab/b", "2026-03-01/lab/a", "2026-02-28/lab/z", "old/lab/x"]):
        (results / where).mkdir(parents=True)
        file = results / where / "report.html"
        file.write_text(f"<p>report of {where} é")
        os.utime(file, (9e8 + (100 - number if "03-01" in where else 999),) * 2)
    answer = page.get("/report")
    assert (answer.status_code, answer.text) == (200, "<p>report of 2026-03-01/lab/b é")
    assert answer.headers["Content-Type"].startswith("text/html")
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline';")
    assert "script" not in policy


def test_processes_end_at_once(cluster: tuple[Page, list[subprocess.Popen[str]]]) -> None:
    """In the middle of calls a worker, then the master with the other worker, end by SIGTERM."""
    page, (master, first, second) = cluster  # this test is the last: it leaves none of them
    assert page.start(*GRPC, user_count=16)["success"]
    until(lambda: page.called(*GRPC, least=5), "five calls of each route")
    first.terminate()
    assert first.wait(30) == 0
    until(lambda: len(health.workers("127.0.0.1", page.port)) == 1, "one worker")
    master.terminate()
    assert master.wait(30) == 0
    assert second.wait(30) == 0
