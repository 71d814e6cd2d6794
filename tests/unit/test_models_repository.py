"""config.pbtxt: what no CPU shows, and what the studies need; of a model of tensors what its graph says, and its spec.

How Triton reads it: tests/stack.
"""

from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from msgspec.structs import replace
from tritonclient.grpc.model_config_pb2 import DataType, ModelConfig

from locustfiles.study_routes.fiveway import BATCHES, CONCURRENCY
from models.builder import profile, tensors
from models.builder.currency import Accelerator, Precision
from models.builder.hub import Unreachable
from models.builder.repository import MAX_BATCH, config
from models.builder.spec import BuildError, ImageSpec, Input, TensorsSpec, Weights
from tests.stack.onnx_models import Node, Tensors, write

CHECKSUM = "0123456789abcdef" * 4
MODELS = ("efficientnet_lite0", "openclip_vit_b32")


def parsed(
    model: str, accelerator: Accelerator = "cpu", checksum: str = "", precision: Precision = "fp32"
) -> ModelConfig:
    text = config(ImageSpec.load(model), model, "real", accelerator, checksum, precision)
    return text_format.Parse(text, ModelConfig())


@pytest.mark.parametrize("model", MODELS)
def test_what_a_model_says_of_itself(model: str) -> None:
    """With no group Triton starts two instances; with no kind it takes the GPU where it sees one.

    On a GPU every serial batch of the study is warm, and what its callers can form together; on a CPU that would cost
    memory and win nothing, and so would batches of more than eight that wait. Triton's classification extension reads
    labels from the model's folder.
    """
    got = parsed(model)
    assert [tensor.label_filename for tensor in got.output] == ["", "labels.txt"][: len(got.output)]
    assert got.dynamic_batching.max_queue_delay_microseconds == 0
    assert not got.dynamic_batching.HasField("default_queue_policy")
    (group,) = got.instance_group
    assert (group.count, group.kind) == (1, group.KIND_AUTO)
    assert not got.HasField("optimization")
    assert not got.model_warmup
    assert got.dynamic_batching.preferred_batch_size == [8]
    gpu = parsed(model, "gpu")
    assert not gpu.dynamic_batching.preferred_batch_size
    warm = {sample.batch_size for sample in gpu.model_warmup}
    assert warm >= {*BATCHES, *range(1, max(CONCURRENCY) + 1)}


def test_the_trt_model_is_openvinos_or_with_a_gpu_tensorrts() -> None:
    """Its caches are keyed by the model, and its profiles hold every batch, so that none builds an engine later."""
    cpu, gpu = (
        parsed(MODELS[0], accelerator, CHECKSUM).optimization.execution_accelerators for accelerator in ("cpu", "gpu")
    )
    assert [one.name for one in cpu.cpu_execution_accelerator] == ["openvino"]
    (tensorrt,) = gpu.gpu_execution_accelerator
    folder = "/tmp/tensorrt/0123456789abcdef-fp32"
    assert (tensorrt.name, dict(tensorrt.parameters)) == ("tensorrt", {
        "precision_mode": "FP32",
        "trt_engine_cache_enable": "1", "trt_engine_cache_path": folder,
        "trt_timing_cache_enable": "1", "trt_timing_cache_path": folder,
        "trt_profile_min_shapes": "image:1x3x224x224",
        "trt_profile_opt_shapes": "image:8x3x224x224",
        "trt_profile_max_shapes": f"image:{MAX_BATCH}x3x224x224",
    })  # fmt: skip


@pytest.mark.parametrize(("precision", "mode"), [("fp32", "FP32"), ("tf32", "FP32"), ("fp16", "FP16")])
def test_each_precision_has_engines_of_its_own(precision: Precision, mode: str) -> None:
    """TF32 is no mode of TensorRT's, and an engine that was built with it must not run without. Of a graph in FP16 both
    models say so; their inputs and outputs are FP32 in any case."""
    models = [parsed(MODELS[0], "gpu", checksum, precision) for checksum in ("", CHECKSUM)]
    (tensorrt,) = models[1].optimization.execution_accelerators.gpu_execution_accelerator
    assert tensorrt.parameters["precision_mode"] == mode
    for cache in ("engine", "timing"):
        assert tensorrt.parameters[f"trt_{cache}_cache_path"] == f"/tmp/tensorrt/0123456789abcdef-{precision}"
    for model in models:
        assert model.parameters["precision"].string_value == ("FP16" if mode == "FP16" else "")
        assert {tensor.data_type for tensor in (*model.input, *model.output)} == {DataType.TYPE_FP32}


def test_without_a_profile_tensorrt_makes_its_own() -> None:
    text = config(ImageSpec.load(MODELS[0]), MODELS[0], "real", "gpu", CHECKSUM, profiled=False)
    (tensorrt,) = text_format.Parse(text, ModelConfig()).optimization.execution_accelerators.gpu_execution_accelerator
    assert not [key for key in tensorrt.parameters if "profile" in key]


@pytest.mark.parametrize(
    ("nodes", "inputs", "unknown"),
    [
        ([("Identity", ["image"], "y", {})], {}, []),
        # A shape that is computed, from the input's own.
        ([("Shape", ["image"], "s", {}), ("ConstantOfShape", ["s"], "y", {})], {}, []),
        ([("NonZero", ["image"], "at", {}), ("Cast", ["at"], "y", {"to": 1})], {}, ["at", "y"]),
        ([("Add", ["image", "more"], "y", {})], {"more": ("FP32", ["k", 3])}, ["more"]),
    ],
)
def test_a_profile_covers_what_follows_from_the_image(
    tmp_path: Path, nodes: list[Node], inputs: Tensors, unknown: list[str]
) -> None:
    """Not a shape that depends on values, and not an input that it does not name."""
    image: Tensors = {"image": ("FP32", ["batch", 3])}
    write(tmp_path / "m", nodes, {**image, **inputs}, {"y": ("FP32", ["batch", "width"])}, file="m.onnx")
    assert profile.unknown(tmp_path / "m" / "m.onnx", {"image": [32, 3]}, tmp_path) == unknown


SPEC = TensorsSpec(name="small", kind="tensors", weights=Weights(file="package/model.onnx"))


def graph(folder: Path, x: list[int | str], rate: list[int | str]) -> Path:
    """A graph y = x, which takes an INT64 `rate` too."""
    inputs, outputs = ({one: ("FP16", x), two: ("INT64", rate)} for one, two in (("x", "rate"), ("y", "same")))
    write(folder, [("Identity", ["x"], "y", {}), ("Identity", ["rate"], "same", {})], inputs, outputs, file="m.onnx")
    return folder / "m.onnx"


def narrowed(spec: TensorsSpec, path: Path) -> ModelConfig:
    return text_format.Parse(tensors.config(spec, path), ModelConfig())


def test_an_open_first_dimension_of_all_tensors_is_the_batch(tmp_path: Path) -> None:
    """A tensor that is a scalar in a batch of one is one element for Triton, reshaped to none."""
    got = narrowed(SPEC, graph(tmp_path / "m", ["n", "width"], ["n"]))
    assert got.max_batch_size == 32
    found = [(one.name, DataType.Name(one.data_type), list(one.dims)) for one in got.input]
    assert found == [("x", "TYPE_FP16", [-1]), ("rate", "TYPE_INT64", [1])]
    assert got.input[1].HasField("reshape")
    assert not got.input[1].reshape.shape
    assert got.HasField("dynamic_batching")


def test_a_scalar_or_a_fixed_first_dimension_means_no_batches(tmp_path: Path) -> None:
    """The spec narrows a shape, states a value, which a load test reads, and names an output's labels."""
    path = graph(tmp_path / "m", ["n", "width"], [])
    inputs = {"x": Input(shape=(-1, 576)), "rate": Input(value=16000)}
    got = narrowed(replace(SPEC, inputs=inputs, labels={"y": "imagenet"}), path)
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
    path = graph(tmp_path / "m", ["n", 4], [])
    with pytest.raises(BuildError, match=says):
        tensors.config(replace(SPEC, **change), path)
    path.write_bytes(b"not a graph")
    with pytest.raises(BuildError, match="the weights are not an ONNX model"):
        tensors.config(SPEC, path)


def test_a_download_that_fails_is_an_error_and_not_a_random_model(tmp_path: Path) -> None:
    """Without the file there is no graph, so it is an error."""
    spec = replace(SPEC, weights=Weights(url="https://127.0.0.1:9/m.onnx", sha256="0" * 8))
    with pytest.raises(Unreachable, match="could not be fetched"):
        tensors.export(spec, tmp_path, tmp_path)
