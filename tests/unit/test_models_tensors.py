"""A model of tensors: its config.pbtxt says what its graph says, narrowed by its spec."""

from pathlib import Path
from typing import Any

import onnx
import pytest
from google.protobuf import text_format
from msgspec.structs import replace
from onnx import TensorProto, helper
from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig

from models.builder.hub import Unreachable
from models.builder.spec import BuildError, Input, TensorsSpec, Weights
from models.builder.tensors import config, export
from tests.stack.onnx_models import IR_VERSION, OPSET

SPEC = TensorsSpec(name="small", kind="tensors", weights=Weights(file="package/model.onnx"))


def write(path: Path, x: list[int | str], y: list[int | str], rate: list[int | str]) -> Path:
    """A graph y = x, which takes an INT64 `rate` too."""
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Identity", ["rate"], ["same"])]
    types = {"x": (TensorProto.FLOAT16, x), "rate": (TensorProto.INT64, rate)}
    inputs = [helper.make_tensor_value_info(name, *about) for name, about in types.items()]
    outputs = [
        helper.make_tensor_value_info("y", TensorProto.FLOAT16, y),
        helper.make_tensor_value_info("same", TensorProto.INT64, rate),
    ]
    made = helper.make_graph(nodes, "test", inputs, outputs)
    onnx.save(helper.make_model(made, opset_imports=[OPSET], ir_version=IR_VERSION), path)
    return path


def parsed(spec: TensorsSpec, path: Path) -> ModelConfig:
    return text_format.Parse(config(spec, path), ModelConfig())


def test_an_open_first_dimension_of_all_tensors_is_the_batch(tmp_path: Path) -> None:
    """A tensor that is a scalar in a batch of one is one element for Triton, reshaped to none."""
    got = parsed(SPEC, write(tmp_path / "m.onnx", ["n", "width"], ["n", "width"], ["n"]))
    assert got.max_batch_size == 32
    found = [(one.name, DataType.Name(one.data_type), list(one.dims)) for one in got.input]
    assert found == [("x", "TYPE_FP16", [-1]), ("rate", "TYPE_INT64", [1])]
    assert got.input[1].HasField("reshape")
    assert not got.input[1].reshape.shape
    assert got.HasField("dynamic_batching")


def test_a_scalar_or_a_fixed_first_dimension_means_no_batches(tmp_path: Path) -> None:
    """The spec narrows a shape, states a value, which a load test reads, and names an output's labels."""
    path = write(tmp_path / "m.onnx", ["n", "width"], ["n", "width"], [])
    inputs = {"x": Input(shape=(-1, 576)), "rate": Input(value=16000)}
    got = parsed(replace(SPEC, inputs=inputs, labels={"y": "imagenet"}), path)
    assert got.max_batch_size == 0
    assert [list(one.dims) for one in got.input] == [[-1, 576], [1]]
    assert not got.input[1].HasField("reshape")
    assert not got.HasField("dynamic_batching")
    assert got.parameters["load.rate"].string_value == "16000"
    assert [one.label_filename for one in got.output] == ["y.txt", ""]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"inputs": {"x": Input(shape=(1, 5))}}, r"inputs\.x\.shape is \[1, 5\], the graph has \[-1, 4\]"),
        ({"inputs": {"x": Input(shape=(1, -1))}}, r"inputs\.x\.shape"),
        ({"inputs": {"z": Input(value=1)}}, "has no z"),
        ({"labels": {"x": "imagenet"}}, "has no x"),
    ],
)
def test_what_the_graph_cannot_have_is_refused(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    path = write(tmp_path / "m.onnx", ["n", 4], ["n", 4], [])
    with pytest.raises(BuildError, match=says):
        config(replace(SPEC, **change), path)
    path.write_bytes(b"not a graph")
    with pytest.raises(BuildError, match="the weights are no ONNX model"):
        config(SPEC, path)


def test_a_download_that_fails_is_an_error_and_not_a_random_model(tmp_path: Path) -> None:
    """There is no graph without the file."""
    spec = replace(SPEC, weights=Weights(url="https://127.0.0.1:9/m.onnx", sha256="0" * 8))
    with pytest.raises(Unreachable, match="could not be fetched"):
        export(spec, tmp_path, tmp_path)
