"""config.pbtxt is what Triton's own message definition says a model configuration is."""

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from models.repository import MAX_BATCH, config
from models.spec import MODELS, ImageSpec, Spec

# The ONNX Runtime backend refuses to load a model with a TensorRT key that it does not know.
KNOWN_TENSORRT_KEYS = {
    "precision_mode",
    "max_workspace_size_bytes",
    "trt_engine_cache_enable",
    "trt_engine_cache_path",
    "trt_timing_cache_enable",
    "trt_timing_cache_path",
    "trt_profile_min_shapes",
    "trt_profile_opt_shapes",
    "trt_profile_max_shapes",
    "trt_builder_optimization_level",
    "trt_cuda_graph_enable",
}

KNOWN = [path.parent.name for path in sorted(MODELS.glob("*/model.toml"))]
IMAGE_MODELS = [name for name in KNOWN if isinstance(Spec.load(name), ImageSpec)]


def parsed(model: str, *, accelerated: bool = False, weights: str = "real") -> ModelConfig:
    spec = ImageSpec.load(model)
    return text_format.Parse(config(spec, model, weights, accelerated=accelerated), ModelConfig())


@pytest.mark.parametrize("accelerated", [False, True])
@pytest.mark.parametrize("model", IMAGE_MODELS)
def test_the_text_parses_and_states_the_models_tensors(model: str, accelerated: bool) -> None:
    got, spec = parsed(model, accelerated=accelerated), ImageSpec.load(model)
    assert (got.name, got.backend, got.max_batch_size) == (model, "onnxruntime", MAX_BATCH)
    assert [(tensor.name, list(tensor.dims)) for tensor in got.input] == [("image", [3, 224, 224])]
    assert {tensor.name: tensor.dims[0] for tensor in got.output} == spec.outputs
    assert got.HasField("dynamic_batching")
    assert got.dynamic_batching.max_queue_delay_microseconds == 0


def test_one_instance_of_no_stated_kind() -> None:
    """With no group Triton starts two here; with a stated kind the file would differ between CPU and GPU."""
    (group,) = parsed("efficientnet_lite0").instance_group
    assert (group.count, group.kind) == (1, group.KIND_AUTO)


def test_random_weights_are_said() -> None:
    assert parsed("densenet161", weights="random").parameters["weights"].string_value == "random"


def test_the_plain_model_declares_no_accelerator() -> None:
    assert not parsed("efficientnet_lite0").HasField("optimization")


def test_the_trt_model_declares_one_accelerator_per_device() -> None:
    accelerators = parsed("efficientnet_lite0", accelerated=True).optimization.execution_accelerators
    assert [entry.name for entry in accelerators.cpu_execution_accelerator] == ["openvino"]
    (tensorrt,) = accelerators.gpu_execution_accelerator
    assert tensorrt.name == "tensorrt"
    assert set(tensorrt.parameters) <= KNOWN_TENSORRT_KEYS
    assert tensorrt.parameters["precision_mode"] == "FP16"
    shapes = [tensorrt.parameters[f"trt_profile_{name}_shapes"] for name in ("min", "opt", "max")]
    assert shapes == [f"image:{batch}x3x224x224" for batch in (1, 8, MAX_BATCH)]


def test_only_logits_have_labels() -> None:
    """Triton's classification extension reads them from the model's folder."""
    assert [tensor.label_filename for tensor in parsed("efficientnet_lite0").output] == ["", "labels.txt"]
    assert [tensor.label_filename for tensor in parsed("openclip_vit_b32").output] == [""]
