"""Whether TensorRT's profile, which names the graph's inputs only, determines every shape in the graph."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
import onnx.shape_inference
import onnxruntime


def unknown(path: Path, shapes: Mapping[str, Sequence[int]], scratch: Path) -> list[str]:
    """The tensors of an ONNX file whose shape is still open when its inputs have `shapes`: inputs that `shapes` lacks,
    and what depends on values. TensorRT does not take such a graph whole.

    ONNX Runtime folds what computes shapes, which ONNX's own inference cannot follow everywhere. It needs room in
    `scratch` for the file once more.
    """
    model = onnx.load(path)
    for tensor in model.graph.input:
        for dim, size in zip(tensor.type.tensor_type.shape.dim, shapes.get(tensor.name, ()), strict=False):
            dim.dim_value = size
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    with tempfile.NamedTemporaryFile(dir=scratch) as folded:
        options.optimized_model_filepath = folded.name
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        graph = onnx.shape_inference.infer_shapes(onnx.load(folded.name)).graph
    fixed = {
        tensor.name
        for tensor in (*graph.input, *graph.value_info, *graph.output)
        if tensor.type.tensor_type.HasField("shape")
        and all(dim.HasField("dim_value") for dim in tensor.type.tensor_type.shape.dim)
    }
    tensors = [*(tensor.name for tensor in graph.input), *(name for node in graph.node for name in node.output if name)]
    return [name for name in tensors if name not in fixed]
