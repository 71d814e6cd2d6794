"""The study `torchserve` in its quick form: six rows, alone and in gathers of 20."""

from typing import Any

import pytest

from bench.studies.torchserve import TORCHSERVE
from locustfiles.study_routes.torchserve import ROWS
from tests.stack.runs import answered, finished, verdicts


@pytest.fixture(scope="module")
def found(stack: None) -> dict[str, Any]:
    return finished("torchserve", "--quick", limit_s=300)


@pytest.mark.timeout(320)
def test_every_row_is_measured_and_every_count_holds(found: dict[str, Any]) -> None:
    """Three visits a cell, nothing fails, the edge counted what the client sent, and a gather is whole."""
    assert {cell["name"] for cell in found["cells"]} == set(ROWS)
    for about, cell, visit in answered(found):
        assert visit["requests"] % cell["users"] == 0, about
        assert visit["requests"] == visit["server_requests"], about
        assert visit["connections"] == visit["edge_connections"] == cell["users"], about
        assert visit["encode_ms"] > 0, about
        assert visit["decode_ms"] > 0, about


def test_all_rows_say_the_same(found: dict[str, Any]) -> None:
    """As bytes or as base64, over either protocol, with the typed contract or without."""
    assert set(found["parity"]) == set(ROWS)
    assert all(one["agrees"] and one["cosine"] >= 0.999 for one in found["parity"].values())


def test_base64_is_a_third_more_and_a_typed_answer_is_less(found: dict[str, Any]) -> None:
    """On the wire: of the photo over both protocols; a packed embedding against one in JSON."""
    cells = found["analysis"]["cells"]
    sent = {cell["id"].split("/")[0]: cell["sent_bytes_per_image"] for cell in cells}
    for name in ("torchserve-http", "torchserve-grpc"):
        assert 1.3 < sent[f"{name}-base64"] / sent[name] < 1.4
    received = {cell["id"].split("/")[0]: cell["received_bytes_per_image"] for cell in cells}
    assert received["typed-grpc"] < received["torchserve-grpc"]


def test_every_claim_has_a_verdict(found: dict[str, Any]) -> None:
    """One of three, for each of the claims, and every kind of pair is compared."""
    verdicts(found, TORCHSERVE)
    assert {ratio["kind"] for ratio in found["analysis"]["ratios"]} == set(TORCHSERVE.pairs.values())
