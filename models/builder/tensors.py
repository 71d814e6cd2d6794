"""The artefacts of a model of kind "tensors": a Triton repository around its ONNX file, and the manifest."""

from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from models.builder import repository
from models.builder.sources import Origin, file_of, labels
from models.builder.spec import SpecError, TensorsSpec

# What Triton calls the types that ONNX names otherwise.
TYPES = {"FLOAT": "FP32", "DOUBLE": "FP64", "FLOAT16": "FP16", "BFLOAT16": "BF16"}

VALUE = "load.{}"
"""The key of the config's parameter that says what a load test fills an input with."""


@dataclass(frozen=True)
class Tensor:
    """An input or output of a graph, the batch included; -1 where a dimension is open."""

    name: str
    data_type: str
    dims: tuple[int, ...]


def export(spec: TensorsSpec, directory: Path, scratch: Path) -> Origin:
    """Write `directory`/repository/<model>. Raises BuildError: without its file there is no model, not a random one."""
    folder = directory / "repository" / spec.name
    (folder / "1").mkdir(parents=True)
    path, origin = file_of(spec.weights, scratch)
    (folder / "1" / "model.onnx").write_bytes(path.read_bytes())
    inputs, outputs = graph(folder / "1" / "model.onnx")
    inputs = [narrowed(spec, tensor) for tensor in inputs]
    if unknown := set(spec.inputs) - {one.name for one in inputs} or set(spec.labels) - {one.name for one in outputs}:
        raise SpecError(f"models/{spec.name}/model.toml: the graph has no {', '.join(sorted(unknown))}")
    for output, name in spec.labels.items():
        (folder / f"{output}.txt").write_text("".join(f"{label}\n" for label in labels(name)))
    (folder / "config.pbtxt").write_text(config(spec, inputs, outputs))
    return origin


def graph(path: Path) -> tuple[list[Tensor], list[Tensor]]:
    """The inputs and outputs of an ONNX file. Raises SpecError where it is none."""
    try:
        onnx.checker.check_model(str(path))
    except (onnx.checker.ValidationError, OSError, ValueError) as error:
        raise SpecError(f"the weights are no ONNX model: {' '.join(str(error).split())[:200]}") from error
    read = onnx.load(str(path)).graph
    constants = {one.name for one in read.initializer}

    def tensor(value: onnx.ValueInfoProto) -> Tensor:
        about = value.type.tensor_type
        kind = onnx.TensorProto.DataType.Name(about.elem_type)
        return Tensor(value.name, TYPES.get(kind, kind), tuple(dim.dim_value or -1 for dim in about.shape.dim))

    return [tensor(one) for one in read.input if one.name not in constants], [tensor(one) for one in read.output]


def narrowed(spec: TensorsSpec, tensor: Tensor) -> Tensor:
    """With the shape that the spec gives it. Raises SpecError where the graph has another."""
    shape = spec.inputs[tensor.name].shape if tensor.name in spec.inputs else ()
    if not shape:
        return tensor
    if len(shape) != len(tensor.dims) or any(b not in (-1, a) for a, b in zip(shape, tensor.dims, strict=True)):
        raise SpecError(
            f"models/{spec.name}/model.toml: inputs.{tensor.name}.shape is {list(shape)}, "
            f"the graph has {list(tensor.dims)} (-1: open)"
        )
    return Tensor(tensor.name, tensor.data_type, shape)


def config(spec: TensorsSpec, inputs: list[Tensor], outputs: list[Tensor]) -> str:
    """config.pbtxt. Triton makes batches where the first dimension of every tensor is open."""
    batching = all(tensor.dims[:1] == (-1,) for tensor in inputs + outputs)
    values = {name: one.value for name, one in spec.inputs.items() if one.value is not None}
    about = {
        "name": spec.name,
        "backend": "onnxruntime",
        "max_batch_size": repository.MAX_BATCH if batching else 0,
        "input": [_described(tensor, batching) for tensor in inputs],
        "output": [_described(tensor, batching, spec.labels) for tensor in outputs],
        "instance_group": [{"count": 1}],
        "parameters": repository.parameters(
            {"weights": "real"} | {VALUE.format(name): f"{value:g}" for name, value in values.items()}
        ),
    }
    if batching:
        about["dynamic_batching"] = repository.AT_ONCE
    return repository.text(spec.name, about)


def _described(tensor: Tensor, batching: bool, labelled: Container[str] = ()) -> dict[str, Any]:
    dims = tensor.dims[1:] if batching else tensor.dims
    labels = f"{tensor.name}.txt" if tensor.name in labelled else ""
    described = repository.tensor(tensor.name, tensor.data_type, dims or [1], labels)
    # Triton has no dims for a scalar: it is one element; in a batch, reshaped to none.
    return described | ({"reshape": {}} if batching and not dims else {})
