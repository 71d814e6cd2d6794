"""The artefacts of a model of kind "tensors": a Triton repository around its ONNX file, and the manifest."""

from dataclasses import dataclass
from pathlib import Path

from models.builder.repository import MAX_BATCH
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
    import onnx

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
    parameters = {"weights": "real"} | {VALUE.format(name): f"{value:g}" for name, value in values.items()}
    lines = [
        f"# Made by the models service from models/{spec.name}/model.toml.",
        f'name: "{spec.name}"',
        'backend: "onnxruntime"',
        f"max_batch_size: {MAX_BATCH if batching else 0}",
        *(f"input {_described(tensor, batching)}" for tensor in inputs),
        *(f"output {_described(tensor, batching, spec.labels)}" for tensor in outputs),
        *(["dynamic_batching { max_queue_delay_microseconds: 0 }"] if batching else []),
        "instance_group [ { count: 1 } ]",
        *(f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }}' for key, value in parameters.items()),
    ]
    return "".join(f"{line}\n" for line in lines)


def _described(tensor: Tensor, batching: bool, labelled: dict[str, str] | None = None) -> str:
    dims = tensor.dims[1:] if batching else tensor.dims
    # Triton has no dims for a scalar: it is one element; in a batch, reshaped to none.
    reshaped = " reshape { shape: [] }" if batching and not dims else ""
    labels = f' label_filename: "{tensor.name}.txt"' if tensor.name in (labelled or {}) else ""
    return f'{{ name: "{tensor.name}" data_type: TYPE_{tensor.data_type} dims: {list(dims) or [1]}{reshaped}{labels} }}'
