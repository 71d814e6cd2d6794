"""The study `encodings` in its quick form, on the gateways of the profile `transport` and on Triton."""

from typing import Any

import pytest

from bench.studies.encodings import ENCODINGS
from locustfiles.study_routes.encodings import RAW
from tests.stack.runs import answered, finished, verdicts


@pytest.fixture(scope="module")
def found(stack: None) -> dict[str, Any]:
    return finished("encodings", "--quick")


@pytest.mark.timeout(240)
def test_every_row_is_measured_and_every_count_holds(found: dict[str, Any]) -> None:
    """Three visits a row, nothing fails, and the servers counted what the client sent."""
    assert {cell["name"] for cell in found["cells"]} == {cell.name for cell in ENCODINGS.cells(True)}
    for about, _, visit in answered(found):
        assert visit["requests"] == visit["server_requests"], about
        assert visit["connections"] == visit["edge_connections"] == 1, about
        assert visit["encode_ms"] > 0, about
        assert visit["decode_ms"] > 0, about


def test_every_form_is_answered_alike(found: dict[str, Any]) -> None:
    """Seldon's answers are equal, and the embeddings of the four forms of KServe are one embedding."""
    assert set(found["parity"]) == {cell.name for cell in ENCODINGS.cells(True)}
    assert {name: one for name, one in found["parity"].items() if not one["agrees"]} == {}


def test_bytes_are_smaller_than_numbers(found: dict[str, Any]) -> None:
    """On the wire: an FP64 as bytes is 8, an FP32 4, and in JSON a fraction of a photo's tensor is many digits."""
    sent = {cell["id"].split("/")[0]: cell["sent_bytes_per_image"] for cell in found["analysis"]["cells"]}
    assert 800_000 < sent["seldon-grpc-tftensor"] < 900_000 < sent["seldon-grpc-ndarray"]
    assert 602_112 < sent["onnx-grpc"] < 660_000
    assert sent["onnx-http-json"] > 2 * sent["onnx-http"]


def test_every_claim_has_a_verdict(found: dict[str, Any]) -> None:
    """One of three, for each of the claims; and the question has an answer."""
    verdicts(found, ENCODINGS)
    assert {ratio["kind"] for ratio in found["analysis"]["ratios"]} == set(ENCODINGS.pairs.values())
    said = ENCODINGS.answer(found)
    assert said.startswith("On this machine an image's tensor to Triton costs least as ")
    assert all(cell["name"] in said for cell in found["cells"] if RAW not in cell["name"])
