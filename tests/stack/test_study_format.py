"""The study `format` in its quick form: five rows, near and at a distance of the profile `transport`."""

from typing import Any

import pytest

from bench.studies.format import FORMAT
from locustfiles.study_routes.format import PYTORCH, ROWS
from tests.stack.runs import answered, finished, verdicts, visits

ROUND_TRIP_MS = 25


@pytest.fixture(scope="module")
def found(stack: None) -> dict[str, Any]:
    return finished("format", "--quick")


@pytest.mark.timeout(240)
def test_every_row_is_measured_and_every_count_holds(found: dict[str, Any]) -> None:
    """Three visits a cell, nothing fails, and the servers counted what the client sent."""
    assert {cell["name"] for cell in found["cells"]} == set(ROWS)
    for about, _, visit in answered(found):
        assert visit["requests"] == visit["server_requests"], about
        assert visit["connections"] == visit["edge_connections"] == 1, about


def test_all_rows_say_the_same(found: dict[str, Any]) -> None:
    """Whatever is sent, and whoever decodes it."""
    assert set(found["parity"]) == set(ROWS)
    assert all(one["agrees"] and one["cosine"] >= 0.999 for one in found["parity"].values())


def test_the_distance_is_waited_for(found: dict[str, Any]) -> None:
    """No call over an odd round trip takes less, and a tensor's bytes are more than a JPEG's."""
    assert {cell["distance"] for cell in found["cells"]} == {"", f"{ROUND_TRIP_MS}ms-100mbit"}
    for cell, visit in visits(found):
        if cell["distance"]:
            assert visit["mean_ms"] >= ROUND_TRIP_MS, cell["id"]
    sent = {cell["id"]: cell["sent_bytes_per_image"] for cell in found["analysis"]["cells"]}
    jpegs = [value for name, value in sent.items() if name.startswith(("onnx-jpeg-", PYTORCH))]
    assert max(jpegs) < 602_112 < min(value for value in sent.values() if value not in jpegs)


def test_every_claim_has_a_verdict(found: dict[str, Any]) -> None:
    """One of three, for each of the claims; and the split is said in one sentence."""
    verdicts(found, FORMAT)
    assert {ratio["kind"] for ratio in found["analysis"]["ratios"]} == set(FORMAT.pairs.values())
    assert FORMAT.answer(found).startswith("Of PyTorch's lead over Triton with tensors, near ")
