"""Several requests as one run of the model: which may share it, how they join, how the answer splits."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
Feeds = Mapping[str, Array]


class SplitError(Exception):
    """An output whose first dimension is not the batch: the graph does not batch as its config says."""


def groups(feeds: Mapping[int, Feeds]) -> list[list[int]]:
    """The requests (by position) that may share a run: same inputs, same shapes beyond the batch dimension."""
    alike: dict[object, list[int]] = defaultdict(list)
    for position, tensors in feeds.items():
        alike[tuple(sorted((name, tensor.shape[1:]) for name, tensor in tensors.items()))].append(position)
    return list(alike.values())


def join(feeds: Sequence[Feeds]) -> Feeds:
    """Concatenate along the batch dimension. A single request passes as it is, without a copy."""
    if len(feeds) == 1:
        return feeds[0]
    return {name: np.concatenate([tensors[name] for tensors in feeds]) for name in feeds[0]}


def sizes(feeds: Sequence[Feeds]) -> list[int]:
    """The batch size of each request."""
    return [next(iter(tensors.values())).shape[0] if tensors else 0 for tensors in feeds]


def split(name: str, output: Array, batch: Sequence[int]) -> list[Array]:
    """Give each request its rows. Raises SplitError when the rows are not one per batch element."""
    if output.ndim == 0 or output.shape[0] != sum(batch):
        raise SplitError(
            f"output '{name}' has shape {list(output.shape)} for a batch of {sum(batch)}: its first dimension must be "
            "the batch. Export the graph so, or set max_batch_size: 0 in config.pbtxt"
        )
    return np.split(output, np.cumsum(batch)[:-1])
