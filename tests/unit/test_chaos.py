"""What scripts/chaos makes of what it saw: rows of results, and their page."""

import random
from pathlib import Path
from typing import Any

from chaos import faults, figures, fuzz, page, soak
from chaos.load import Call, errors, percentile
from locustfiles.routes import ROUTES

BODY = b'{"inputs":[{"name":"image","shape":[1,3,224,224]}]}' + bytes(1000)


GROWS = [("edge", [5.0, 1.0, 9.0]), ("triton", [5.0, -1.0, 9.0])]
SOAKED: list[dict[str, Any]] = [
    {"route": "onnx-http", "per_s": 3.0, "calls": 100, "errors": {}, "p50_ms": 9.0, "p99_ms": 20.0, "p99_drift": 1.02},
    *({"container": name, "mib": [20.0, 25.0, 28.0, 29.0, 30.0, 30.0], "mib_per_hour": slope, "descriptors": 4,
       "descriptors_per_hour": None} for name, slope in GROWS),
]  # fmt: skip


def test_a_result_makes_its_part_of_the_page(tmp_path: Path) -> None:
    """Its first sentence is counted from its rows. The other kinds: tests/static/test_results.py, from kept results."""
    made = figures.made("soak", "efficientnet_lite0", {"minutes": 30.0}, SOAKED)
    text = page.made([figures.keep(made, tmp_path)])
    assert "0 of 100 calls failed, and memory grew in 1 of 2 containers: edge" in text
    assert "| triton | 25 → 29 → 30 | 5 (-1 to 9) | 4 | – |" in text


def test_a_case_can_be_had_again_from_its_seed() -> None:
    """The same seed makes the same mutation, another one another."""
    made = [fuzz.mutated(BODY, random.Random(seed)) for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]
    assert made[0] != BODY


def test_a_fault_hurts_the_routes_that_pass_its_service() -> None:
    """The edge's hurts all; Locust's none; TorchServe's its own and the typed ones."""
    by_service = {one.service: one for one in faults.faults("m")}
    hurt = {service: {name for name in ROUTES if one.hurts(ROUTES[name])} for service, one in by_service.items()}
    assert hurt["edge"] == set(ROUTES)
    assert hurt["locust-master"] == set()
    assert hurt["torchserve"] == {"torchserve-http", "torchserve-grpc", "typed-grpc", "typed-http"}


def test_calls_are_counted_by_what_their_callers_saw() -> None:
    calls = [Call("a", 0, 0.1), Call("a", 0, 0.3, "HTTP 503"), Call("a", 0, 0.2, "HTTP 503")]
    assert errors(calls) == {"HTTP 503": 2}
    assert percentile(calls, 50) == 200.0
    assert percentile([], 50) is None


def test_growth_has_an_interval() -> None:
    """A line without noise has its slope; noise around nothing has zero inside."""
    assert soak.slope([0, 1, 2, 3], [1, 3, 5, 7]) == [2.0, 2.0, 2.0]
    found = soak.slope([0, 1, 2, 3, 4, 5], [0, 1, 0, 1, 0, 1])
    assert found is not None
    assert found[1] < 0 < found[2]
    assert soak.slope([0, 1], [0, 1]) is None
