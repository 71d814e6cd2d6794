"""Server-Timing values."""

import re

import pytest

from gateways.core.errors import ServeError
from gateways.core.image import decode
from gateways.core.timing import Stages


def test_header_lists_stages_in_order_and_the_total() -> None:
    """Milliseconds with three decimals; a stage seen twice is summed."""
    stages = Stages()
    stages.add("queue", 0.5)
    stages.add("compute", 2)
    stages.add("queue", 0.25)
    assert re.fullmatch(r"queue;dur=0\.750, compute;dur=2\.000, total;dur=\d+\.\d{3}", stages.header())


def test_a_stage_is_measured_even_when_it_raises() -> None:
    """A failed decode took its time too."""
    stages = Stages()
    with pytest.raises(ServeError), stages.stage("preprocess"):
        decode(b"", min_side=1)
    found = re.match(r"preprocess;dur=([\d.]+)", stages.header())
    assert found
    assert float(found[1]) > 0


def test_merge_adds_what_a_batch_shares() -> None:
    """Each request of a batch gets the batch's compute time."""
    batch, mine = Stages(), Stages()
    batch.add("compute", 7)
    mine.add("preprocess", 1)
    mine.merge(batch)
    assert mine.header().startswith("preprocess;dur=1.000, compute;dur=7.000, ")
