"""From logits to classes."""

import numpy as np

from gateways.core.answer import Class, softmax, top_k

LABELS = [f"label {i}" for i in range(6)]


def test_softmax_sums_to_one_and_does_not_overflow() -> None:
    """Also for logits whose exponential has no float."""
    scores = softmax(np.array([[1e4, 1e4 - 1, -1e4], [0, 0, 0]], np.float32))
    assert np.allclose(scores.sum(-1), 1)
    assert np.isfinite(scores).all()
    assert scores.dtype == np.float32


def test_top_k_is_sorted_and_labelled() -> None:
    """Best first; equal scores by index, so that answers repeat exactly."""
    classes = top_k(np.array([0, 3, 1, 3, 2, -1], np.float32), LABELS, 4)
    assert [c.index for c in classes] == [1, 3, 4, 2]
    assert classes[0] == Class(1, "label 1", classes[1].score)
    assert all(isinstance(c.score, float) and isinstance(c.index, int) for c in classes)


def test_top_k_of_fewer_classes_gives_them_all() -> None:
    """A model with three classes has a top three."""
    assert len(top_k(np.zeros(3, np.float32), LABELS)) == 3
