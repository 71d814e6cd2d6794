"""The artefacts of a model of kind "tensors": a Triton repository around its ONNX file, and the manifest."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from models.builder import repository
from models.builder.sources import Origin, file_of, labels
from models.builder.spec import TensorsSpec
from servers.triton.backends.onnxruntime.engine import read_signature
from servers.triton.backends.onnxruntime.signature import ConfigError, Signature, Tensor, complete

VALUE = "load.{}"
"""The key of the config's parameter that says what a load test fills an input with."""


def export(spec: TensorsSpec, directory: Path, scratch: Path) -> Origin:
    """Write `directory`/repository/<model>. Raises BuildError, also if the file is missing: there is no model with
    random weights."""
    folder = directory / "repository" / spec.name
    (folder / "1").mkdir(parents=True)
    path, origin = file_of(spec.weights, scratch)
    (folder / "1" / "model.onnx").write_bytes(path.read_bytes())
    (folder / "config.pbtxt").write_text(config(spec, folder / "1" / "model.onnx"))
    for output, name in spec.labels.items():
        (folder / f"{output}.txt").write_text("".join(f"{label}\n" for label in labels(name)))
    return origin


def config(spec: TensorsSpec, path: Path) -> str:
    """config.pbtxt of an ONNX file: as our own backend would complete it, narrowed by the spec. Raises BuildError.
    Triton batches the model if the first dimension of every tensor is open.
    """
    try:
        graph = read_signature(path)
    except ConfigError as error:
        raise spec.wrong(str(error)) from error
    except Exception as error:  # ONNX Runtime's exceptions have no common class
        raise spec.wrong(f"the weights are not an ONNX model: {' '.join(str(error).split())[:200]}") from error
    for said, tensors in ((spec.inputs, graph.inputs), (spec.labels, graph.outputs)):
        if unknown := said.keys() - {tensor.name for tensor in tensors}:
            raise spec.wrong(f"the graph has no {', '.join(sorted(unknown))}")
    values = {VALUE.format(name): f"{one.value:g}" for name, one in spec.inputs.items() if one.value is not None}
    about: dict[str, Any] = {
        "name": spec.name,
        "backend": "onnxruntime",
        "max_batch_size": 0,
        "input": [],
        "output": [],
        "instance_group": [{"count": 1}],
        "parameters": repository.parameters({"weights": "real"} | values),
    }
    complete(about, Signature(tuple(narrowed(spec, tensor) for tensor in graph.inputs), graph.outputs))
    if about["max_batch_size"]:
        about |= {"max_batch_size": repository.MAX_BATCH, "dynamic_batching": repository.BATCHING}
    for output in about["output"]:
        if output["name"] in spec.labels:
            output["label_filename"] = f"{output['name']}.txt"
    return repository.text(spec.name, about)


def narrowed(spec: TensorsSpec, tensor: Tensor) -> Tensor:
    """The tensor with the shape of the spec. Raises BuildError if the graph has another."""
    shape = spec.inputs[tensor.name].shape if tensor.name in spec.inputs else ()
    if not shape:
        return tensor
    if len(shape) != len(tensor.dims) or any(b not in (-1, a) for a, b in zip(shape, tensor.dims, strict=True)):
        graph = f"the graph has {list(tensor.dims)} (-1: open)"
        raise spec.wrong(f"inputs.{tensor.name}.shape is {list(shape)}, {graph}")
    return replace(tensor, dims=shape)
