"""Requests for a model that takes tensors and no photos, made from its KServe v2 metadata: any model, without code.

Inputs are drawn by a fixed seed, by type: floats from 0 to 1, integers and booleans 0 or 1, strings `fiveway`; a free
dimension that is not the batch is 1. A parameter `load.<input>` in config.pbtxt fills an input with one value instead.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from locustfiles.answers import WrongAnswer, kserve_outputs
from locustfiles.clients import Answer, CallError, Payload
from locustfiles.payloads import RawTensor, elements, in_turn, kserve
from locustfiles.serving import Serving, get_json

Array = NDArray[Any]

# KServe's names; BF16 has no type in numpy: its bytes are the upper half of an FP32's.
TYPES: Mapping[str, str] = {
    "BOOL": "?",
    **{f"UINT{bits}": f"<u{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"INT{bits}": f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": f"<f{bits // 8}" for bits in (16, 32, 64)},
    "BF16": "<u2",
}
BYTES = "BYTES"
SEED = 20_261_121
DRAWN = 8
"""How many different requests are drawn."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output; `shape` without the batch, -1 for a free dimension. `value` fills an input instead of random
    data."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """The inputs and outputs of a model. `max_batch` 0: Triton adds no batch dimension to its shapes."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    max_batch: int

    @property
    def largest(self) -> int:
        """The most items in one request."""
        return max(1, self.max_batch)


@lru_cache(maxsize=16)
def described(address: str, model: str, _served: Serving) -> Model:
    """Metadata of a model from Triton at `address` (HTTP, as in Endpoint), asked once per choice of what is served.
    Raises CallError.
    """
    config, metadata = (get_json(address, f"/v2/models/{quote(model)}{page}") for page in ("/config", ""))
    max_batch = int(config.get("max_batch_size", 0))
    values = {name: about["string_value"] for name, about in config.get("parameters", {}).items()}

    def tensor(about: Mapping[str, Any]) -> Tensor:
        name, shape = about["name"], about["shape"][1 if max_batch else 0 :]
        return Tensor(name, about["datatype"], tuple(map(int, shape)), values.get(f"load.{name}"))

    return Model(model, tuple(map(tensor, metadata["inputs"])), tuple(map(tensor, metadata["outputs"])), max_batch)


@lru_cache(maxsize=16)
def payloads(protocol: str, model: Model, batch: int, _served: Serving) -> tuple[Payload, ...]:
    """The requests of `batch` items that a user sends in turn, within READY_BYTES. Raises CallError for bad inputs."""
    items = inputs(model)
    return in_turn(lambda start: encode(protocol, model, items, start, batch), len(items), batch)


def encode(protocol: str, model: Model, items: Sequence[Mapping[str, Array]], start: int, batch: int) -> Payload:
    """One request: `batch` of the items from `start` on, over and over, for HTTP or gRPC, every output asked for."""
    chosen = [items[(start + i) % len(items)] for i in range(batch)]
    tensors = []
    for one in model.inputs:
        array = np.stack([item[one.name] for item in chosen]) if model.max_batch else chosen[0][one.name]
        texts = one.datatype == BYTES
        raw = elements(str(value).encode() for value in array.ravel()) if texts else array.tobytes()
        tensors.append(RawTensor(one.name, one.datatype, array.shape, raw))
    return kserve(protocol, model.name, tensors, [one.name for one in model.outputs], batch)


def inputs(model: Model) -> list[dict[str, Array]]:
    """The items that requests are made of, without a batch dimension. Raises CallError for unsupported inputs."""
    rng = np.random.default_rng(SEED)
    return [{one.name: _drawn(rng, one) for one in model.inputs} for _ in range(DRAWN)]


def check(protocol: str, model: Model, answer: Answer, items: int) -> None:
    """Every output is there, with a row per item where the model batches. Raises WrongAnswer."""
    found = kserve_outputs(protocol, answer)
    names = {one.name for one in model.outputs}
    if {one.name for one in found} != names:
        raise WrongAnswer(f"outputs {sorted(one.name for one in found)} where {sorted(names)} were asked for")
    for name, datatype, shape, raw in found:
        if model.max_batch and list(shape[:1]) != [items]:
            raise WrongAnswer(f"output {name} has shape {shape} for {items} items")
        if datatype in TYPES and len(raw) != math.prod(shape) * np.dtype(TYPES[datatype]).itemsize:
            raise WrongAnswer(f"{len(raw)} bytes for output {name}, {datatype} of shape {shape}")


def flat(protocol: str, answer: Answer) -> NDArray[np.float32]:
    """All outputs by name as one vector, a 1 in front: an answer of zeros has a direction too. Raises WrongAnswer."""
    parts: list[Array] = [np.ones(1)]
    for _, datatype, _, raw in sorted(kserve_outputs(protocol, answer)):
        values = np.frombuffer(raw, TYPES.get(datatype, "u1"))
        parts.append((values.astype(np.uint32) << 16).view(np.float32) if datatype == "BF16" else values)
    return np.concatenate([part.astype(np.float32).ravel() for part in parts])


def _drawn(rng: np.random.Generator, one: Tensor) -> Array:
    shape = tuple(max(1, size) for size in one.shape)
    if one.datatype == BYTES:
        return np.full(shape, one.value or "fiveway", object)
    if one.datatype not in TYPES:
        raise CallError(f"datatype {one.datatype} is not known here: choose another model")
    if one.value is None:
        values: Array = rng.random(shape) if "F" in one.datatype else rng.integers(0, 2, shape)
    else:
        try:
            values = np.full(shape, float(one.value))
        except ValueError:
            raise CallError(f"load.{one.name} is {one.value!r} in config.pbtxt: it must be a number") from None
    if one.datatype == "BF16":
        values = values.astype("<f4").view(np.uint32) >> 16
    return values.astype(TYPES[one.datatype])
