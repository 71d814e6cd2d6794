"""Requests for a model that takes tensors and no photos, made from its KServe v2 metadata: any model, without code.

Inputs are drawn by a fixed seed, by type: floats from 0 to 1, integers and booleans 0 or 1, strings `fiveway`; a free
dimension that is not the batch is 1. A parameter `load.<input>` in config.pbtxt fills an input with one value instead.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from locustfiles.answers import WrongAnswer, kserve_outputs
from locustfiles.clients import Answer, CallError, Payload
from locustfiles.payloads import BYTES, TYPES, RawTensor, elements, in_turn, kserve
from locustfiles.routes import MAX_BATCH
from locustfiles.serving import Serving, get_json

Array = NDArray[Any]

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
    """The inputs and outputs of a model. `max_batch` 0: the server adds no batch dimension to its shapes."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    max_batch: int
    binary: bool = True
    """Over HTTP the server takes tensors as bytes, by an extension of the protocol; else as JSON."""

    @property
    def largest(self) -> int:
        """The most items in one request."""
        return max(1, self.max_batch)


@lru_cache(maxsize=16)
def described(address: str, model: str, _served: Serving) -> Model:
    """Metadata of a model from its server at `address` (HTTP, as in Endpoint), asked once per choice of what is served.
    Raises CallError, also for metadata that the Open Inference Protocol does not know.
    """
    try:
        return _described(address, model)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise CallError(f"{address} does not describe {model} as the protocol has it: {error!r}") from error


def _described(address: str, model: str) -> Model:
    metadata = get_json(address, f"/v2/models/{quote(model)}")
    try:
        config = get_json(address, f"/v2/models/{quote(model)}/config")
    except CallError:  # an extension of Triton's; elsewhere a free first dimension of every input is the batch
        free = all([*map(int, one["shape"][:1])] == [-1] for one in metadata["inputs"])
        config = {"max_batch_size": MAX_BATCH if free else 0}
    binary = "binary_tensor_data" in get_json(address, "/v2")["extensions"]  # Triton's name for it
    max_batch = int(config.get("max_batch_size", 0))
    values = {name: about["string_value"] for name, about in config.get("parameters", {}).items()}

    def tensor(about: Mapping[str, Any]) -> Tensor:
        name, shape = about["name"], about["shape"][1 if max_batch else 0 :]
        return Tensor(name, about["datatype"], tuple(map(int, shape)), values.get(f"load.{name}"))

    inputs, outputs = (tuple(map(tensor, metadata[side])) for side in ("inputs", "outputs"))
    return Model(model, inputs, outputs, max_batch, binary)


@lru_cache(maxsize=16)
def payloads(protocol: str, model: Model, batch: int, _served: Serving) -> tuple[Payload, ...]:
    """The requests of `batch` items that a user sends in turn, within READY_BYTES. Raises CallError for bad inputs."""
    items = inputs(model)
    return in_turn(lambda start: encode(protocol, model, items, start, batch), len(items), batch)


def encode(protocol: str, model: Model, items: Sequence[Mapping[str, Array]], start: int, batch: int) -> Payload:
    """One request: `batch` of the items from `start` on, over and over, for HTTP or gRPC, every output asked for."""
    chosen = [items[(start + i) % len(items)] for i in range(batch)]
    arrays = {
        one: np.stack([item[one.name] for item in chosen]) if model.max_batch else chosen[0][one.name]
        for one in model.inputs
    }
    outputs = [one.name for one in model.outputs]
    if protocol == "HTTP" and not model.binary:
        about = [
            {"name": one.name, "datatype": one.datatype, "shape": array.shape, "data": array.ravel().tolist()}
            for one, array in arrays.items()
        ]
        body = json.dumps({"inputs": about, "outputs": [{"name": name} for name in outputs]}).encode()
        return Payload(body, batch, {"content-type": "application/json"})
    tensors = []
    for one, array in arrays.items():
        texts = one.datatype == BYTES
        raw = elements(str(value).encode() for value in array.ravel()) if texts else array.tobytes()
        tensors.append(RawTensor(one.name, one.datatype, array.shape, raw))
    return kserve(protocol, model.name, tensors, outputs, batch)


def inputs(model: Model) -> list[dict[str, Array]]:
    """The items that requests are made of, without a batch dimension: those of the file INPUT, else drawn. Raises
    CallError for unsupported inputs, and for a file that does not have them."""
    if file := os.environ.get("INPUT"):
        return _of_file(Path(file), model)
    rng = np.random.default_rng(SEED)
    return [{one.name: _drawn(rng, one) for one in model.inputs} for _ in range(DRAWN)]


def _of_file(file: Path, model: Model) -> list[dict[str, Array]]:
    try:
        with np.load(file) as found:  # never unpickled
            arrays = {name: found[name] for name in found.files}
    except (OSError, ValueError) as error:
        raise CallError(f"{file} is not an .npz of numbers and texts: {error}") from error
    if arrays.keys() != {one.name for one in model.inputs}:
        raise CallError(f"{file} has {sorted(arrays)}: {model.name} takes {sorted(one.name for one in model.inputs)}")
    items = {len(array) if array.ndim else 0 for array in arrays.values()}
    if len(items) != 1 or items == {0}:
        raise CallError(f"{file}: the first dimension of each array counts the items, as many in each, one at least")
    for one in model.inputs:
        shape = arrays[one.name].shape[1:]
        if shape != tuple(here if size == -1 else size for size, here in zip(one.shape, shape, strict=False)):
            raise CallError(f"{file}: {one.name} has items of shape {list(shape)}, where {list(one.shape)} is declared")
        if one.datatype != BYTES:
            arrays[one.name] = arrays[one.name].astype(TYPES[one.datatype])
    return [{name: array[item] for name, array in arrays.items()} for item in range(items.pop())]


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
