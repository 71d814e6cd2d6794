"""The load generator as it runs: Locust's command line, on a host and in an image, smoke and headless commands."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from locustfiles import headless
from locustfiles.routes import ROUTES
from tests.repository import ROOT
from tests.unit.locust_processes import LOCUSTFILE, paths, python, run, until
from tests.unit.locust_servers import StandIn, standing_in
from tests.unit.tiny_artifacts import tiny


@pytest.fixture
def servers() -> Iterator[StandIn]:
    with standing_in() as found:
        yield found


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An image's environment, with a model `tiny` and a tensor per photo."""
    return paths(tiny(tmp_path_factory.mktemp("artifacts")))


def test_a_host_without_the_stack_s_folders(servers: StandIn, tmp_path: Path) -> None:
    """`locust -f locustfiles/locustfile.py` from the root: a class per route, of that name, and each has answers."""
    plain = {"PATH": os.environ["PATH"], "ARTIFACTS": str(tmp_path / "none"), "MODEL": "tiny"}
    command = [Path(sys.executable).with_name("locust"), "-f", "locustfiles/locustfile.py", "--host", servers.host]
    command += ["--headless", "--users", len(ROUTES), "--spawn-rate", len(ROUTES), "--only-summary", "--json"]
    with python(*command, cwd=ROOT, env=plain, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as locust:
        # A user asks again once Locust has its first answer.
        until(
            lambda: sum(n > 1 for n in servers.answered.values()) == len(ROUTES) or locust.poll() is not None, "answers"
        )
        locust.send_signal(signal.SIGTERM)
        out, err = locust.communicate(timeout=30)
    rows = {row["name"]: row["num_failures"] for row in json.loads(out)}
    assert rows == dict.fromkeys(ROUTES, 0), err
    written = LOCUSTFILE.read_text()
    assert [name for name in ROUTES if f'ROUTES["{name}"]' not in written] == []


MODES = [("good", 1, " ok "), ("errors", 1, "UNAVAILABLE"), ("short", 1, "0 of 1"), ("short", 3, "2 of 3")]


@pytest.mark.parametrize(("mode", "batch", "word"), MODES)
def test_smoke_asks_every_route(mode: str, batch: int, word: str, servers: StandIn, image: dict[str, str]) -> None:
    """A line per route that answers; a refused call shows its status, a wrong answer what is missing."""
    servers.mode = mode
    able = [name for name, route in ROUTES.items() if batch <= route.format.max_batch]
    named = able if batch > 1 else []  # without names: all
    status, out, err = run("-m", "locustfiles.smoke", "--host", servers.host, "--batch", batch, *named, env=image)
    lines = (err if status else out).splitlines()
    assert (status, [line.split()[0] for line in lines]) == (mode != "good", able), err
    assert all(word in line for line in lines), lines


def test_smoke_waits_for_an_answer(servers: StandIn, image: dict[str, str]) -> None:
    """With --wait it asks again until there is one, and says once what it waits for."""
    servers.mode = "errors"
    command = ["-m", "locustfiles.smoke", "--host", servers.host, "--wait", "60", "jpeg-http"]
    with python(*command, env=image, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asked:
        assert asked.stderr
        assert "jpeg-http waiting: HTTP 503" in asked.stderr.readline()
        servers.mode = "good"
        out, err = asked.communicate(timeout=60)
    assert (asked.returncode, out.split()[:2], err) == (0, ["jpeg-http", "ok"], "")


GOOD: dict[str, Any] = {"routes": {"jpeg-http": {"requests": 9}}, "errors": [], "late_workers": 0}


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"routes": {"jpeg-http": {"requests": 9}, "trt-grpc": {"requests": 0}}}, "trt-grpc"),
        ({"errors": [{"route": "typed-grpc", "count": 3, "error": "UNAVAILABLE"}]}, "UNAVAILABLE"),
        ({"routes": {"jpeg-http": {"requests": 4}}}, "at least 5"),
        ({"late_workers": 1}, "missing"),
    ],
)
def test_headless_says_why_a_run_failed(changes: dict[str, Any], word: str) -> None:
    """One sentence for each problem; none for a good run."""
    assert headless.problems_of(GOOD, 5) == []
    (problem,) = headless.problems_of(GOOD | changes, 5)
    assert word in problem


HELD_UP = """
import time
import locust

@locust.events.test_stop.add_listener
def hold(environment, **_):
    if isinstance(environment.runner, locust.runners.WorkerRunner):
        time.sleep(1)  # Locust's master waits for half of it
"""


def test_no_numbers_are_lost_where_the_machine_is_busy(servers: StandIn, image: dict[str, str], tmp_path: Path) -> None:
    """Workers that are held up at the end of the run send their last numbers all the same; failures are in them."""
    held_up, result_file, users = tmp_path / "held_up.py", tmp_path / "result.json", 4
    held_up.write_text(HELD_UP)
    command = ["-m", "locust", "-f", f"{LOCUSTFILE},{held_up}", "--headless", "--processes", 2, "--result", result_file]
    command += ["--host", servers.host, "--users", users, "--spawn-rate", users, "jpeg-http"]
    with python(*command, env=image, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as locust:
        until(lambda: servers.called > 50 or locust.poll() is not None, "fifty calls")
        servers.mode = "errors"
        until(lambda: servers.refused > users or locust.poll() is not None, "failures")
        locust.terminate()
        assert locust.wait(60) == 1
    result = json.loads(result_file.read_text())
    row = result["routes"]["jpeg-http"]
    # What is under way when a user is stopped has been asked, and is not counted.
    assert 0 <= servers.called - row["requests"] <= users
    assert 0 <= servers.refused - row["failures"] <= users
    assert sum(error["count"] for error in result["errors"]) == row["failures"]
    assert result["late_workers"] == 0


ALONE = """
import locust
from locustfiles import overlap
from locustfiles.clients import grpcio
grpcio.alone = True
overlap.check()
print("side by side")
overlap.TRIES = 1
grpcio.LONG_S, grpcio.last_s = 1e9, 0.0
overlap.check()
"""
UNPATCHED = """
import locust, grpc.experimental.gevent as patch
patch.init_gevent = lambda: None
from locustfiles import overlap
overlap.TRIES = 1
overlap.check()
"""


@pytest.mark.parametrize(("script", "before"), [(ALONE, "side by side"), (UNPATCHED, "")], ids=["alone", "unpatched"])
def test_users_that_take_turns_are_caught(script: str, before: str, image: dict[str, str]) -> None:
    """The check of each process with users passes, as calls as long as its own wait in threads; it fails in one whose
    user waits without a thread, and where users run one at a time without init_gevent, of which nothing else tells."""
    status, out, err = run("-c", script, env=image)
    assert (status, out.strip()) == (1, before)
    assert "one at a time" in err
