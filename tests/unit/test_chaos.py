"""What scripts/chaos makes of what it saw: rows of results, and their page."""

import random
from pathlib import Path
from typing import Any

import pytest

from chaos import faults, figures, fuzz, page, soak
from chaos.load import Call, errors, percentile
from locustfiles.routes import ROUTES

BODY = b'{"inputs":[{"name":"image","shape":[1,3,224,224]}]}' + bytes(1000)


def fault(name: str, **other: Any) -> dict[str, Any]:
    row = {
        "fault": name, "failed_before": {}, "calls_elsewhere": 100, "failed_elsewhere": {}, "routes": 2, "calls": 20,
        "seen": {"HTTP 503": 3}, "texts": [], "slowest_error_ms": 12, "longest_call_ms": 900, "recovery_s": 4.5,
        "wrong": 0,
    }  # fmt: skip
    return row | other


LOADED = {
    "route": "jpeg-http", "factor": 10, "peak": 50.0, "offered": 500.0, "load_cores": 0.2, "goodput": 47.0,
    "p50_ms": 3000.0, "p99_ms": 5000.0, "alone_p99_ms": 40.0, "refused": {"HTTP 429": 3600}, "refusal_ms": [2.0, 30.0],
    "texts": [], "beside": ["onnx-http", 2.0, {}], "after": [1.1, {}], "mib": {"edge": 100.0, "jpeg-http": 900.0},
}  # fmt: skip
RUDE = {"attack": "PING flood", "connections": 4, "closed": 9, "mib": {"edge": 40.0}} | {
    "others": {
        "jpeg-http": {"rate": 0.95, "p50": 1.05, "errors": {}},
        "onnx-grpc": {"rate": 0.5, "p50": 2.0, "errors": {}},
    }
}
FUZZED = {"way": "onnx-grpc", "cases": 1000, "statuses": {"INVALID_ARGUMENT": 1000}, "undeclared": [], "restarted": []}
FUZZED |= {"mib": ["triton", 200.0, 220.0]}
SOAKED: list[dict[str, Any]] = [
    {"route": "onnx-http", "per_s": 3.0, "calls": 100, "errors": {}, "p50_ms": 9.0, "p99_ms": 20.0, "p99_drift": 1.02},
    *(
        {
            "container": name,
            "mib": 30.0,
            "mib_per_hour": [5.0, low, 9.0],
            "descriptors": 4,
            "descriptors_per_hour": None,
        }
        for name, low in (("edge", 1.0), ("triton", -1.0))
    ),
]
SAID: dict[str, tuple[list[dict[str, Any]], str]] = {
    "faults": (
        [fault("kill -9: triton"), fault("kill -9: edge", failed_elsewhere={"HTTP 503": 1}, recovery_s=11.0)],
        "2 faults under load: 1 of 200 calls failed on routes that do not pass the server, and 0 answers were wrong",
    ),
    "overload": ([LOADED], "1 of 1 routes keep 90 % of it, and 0 answer within five times the unloaded p99"),
    "rude": ([RUDE], "In 0 of 1 attacks 90 % of others' calls are answered, and 0 calls failed"),
    "fuzz": ([FUZZED], "1,000 requests that are nearly right: 0 processes ended, and 0 answers were undeclared"),
    "soak": (SOAKED, "0 of 100 calls failed, and memory grew in 1 of 2 containers: edge"),
}


@pytest.mark.parametrize("kind", SAID)
def test_the_page_says_what_the_rows_hold(kind: str, tmp_path: Path) -> None:
    """The first sentence of each part is counted from its rows."""
    rows, sentence = SAID[kind]
    made = figures.made(kind, "efficientnet_lite0", {"minutes": 30.0}, rows)
    path = figures.keep(made, tmp_path)
    text = page.made([path])
    assert sentence in text
    assert set(SAID) == set(page.SECTIONS)


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
