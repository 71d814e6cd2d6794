"""The study `distance` in its quick form, and a distance in front of any route: the way is as long as it says."""

import re
from typing import Any

import pytest

from bench.studies.distance import DISTANCE
from locustfiles.study_routes.distance import CHUNKS, CHUNKS_64K, GRPC, GRPC_64K, GRPC_NEW, JSON, PROTOBUF
from tests.stack.runs import answered, bench, finished, result, verdicts, visits

FAR, NEAR = "150ms-100mbit", "0ms-100mbit"


@pytest.fixture(scope="module")
def found(stack: None) -> dict[str, Any]:
    return finished("distance", "--quick")


@pytest.mark.timeout(240)
def test_every_row_is_measured_and_every_count_holds(found: dict[str, Any]) -> None:
    """Three visits a cell, nothing fails, the edge counted what the client sent, and who keeps a connection has one."""
    assert {cell["name"] for cell in found["cells"]} == set(DISTANCE.routes)
    for about, cell, visit in answered(found):
        assert visit["requests"] == visit["server_requests"], about
        assert visit["connections"] == visit["edge_connections"], about
        assert (visit["connections"] == 1) == (cell["name"] != GRPC_NEW), about
        assert visit["decode_ms"] > 0, about


def test_every_row_answers_the_same_vectors(found: dict[str, Any]) -> None:
    """As numbers, whatever carried them."""
    assert set(found["parity"]) == set(DISTANCE.routes)
    assert {name: one for name, one in found["parity"].items() if not one["agrees"]} == {}


def test_the_bytes_are_those_of_the_vectors(found: dict[str, Any]) -> None:
    """60 a vector in protobuf, two to three times as many in JSON."""
    received = {
        cell["id"].split("/")[0]: cell["received_bytes_per_image"]
        for cell in found["analysis"]["cells"]
        if "/10000/" in cell["id"]
    }
    for row in (PROTOBUF, GRPC, CHUNKS, GRPC_NEW):
        assert 600_000 < received[row] < 680_000, row
    assert 2 < received[JSON] / received[PROTOBUF] < 3


def test_a_call_takes_at_least_its_round_trips(found: dict[str, Any]) -> None:
    """12 ms and 600 kB at 100 Mbit/s; more where the window is small, or the connection new."""
    p50 = {
        cell["id"].split("/")[0]: cell["p50_ms"]["value"]
        for cell in found["analysis"]["cells"]
        if "/10000/" in cell["id"] and cell["p50_ms"]
    }
    least = {PROTOBUF: 55, GRPC: 55, GRPC_64K: 65, CHUNKS_64K: 75, GRPC_NEW: 85}
    assert {row: p50[row] for row, ms in least.items() if row in p50 and p50[row] < ms} == {}


def test_every_claim_has_a_verdict(found: dict[str, Any]) -> None:
    """One of three, for each of the claims."""
    verdicts(found, DISTANCE)
    assert {ratio["kind"] for ratio in found["analysis"]["ratios"]} <= set(DISTANCE.pairs.values())


@pytest.mark.timeout(240)
def test_a_distance_can_be_put_in_front_of_any_route(stack: None) -> None:
    """Of the 5-way comparison: far and near in one run; the report names both, and what is far is late."""
    status, said, folder = bench(
        *("fiveway", "--quick", "--routes", "onnx-http,onnx-grpc", "--batches", "1", "--concurrency", "1"),
        *("--distance", f"{NEAR},{FAR}", "--seconds", "1.5"),
    )
    assert status == 0, said
    assert folder
    run = result(folder)
    assert {(cell["route"], cell["distance"]) for cell in run["cells"]} == {
        (route, where) for route in ("onnx-http", "onnx-grpc") for where in (NEAR, FAR)
    }
    medians = {cell["id"]: cell["p50_ms"]["value"] for cell in run["analysis"]["cells"]}
    for cell, visit in visits(run):
        assert visit["failures"] == 0, visit["errors"]
        assert visit["requests"] == visit["server_requests"]
        # A round trip, and 602 kB at 100 Mbit/s.
        assert medians[cell["id"]] >= (150 + 48 if cell["distance"] == FAR else 48), cell["id"]
    for page in ("report.md", "report.html"):
        text = (folder / page).read_text()
        assert re.search(NEAR, text), page
        assert re.search(FAR, text), page
