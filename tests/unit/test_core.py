"""From logits to classes, and Server-Timing values."""

import re

import numpy as np

from gateways.core.answer import Class, top_k
from gateways.core.timing import Stages

LABELS = [f"label {i}" for i in range(6)]


def test_top_k_is_sorted_and_labelled() -> None:
    """Best first; equal scores by index, so that answers repeat exactly; a model with three classes has a top three."""
    classes = top_k(np.array([0, 1e4, 1e4 - 2, 1e4, 1e4 - 1, -1e4], np.float32), LABELS, 4)
    assert [c.index for c in classes] == [1, 3, 4, 2]  # and no exponential overflows
    assert classes[0] == Class(1, "label 1", classes[1].score)
    assert len(top_k(np.zeros(3, np.float32), LABELS)) == 3


def test_the_header_lists_stages_in_order_and_the_total() -> None:
    """Milliseconds with three decimals; a stage seen twice is summed, one that raised took its time too."""
    stages = Stages()
    for name, ms in (("queue", 0.5), ("compute", 2), ("queue", 0.25)):
        stages.add(name, ms)
    try:
        with stages.stage("encode"):
            raise ValueError
    except ValueError:
        pattern = r"queue;dur=0\.750, compute;dur=2\.000, encode;dur=\d\.\d{3}, total;dur=\d+\.\d{3}"
        assert re.fullmatch(pattern, stages.header())
