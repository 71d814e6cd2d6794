"""The study `base` in its quick form: a gather of 20 of every row, on the gateways of the profile `transport`."""

from typing import Any

import pytest

from bench.studies.base import BASE, CALLS
from locustfiles.clients import BOTH
from locustfiles.study_routes.base import ROWS
from tests.stack.runs import answered, finished, verdicts


@pytest.fixture(scope="module")
def found(stack: None) -> dict[str, Any]:
    return finished("base", "--quick")


@pytest.mark.timeout(240)
def test_every_row_is_measured_and_every_count_holds(found: dict[str, Any]) -> None:
    """Whole gathers, a connection per caller, and nothing fails; the edge counted the calls, where it is not a stream's
    messages that were sent."""
    assert {cell["name"] for cell in found["cells"]} == set(ROWS)
    for about, cell, visit in answered(found):
        assert visit["requests"] % CALLS == 0, about
        assert visit["connections"] == visit["edge_connections"] == CALLS, about
        if ROWS[cell["name"]].format.messages == BOTH:
            assert visit["server_requests"] is None, about
        else:
            assert visit["requests"] == visit["server_requests"], about
        assert visit["encode_ms"] > 0, about
        assert visit["decode_ms"] > 0, about


def test_all_rows_of_a_kind_are_answered_alike(found: dict[str, Any]) -> None:
    """Over HTTP/1.1, HTTP/2, gRPC and a stream."""
    assert set(found["parity"]) == set(ROWS)
    assert {name: one for name, one in found["parity"].items() if not one["agrees"]} == {}


def test_the_original_s_answers_were_larger_over_grpc(found: dict[str, Any]) -> None:
    """A hundred entries where REST answered ten: more bytes, of the same request."""
    cells = {cell["id"].split("/")[0]: cell for cell in found["analysis"]["cells"]}
    hundred, ten = cells["echo-grpc-structured-100"], cells["echo-grpc-structured"]
    assert hundred["received_bytes_per_image"] > 1.5 * ten["received_bytes_per_image"]
    assert hundred["sent_bytes_per_image"] == pytest.approx(ten["sent_bytes_per_image"], rel=0.2)


def test_every_claim_has_a_verdict(found: dict[str, Any]) -> None:
    """One of three, for each of the claims; what the quick form leaves out cannot be told."""
    said = verdicts(found, BASE)
    assert said["B4a"] == said["B5a"] == "cannot tell"
    assert {ratio["kind"] for ratio in found["analysis"]["ratios"]} == set(BASE.pairs.values())
