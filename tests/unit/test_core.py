"""From logits to classes, what a client may see of a failure, and Server-Timing values."""

import re

import grpc
import numpy as np
import pytest

from gateways.core.answer import Class, softmax, top_k
from gateways.core.errors import INTERNAL_MESSAGE, ServeError, Status, as_serve_error
from gateways.core.image import decode
from gateways.core.timing import Stages

LABELS = [f"label {i}" for i in range(6)]


def test_softmax_sums_to_one_and_does_not_overflow() -> None:
    """Also for logits whose exponential has no float."""
    scores = softmax(np.array([[1e4, 1e4 - 1, -1e4], [0, 0, 0]], np.float32))
    assert np.allclose(scores.sum(-1), 1)
    assert scores.dtype == np.float32


def test_top_k_is_sorted_and_labelled() -> None:
    """Best first; equal scores by index, so that answers repeat exactly; a model with three classes has a top three."""
    classes = top_k(np.array([0, 3, 1, 3, 2, -1], np.float32), LABELS, 4)
    assert [c.index for c in classes] == [1, 3, 4, 2]
    assert classes[0] == Class(1, "label 1", classes[1].score)
    assert len(top_k(np.zeros(3, np.float32), LABELS)) == 3


@pytest.mark.parametrize("status", Status)
def test_every_status_exists_in_both_protocols(status: Status) -> None:
    """An HTTP error code, and the name of a gRPC status that is neither OK nor UNKNOWN."""
    assert 400 <= status.http < 600
    assert grpc.StatusCode[status.grpc] not in (grpc.StatusCode.OK, grpc.StatusCode.UNKNOWN)


def test_only_what_was_written_for_clients_is_shown() -> None:
    """An error for clients stays itself; a bug becomes INTERNAL with a fixed message."""
    error = ServeError(Status.NOT_FOUND, "no such model")
    assert as_serve_error(error) is error
    shown = as_serve_error(KeyError("/secret/path"))
    assert (shown.status, shown.message) == (Status.INTERNAL, INTERNAL_MESSAGE)


def test_the_header_lists_stages_in_order_and_the_total() -> None:
    """Milliseconds with three decimals; a stage seen twice is summed, and so is what a batch shares."""
    stages, batch = Stages(), Stages()
    stages.add("queue", 0.5)
    stages.add("compute", 2)
    batch.add("queue", 0.25)
    stages.merge(batch)
    assert re.fullmatch(r"queue;dur=0\.750, compute;dur=2\.000, total;dur=\d+\.\d{3}", stages.header())


def test_a_stage_is_measured_even_when_it_raises() -> None:
    """A failed decode took its time too."""
    stages = Stages()
    with pytest.raises(ServeError), stages.stage("preprocess"):
        decode(b"", min_side=1)
    assert stages.header().startswith("preprocess;dur=")
