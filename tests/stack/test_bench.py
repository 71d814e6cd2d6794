"""scripts/bench on the running stack, in quick forms: what it keeps, that its counts hold, and how it ends badly."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.studies import STUDIES
from chaos.docker import PROJECT, container, docker, wait_until
from locustfiles.study_routes import STUDY_ROUTES
from tests.browser import open_page
from tests.repository import ROOT
from tests.stack.runs import OUTPUT, answered, bench, finished, folder_in, result, visits

FIVEWAY = list(STUDY_ROUTES["fiveway"])
SHORT = ["--seconds", "0.5", "--blocks", "3"]
ONE_CELL = ["--routes", "onnx-http", "--batches", "1", "--concurrency", "1"]


@pytest.fixture(scope="module")
def folder(stack: None) -> Path:
    """A run of all its rows, a batch of 8 alone and four users at batch 1, in three blocks."""
    return finished("fiveway", "--quick", "--batches", "8", "--concurrency", "4", *SHORT)


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Any]:
    """Its result."""
    return result(folder)


@pytest.mark.timeout(240)
def test_every_cell_is_measured_and_every_count_holds(found: dict[str, Any]) -> None:
    """Server's and edge's counts equal the client's, every user has one connection, and nothing fails."""
    assert {cell["route"] for cell in found["cells"]} == set(FIVEWAY)
    assert len(visits(found)) == len(FIVEWAY) * 2 * 3
    for about, cell, visit in answered(found):
        assert visit["problem"] == "", about
        assert visit["requests"] == visit["server_requests"], about
        assert visit["connections"] == visit["edge_connections"] == cell["users"], about
        if cell["route"] != "jpeg-http":
            assert visit["sent_bytes"] > 602_112 * cell["batch"] * visit["requests"], about


def test_the_routes_agree_before_they_are_timed(found: dict[str, Any]) -> None:
    """The embeddings of all routes are those of the reference."""
    assert set(found["parity"]) == set(FIVEWAY)
    assert all(one["agrees"] and one["cosine"] >= 0.999 for one in found["parity"].values())


def test_the_server_s_times_fit_into_the_client_s(found: dict[str, Any]) -> None:
    """Clocks of three programs: the parts that servers and edge measured are no more than the latency that the client
    did, and most of it is computing and waiting for that; a photo is decoded on the server, a tensor is not."""
    for cell in found["analysis"]["cells"]:
        split = cell["split"]
        assert split["network and edge"] > 0, cell["id"]
        assert split["compute"] + split["queue"] > 0.3 * (sum(split.values()) - split["client encode"]), cell["id"]
        assert (split["decode and preprocess"] > 0) is cell["id"].startswith("jpeg-http"), cell["id"]


def test_engines_are_equal_and_cpu_time_is_counted(found: dict[str, Any]) -> None:
    """Every engine says what it is, and none has more threads than another. The CPU time of the containers is no more
    than the cores gave in that time; most of it is the server's, whose model computes."""
    environment = found["environment"]
    engines = environment["engines"]
    assert set(engines) == {"onnx", "trt", "jpeg-http", "torchserve"}
    assert len({(one["device"], one["precision"], one["threads"], one["instances"]) for one in engines.values()}) == 1
    assert engines["onnx"]["threads"] >= 1
    for about, cell, visit in answered(found):
        server = "jpeg-http" if cell["route"] == "jpeg-http" else "triton"
        parts = {name: visit["cpu_ms"][name] for name in ("client", "edge", server)}
        assert all(ms > 0 for ms in parts.values()), about
        # The readings before and after the window are a little apart from it.
        assert sum(visit["cpu_ms"].values()) < 1.1 * environment["cores"] * 1e3 * (visit["counted_s"] + 0.2), about
        assert parts[server] == max(visit["cpu_ms"].values()), about
    assert all("all" in ratio["cpu"] for ratio in found["analysis"]["ratios"] if ratio["encoded"])


def test_every_ratio_has_an_interval_or_says_why_not(found: dict[str, Any]) -> None:
    """Pairs of every kind in every cell are judged, or say why they are not."""
    ratios = found["analysis"]["ratios"]
    assert {ratio["kind"] for ratio in ratios} == set(STUDIES["fiveway"].pairs.values())
    for ratio in ratios:
        if ratio["verdict"] == "no verdict":
            assert ratio["text"].startswith("no verdict on ")
        else:
            assert 0 < ratio["low"] <= ratio["value"] <= ratio["high"]
            if ratio["low"] <= 1 <= ratio["high"]:
                assert ratio["verdict"] in ("the same within 10 %", "no difference shown")
    assert [one["id"] for one in found["analysis"]["hypotheses"]] == ["H1", "H2", "H3", "H4"]


async def test_the_report_is_one_page_that_asks_nobody(folder: Path) -> None:
    """In a browser: the table and the plots are there, and nothing was loaded from elsewhere."""
    async with open_page((folder / "report.html").as_uri()) as page:
        # Where the time goes, and bytes. The others need ratios, and a busy machine makes too few calls for these.
        await page.wait_for("document.querySelectorAll('svg').length >= 2")
        assert await page.evaluate("performance.getEntriesByType('resource').length") == 0
        text = await page.evaluate("document.body.innerText")
        for route in FIVEWAY:
            assert route in text
        await page.screenshot(ROOT / "out" / "report.png")
    assert all(f"| {route} | " in (folder / "report.md").read_text() for route in FIVEWAY)
    assert len((folder / "cells.csv").read_text().splitlines()) == 1 + 2 * len(FIVEWAY)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_published_method_shows_its_own_flaws(stack: None) -> None:
    """Cold clients, one block, 30 and 60 calls, five to warm up that the server's window has too; gRPC shares what HTTP
    does not."""
    some = ("--routes", "onnx-http,onnx-grpc", "--batches", "1", "--concurrency", "16")
    found = result(finished("fiveway", "--method", "published", *some))
    calls = {(cell["route"], cell["users"]): visit for cell, visit in visits(found)}
    routes = ("onnx-http", "onnx-grpc")
    assert {key: visit["requests"] for key, visit in calls.items()} == {
        (route, users): number for route in routes for users, number in ((1, 30), (16, 60))
    }
    assert calls["onnx-http", 1]["server_requests"] == calls["onnx-grpc", 1]["server_requests"] == 35
    assert calls["onnx-http", 16]["connections"] >= 60
    assert calls["onnx-grpc", 16]["connections"] < 60
    assert all(ratio["verdict"] == "no verdict" for ratio in found["analysis"]["ratios"])


@pytest.fixture
def elsewhere(stack: None) -> Iterator[tuple[str, str]]:
    """A network from which only the edge can be reached, and its URL there: the stack's own names are not known."""
    network, edge = f"{PROJECT}-elsewhere", container("edge")["Name"].removeprefix("/")
    docker("network", "create", network)
    try:
        docker("network", "connect", network, edge)
        yield network, f"http://{edge}:8080"
    finally:
        docker("network", "disconnect", network, edge, check=False)
        docker("network", "rm", network)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_an_edge_elsewhere(elsewhere: tuple[str, str]) -> None:
    """From a network with the edge only: all client-side counts are there, and the report says which counters are
    missing."""
    network, edge = elsewhere
    OUTPUT.mkdir(parents=True, exist_ok=True)
    volumes = ("--volume", f"{PROJECT}_artifacts:/artifacts:ro", "--volume", f"{OUTPUT}:/results")
    there = ("run", "--rm", "--user", "0:0", "--network", network, "--workdir", "/", "--env", "MPLCONFIGDIR=/tmp")
    some = ("--routes", "jpeg-http,onnx-http,onnx-grpc", "--batches", "1", "--concurrency", "4")
    measure = ("fiveway-bench:local", "python", "-m", "bench", "fiveway", "--target", edge, *some, *SHORT)
    found = result(folder_in(docker(*there, *volumes, *measure)))
    assert {cell["target"] for cell in found["cells"]} == {edge}
    assert found["environment"]["envoy"] == {"version": None, "config_sha256": None}
    for cell, visit in visits(found):
        assert visit["failures"] == 0
        assert visit["connections"] == cell["users"]
        assert (visit["server_requests"], visit["edge_connections"]) == (None, None)
        assert visit["reasons"] == [f"the counters of {edge} and of the servers behind it cannot be read from here"]
    assert all(one["agrees"] for one in found["parity"].values())
    # What is not known is noted, and no reason against a verdict. (A busy machine may have others.)
    assert not [mark for cell in found["analysis"]["cells"] for mark in cell["marks"] if "count" in mark]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_one_route_against_itself(stack: None) -> None:
    """A/A in a quick form: two names, one route, all counts equal; most comparisons show no difference."""
    found = result(finished("aa", "--runs", "2", "--seconds", "0.6"))
    assert {cell["name"] for cell in found["cells"]} == {"onnx-http A", "onnx-http B"}
    rows = found["analysis"]["quick_runs"]
    assert {(row["batch"], row["users"], row["measure"]) for row in rows} == {
        (1, users, measure) for users in (1, 8) for measure in ("p50_ms", "images_per_s")
    }
    assert all(row["runs"] == 2 for row in rows)
    assert sum(row["same"] for row in rows) > sum(row["runs"] for row in rows) / 2


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_ctrl_c_keeps_what_was_measured(stack: None) -> None:
    """Interrupted among its fifty blocks: status 130, and the result has the visits until then."""
    before = set(OUTPUT.glob("*/*/fiveway-*"))
    with subprocess.Popen(
        [ROOT / "scripts" / "bench", "fiveway", *ONE_CELL, "--blocks", "50", "--seconds", "0.5"],
        env=os.environ | {"RESULTS": str(OUTPUT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr
        for line in process.stderr:
            if "of 50 visits" in line:
                break
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 130, said
    # Without a terminal Compose does not wait for the last words.
    (folder,) = set(OUTPUT.glob("*/*/fiveway-*")) - before
    wait_until(lambda: result(folder)["ended"] != "running", "the run did not end", seconds=20)
    found = result(folder)
    assert found["ended"].startswith("interrupted")
    assert 5 <= len(visits(found)) < 50


@pytest.mark.parametrize(
    ("status", "says", "arguments"),
    [
        (2, "choose from jpeg-http", ("--routes", "onnx-htp")),
        pytest.param(1, "no route answers", (*ONE_CELL, "--target", "http://127.0.0.1:9"), marks=pytest.mark.slow),
    ],
)
def test_what_cannot_run_is_refused(stack: None, status: int, says: str, arguments: tuple[str, ...]) -> None:
    """What cannot be chosen, with what can, and an edge that does not answer; all kinds: test_locust_settings.py."""
    done, said, _ = bench("fiveway", *arguments)
    assert done == status
    assert says in said
    assert "Traceback" not in said
