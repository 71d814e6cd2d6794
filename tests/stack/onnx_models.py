"""Small ONNX models of many shapes in one standard Triton model repository.

Each is there for one thing that a repository may hold; none is about images. Their answers are plain arithmetic, so
that a test can state the right value.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import TensorProto, helper, numpy_helper
from tritonclient.utils import triton_to_np_dtype

# What any ONNX Runtime since 2023 reads.
IR_VERSION = 9
OPSET = helper.make_opsetid("", 20)

# Every type of number that a tensor may have, by Triton's name.
INTEGERS = [f"{kind}{bits}" for kind in ("INT", "UINT") for bits in (8, 16, 32, 64)]
NUMBERS = {
    name: helper.np_dtype_to_tensor_dtype(np.dtype(triton_to_np_dtype(name)))
    for name in (*INTEGERS, "FP16", "FP32", "FP64", "BOOL")
}
TYPES = NUMBERS | {"STRING": TensorProto.STRING}

TABLE = np.arange(12, dtype=np.float32).reshape(4, 3) * 1.5
WEIGHTS = np.array([[1, -2, 3], [0.5, 0, -1], [4, 1, 1], [0, 0, 2]], dtype=np.float32)

FIRST_AXIS = np.array([1], np.int64)
BACKEND = 'backend: "onnxruntime"\n'
# Requests that come within the delay run together, however slow the machine is.
BATCHER = "dynamic_batching { max_queue_delay_microseconds: 300000 }\ninstance_group { count: 1 }\n"

# Name -> Triton type and dims, batch included; a name for a dimension makes it variable.
Tensors = Mapping[str, tuple[str, Sequence[int | str]]]
Node = tuple[str, Sequence[str], str, Mapping[str, Any]]


def make_repository(folder: Path) -> None:
    """Write every model that can be served, as <model>/<version>/<file>, with or without a config.pbtxt."""
    # Every type of number at once, many inputs and outputs: each input twice, side by side.
    inputs: Tensors = {f"in_{name}": (name, ["n", "width"]) for name in NUMBERS}
    outputs: Tensors = {f"out_{name}": (name, ["n", "twice"]) for name in NUMBERS}
    nodes: list[Node] = [("Concat", [f"in_{name}"] * 2, f"out_{name}", {"axis": 1}) for name in NUMBERS]
    write(folder / "every_type", nodes, inputs, outputs, config="max_batch_size: 8\n" + _io(inputs, outputs))

    # Two inputs, three outputs, real dynamic batches.
    operators = {"sum": "Add", "difference": "Sub", "product": "Mul"}
    inputs, outputs = dict.fromkeys("ab", ("FP32", ["n", 3])), dict.fromkeys(operators, ("FP32", ["n", 3]))
    nodes = [(operator, ["a", "b"], name, {}) for name, operator in operators.items()]
    config = BACKEND + "max_batch_size: 16\n" + _io(inputs, outputs) + BATCHER
    write(folder / "arithmetic", nodes, inputs, outputs, config=config)

    # Text in, text with an exclamation mark out; only `platform` says what runs it.
    inputs, outputs = {"text": ("STRING", ["n", "words"])}, {"shout": ("STRING", ["n", "words"])}
    config = 'platform: "onnxruntime_onnx"\nmax_batch_size: 4\n' + _io(inputs, outputs)
    nodes = [("StringConcat", ["text", "mark"], "shout", {})]
    write(folder / "strings", nodes, inputs, outputs, {"mark": np.array(["!"], object)}, config)

    # No config at all, and a graph that can batch: a row in, one number per row out.
    nodes = [("MatMul", ["row", "weights"], "hidden", {}), ("ReduceSum", ["hidden", "axis"], "total", {"keepdims": 0})]
    inputs, outputs = {"row": ("FP32", ["n", 4])}, {"total": ("FP32", ["n"])}
    write(folder / "no_config", nodes, inputs, outputs, {"weights": WEIGHTS, "axis": FIRST_AXIS})

    # No config at all, and a graph that cannot batch: fixed dims, a scalar in, a scalar out.
    nodes = [("Mul", ["matrix", "factor"], "scaled", {}), ("ReduceMax", ["scaled"], "largest", {"keepdims": 0})]
    inputs = {"matrix": ("FP64", [2, 3]), "factor": ("FP64", [])}
    write(folder / "no_batching", nodes, inputs, {"scaled": ("FP64", [2, 3]), "largest": ("FP64", [])})

    # Variable dims, other shapes out than in.
    inputs = {"matrix": ("INT64", ["n", "height", "width"])}
    outputs = {"turned": ("INT64", ["n", "width", "height"]), "columns": ("INT64", ["n", "width"])}
    columns: Node = ("ReduceSum", ["matrix", "axis"], "columns", {"keepdims": 0})
    nodes = [("Transpose", ["matrix"], "turned", {"perm": [0, 2, 1]}), columns]
    config = BACKEND + "max_batch_size: 8\n" + _io(inputs, outputs)
    write(folder / "variable_dims", nodes, inputs, outputs, {"axis": FIRST_AXIS}, config)

    # A lookup that fails beyond its table; the config's `reshape` leaves the graph only the batch dimension.
    inputs, outputs = {"index": ("INT64", ["n"])}, {"row": ("FP32", ["n", 3])}
    index = 'input { name: "index" data_type: TYPE_INT64 dims: 1 reshape { shape: [] } }\n'
    config = BACKEND + "max_batch_size: 16\n" + index + _io({}, outputs) + BATCHER
    write(folder / "lookup", [("Gather", ["table", "index"], "row", {})], inputs, outputs, {"table": TABLE}, config)

    # Accelerators for a GPU and a CPU, session options, a file of another name, two versions: y = relu(x * version).
    inputs, outputs = {"x": ("FP32", ["n", 4])}, {"y": ("FP32", ["n", 4])}
    parameters = {"intra_op_thread_count": 1, "inter_op_thread_count": 1, "execution_mode": 1, "enable_mem_arena": 0}
    config = (
        'default_model_filename: "graph.onnx"\nversion_policy { all {} }\n'
        "optimization { graph { level: 1 } execution_accelerators {\n"
        '  gpu_execution_accelerator { name: "tensorrt" parameters { key: "precision_mode" value: "FP16" } }\n'
        '  cpu_execution_accelerator { name: "openvino" }\n} }\n'
    ) + "".join(f'parameters {{ key: "{k}" value: {{ string_value: "{v}" }} }}\n' for k, v in parameters.items())
    config = BACKEND + "max_batch_size: 8\n" + _io(inputs, outputs) + config
    nodes = [("Mul", ["x", "version"], "scaled", {}), ("Relu", ["scaled"], "y", {})]
    for version in (1, 2):
        constants = {"version": np.float32(version)}
        write(folder / "accelerated", nodes, inputs, outputs, constants, config, f"{version}/graph.onnx")


def make_broken(folder: Path) -> None:
    """Write models that cannot be served, each for another reason."""
    x: Tensors = {"x": ("FP32", [1, 4])}
    y: Tensors = {"y": ("FP32", [1, 4])}
    good = BACKEND + "max_batch_size: 0\n" + _io({"x": ("FP32", ["n", 1, 4])}, {"y": ("FP32", ["n", 1, 4])})
    accelerators = 'optimization { execution_accelerators { cpu_execution_accelerator { name: "magic" } } }\n'
    for name, config in {
        "wrong_name": good.replace('"x"', '"z"'),
        "wrong_type": good.replace("TYPE_FP32", "TYPE_INT32", 1),
        "cannot_batch": BACKEND + "max_batch_size: 8\n" + _io(x, y),
        "wrong_accelerator": good + accelerators,
        "corrupt": good,
    }.items():
        write(folder / name, [("Relu", ["x"], "y", {})], x, y, config=config)
    (folder / "corrupt" / "1" / "model.onnx").write_bytes(b"not a graph")


def _io(inputs: Tensors, outputs: Tensors) -> str:
    """The inputs and outputs of a config.pbtxt with batching: dims without the batch, -1 where variable."""
    lines = []
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for name, (data_type, dims) in tensors.items():
            served = ", ".join("-1" if isinstance(dim, str) else str(dim) for dim in dims[1:])
            lines.append(f'{kind} {{ name: "{name}" data_type: TYPE_{data_type} dims: [ {served} ] }}\n')
    return "".join(lines)


def write(
    folder: Path,
    nodes: Sequence[Node],
    inputs: Tensors,
    outputs: Tensors,
    constants: Mapping[str, ArrayLike] | None = None,
    config: str = "",
    file: str = "1/model.onnx",
) -> None:
    """One version of a model, and its config.pbtxt."""
    graph = helper.make_graph(
        [helper.make_node(operator, takes, [gives], **attributes) for operator, takes, gives, attributes in nodes],
        "test",
        [helper.make_tensor_value_info(name, TYPES[kind], dims) for name, (kind, dims) in inputs.items()],
        [helper.make_tensor_value_info(name, TYPES[kind], dims) for name, (kind, dims) in outputs.items()],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[OPSET], ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    (folder / file).parent.mkdir(parents=True)
    onnx.save(model, folder / file)
    if config:
        (folder / "config.pbtxt").write_text(config)
