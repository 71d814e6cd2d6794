"""The load generator as it runs: Locust's command line, its page, master and workers, smoke and headless commands.

Each run is a process of its own, since Locust patches the standard library of the one it is in. The servers behind the
routes are stand-ins with a set delay (locust_servers.py).
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from locustfiles import health
from locustfiles.routes import ROUTES
from tests.unit.tiny_artifacts import tiny

HTTP = [name for name, route in ROUTES.items() if route.format.protocol == "HTTP"]
GRPC = [name for name, route in ROUTES.items() if route.format.protocol == "gRPC"]
DELAY_S = 0.02


class Servers(NamedTuple):
    """Where the stand-ins listen: one address per protocol, where the stack has one for both."""

    http: str
    grpc: str


@contextlib.contextmanager
def servers(mode: str, delay_s: float = DELAY_S) -> Iterator[Servers]:
    script = Path(__file__).with_name("locust_servers.py")
    with python([script, delay_s, mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        http, grpc = line(process.stdout).split()
        yield Servers(f"http://127.0.0.1:{http}", f"http://127.0.0.1:{grpc}")


@pytest.fixture(scope="module")
def good() -> Iterator[Servers]:
    with servers("good") as where:
        yield where


@pytest.fixture(scope="module", autouse=True)
def environment(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A model `tiny` with a tensor per photo, and the paths that the image sets."""
    artifacts = tiny(tmp_path_factory.mktemp("artifacts"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ARTIFACTS", str(artifacts))
        patch.setenv("PYTHONPATH", f"{root}:{root / 'proto' / 'gen'}")
        patch.setenv("LOCUST_LOCUSTFILE", str(root / "locustfiles" / "locustfile.py"))
        patch.setenv("PYTHONUNBUFFERED", "1")
        yield


@contextlib.contextmanager
def python(arguments: list[Any], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A Python process that does not outlive the test."""
    command = [sys.executable, *map(str, arguments)]
    with subprocess.Popen(command, text=True, start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def run(*arguments: Any) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of `python ...`."""
    with python(list(arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate()
    return process.returncode, out, err


def line(pipe: IO[str] | None) -> str:
    assert pipe
    return pipe.readline()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, which is asked ten times a second; a test's own time limit ends it."""
    while not condition():
        time.sleep(0.1)


def test_classes_have_the_names_of_the_routes() -> None:
    """`locust --list` shows the route names and nothing else."""
    status, out, _ = run("-m", "locust", "--list")
    assert status == 0
    assert out.split("\n")[1:-1] == [f"    {name}" for name in ROUTES]


def test_command_line_refuses_before_any_load(good: Servers) -> None:
    """An unknown class and a setting that a route cannot serve end Locust with a line that says why."""
    status, _, err = run("-m", "locust", "--headless", "--run-time", "1s", "--host", good.http, "jpeg-htp")
    assert status == 1
    assert "Unknown User(s): jpeg-htp" in err
    status, _, err = run("-m", "locust", "--headless", "--run-time", "1s", "--host", good.http, "--batch", 2, *HTTP)
    assert status == 1
    assert "only 1 image per request on torchserve-http" in err


def test_smoke_asks_every_route_once(good: Servers) -> None:
    """One line per route that answers, status 0."""
    for host, names in ((good.http, HTTP), (good.grpc, GRPC)):
        status, out, err = run("-m", "locustfiles.smoke", "--host", host, *names)
        assert (status, err) == (0, "")
        lines = out.splitlines()
        assert [line.split(" ok ")[0] for line in lines] == names
        assert all(float(line.split()[2]) >= DELAY_S * 1000 for line in lines)


@pytest.mark.parametrize(
    ("mode", "http", "grpc"),
    [
        ("errors", 'HTTP 503: {"error": {"code": "UNAVAILABLE", "message": "down"}}', "UNAVAILABLE: down"),
        ("short", "an embedding for 0 of 1 images", "an embedding for 0 of 1 images"),
    ],
)
def test_smoke_says_what_is_wrong(mode: str, http: str, grpc: str) -> None:
    """A refused call shows its status, a wrong answer what is missing; the exit status is 1."""
    with servers(mode) as where:
        for host, names, error in ((where.http, HTTP, http), (where.grpc, GRPC, grpc)):
            status, out, err = run("-m", "locustfiles.smoke", "--host", host, *names)
            assert (status, out) == (1, "")
            assert err.splitlines() == [f"{name} failed: {error}" for name in names]


def test_smoke_waits_for_a_route() -> None:
    """With --wait it asks again until the server is there, and says once what it waits for."""

    class Late(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.wfile.write(b'HTTP/1.1 200 OK\r\ncontent-length: 23\r\n\r\n{"embeddings": [[1.5]]}')

    port = free_port()
    command = ["-m", "locustfiles.smoke", "--host", f"http://127.0.0.1:{port}", "--wait", "20", "jpeg-http"]
    with python(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as smoke:
        assert "jpeg-http waiting: HTTP connection" in line(smoke.stderr)
        with HTTPServer(("127.0.0.1", port), Late) as late:
            late.handle_request()
        assert line(smoke.stdout).startswith("jpeg-http ok")
        assert smoke.wait(10) == 0


def test_headless_runs_routes_at_once(good: Servers) -> None:
    """Two processes, all routes of a protocol: answers on each, no failure, times above the server's own."""
    for host, names in ((good.http, HTTP), (good.grpc, GRPC)):
        status, out, err = run("-m", "locustfiles.headless", "--host", host, "--seconds", 3, "--at-least", 50, *names)
        assert status == 0, err
        result = json.loads(out)
        assert set(result["routes"]) == set(names)
        for row in result["routes"].values():
            assert row["failures"] == 0
            assert row["p50_ms"] >= DELAY_S * 1000


def test_headless_fails_on_failures() -> None:
    """A route that fails is in the result with its status, and the exit status is 1."""
    with servers("errors") as where:
        status, out, err = run(
            "-m", "locustfiles.headless", "--host", where.grpc, "--seconds", 1, "typed-grpc", "trt-grpc"
        )
    assert status == 1
    assert {error["route"] for error in json.loads(out)["errors"]} == {"typed-grpc", "trt-grpc"}
    assert "UNAVAILABLE: down" in err


def test_headless_fails_below_its_minimum(good: Servers) -> None:
    """Too few requests to mean anything is a failure too."""
    arguments = ["--seconds", 1, "--users", 1, "--processes", 1, "--at-least", 9999, "jpeg-http"]
    status, _, err = run("-m", "locustfiles.headless", "--host", good.http, *arguments)
    assert status == 1
    assert "at least 9999 wanted" in err


def test_users_overlap() -> None:
    """The check that every process with users makes at its start passes."""
    status, _, err = run("-c", "import locust; from locustfiles import overlap; overlap.check()")
    assert status == 0, err


def test_users_that_take_turns_are_caught() -> None:
    """Without init_gevent users run one at a time, and nothing else tells: the check does."""
    without = "import locust, grpc.experimental.gevent as g; g.init_gevent = lambda: None"
    status, _, err = run("-c", f"{without}; from locustfiles import overlap; overlap.check()")
    assert status == 1
    assert "never waited all at once: they run one at a time" in err


def test_a_user_that_is_alone_takes_no_turns() -> None:
    """Its process waits with it, and only while it says so."""
    alone = """
import locust
from locustfiles import overlap
from locustfiles.clients import grpcio
grpcio.alone = True
try:
    overlap.check()
except RuntimeError:
    grpcio.alone = False
    overlap.check()
    print("alone, and not")
"""
    status, out, err = run("-c", alone)
    assert (status, out.strip()) == (0, "alone, and not"), err


class Page:
    """Locust's web API, as its page uses it."""

    def __init__(self, port: int) -> None:
        self.address = ("127.0.0.1", port)
        self.url = f"http://127.0.0.1:{port}"

    def post(self, path: str, **fields: Any) -> dict[str, Any]:
        body = urllib.parse.urlencode(fields, doseq=True).encode()
        with urllib.request.urlopen(f"{self.url}{path}", body, timeout=10) as answer:
            return json.load(answer)

    def stats(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.url}/stats/requests", timeout=10) as answer:
            return json.load(answer)

    def counts(self) -> dict[str, tuple[int, int]]:
        """Requests and failures by name."""
        return {row["name"]: (row["num_requests"], row["num_failures"]) for row in self.stats()["stats"]}

    def workers(self) -> int:
        try:
            return len(health.workers(*self.address))
        except OSError:
            return 0


@pytest.fixture
def cluster() -> Iterator[tuple[Page, list[subprocess.Popen[str]]]]:
    """A master with its page and two workers."""
    page, port = Page(free_port()), free_port()
    master = ["-m", "locust", "--master", "--class-picker", "--host", "http://127.0.0.1:1"]
    worker = ["-m", "locust", "--worker", "--master-port", port]
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(python(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            for command in ([*master, "--web-port", page.address[1], "--master-bind-port", port], worker, worker)
        ]
        until(lambda: page.workers() == 2)
        yield page, processes


def test_page_refuses_and_runs(good: Servers, cluster: tuple[Page, list[subprocess.Popen[str]]]) -> None:
    """The page says no to what it cannot run, takes route names, and both workers send what its form says."""
    page, _ = cluster
    users: dict[str, Any] = {"user_count": 4, "spawn_rate": 4}
    refusal = page.post("/swarm", user_classes=["nope"], host=good.http, **users)
    assert refusal["success"] is False
    assert "unknown user class nope: choose from jpeg-http" in refusal["message"]
    assert page.post("/swarm", host=good.http, batch=2, **users)["success"] is False
    assert page.stats()["state"] == "ready"

    picked = ["jpeg-http", "trt-http"]
    started = page.post("/swarm", user_classes=picked, host=good.http, batch=3, photo="360x640", **users)
    assert (started["success"], started["user_classes"]) == (True, picked)
    until(lambda: all(page.counts().get(name, (0, 0))[0] > 20 for name in picked))
    assert [worker["user_count"] for worker in page.stats()["workers"]] == [2, 2]
    counts = page.counts()
    assert set(counts) == {*picked, "Aggregated"}
    assert counts["Aggregated"][1] == 0


def test_processes_end_at_once(good: Servers, cluster: tuple[Page, list[subprocess.Popen[str]]]) -> None:
    """In the middle of calls, a worker and then the master with the other worker are gone within seconds of SIGTERM."""
    page, (master, first, second) = cluster
    assert page.post("/swarm", user_classes=GRPC, host=good.grpc, user_count=16, spawn_rate=16)["success"]
    until(lambda: all(page.counts().get(name, (0, 0))[0] > 5 for name in GRPC))
    first.terminate()
    assert first.wait(3) == 0
    until(lambda: page.workers() == 1)
    master.terminate()
    assert master.wait(5) == 0
    assert second.wait(5) == 0
