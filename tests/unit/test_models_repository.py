"""config.pbtxt is what Triton's own message definition says a model configuration is."""

import json
from dataclasses import asdict

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from locustfiles.study_routes.fiveway import BATCHES, CONCURRENCY
from models.builder.repository import MAX_BATCH, Accelerator, config, jpeg_config, preprocess_config
from models.builder.spec import MODELS, ImageSpec, Spec

CHECKSUM = "0123456789abcdef" * 4

KNOWN = [path.parent.name for path in sorted(MODELS.glob("*/model.toml"))]
IMAGE_MODELS = [name for name in KNOWN if isinstance(Spec.load(name), ImageSpec)]


def parsed(model: str, accelerator: Accelerator = "cpu", *, checksum: str = "", weights: str = "real") -> ModelConfig:
    return text_format.Parse(config(ImageSpec.load(model), model, weights, accelerator, checksum), ModelConfig())


@pytest.mark.parametrize("checksum", ["", CHECKSUM], ids=["plain", "accelerated"])
@pytest.mark.parametrize("accelerator", ["cpu", "gpu"])
@pytest.mark.parametrize("model", IMAGE_MODELS)
def test_the_text_parses_and_states_the_models_tensors(model: str, accelerator: Accelerator, checksum: str) -> None:
    got, spec = parsed(model, accelerator, checksum=checksum), ImageSpec.load(model)
    assert (got.name, got.backend, got.max_batch_size) == (model, "onnxruntime", MAX_BATCH)
    assert [(tensor.name, list(tensor.dims)) for tensor in got.input] == [("image", [3, 224, 224])]
    assert {tensor.name: tensor.dims[0] for tensor in got.output} == spec.outputs
    assert got.HasField("dynamic_batching")
    assert got.dynamic_batching.max_queue_delay_microseconds == 0


def test_one_instance_of_no_stated_kind() -> None:
    """With no group Triton starts two here; with no kind it takes the GPU where it sees one."""
    (group,) = parsed("efficientnet_lite0").instance_group
    assert (group.count, group.kind) == (1, group.KIND_AUTO)


def test_random_weights_are_said() -> None:
    assert parsed("densenet161", weights="random").parameters["weights"].string_value == "random"


@pytest.mark.parametrize("accelerator", ["cpu", "gpu"])
def test_the_plain_model_declares_no_accelerator(accelerator: Accelerator) -> None:
    assert not parsed("efficientnet_lite0", accelerator).HasField("optimization")


def test_without_a_gpu_the_trt_model_is_openvinos() -> None:
    accelerators = parsed("efficientnet_lite0", checksum=CHECKSUM).optimization.execution_accelerators
    assert [entry.name for entry in accelerators.cpu_execution_accelerator] == ["openvino"]
    assert not accelerators.gpu_execution_accelerator


def test_with_a_gpu_the_trt_model_is_tensorrts_alone() -> None:
    """Its caches are keyed by the model, and its profiles hold every batch, so that none builds an engine later."""
    accelerators = parsed("efficientnet_lite0", "gpu", checksum=CHECKSUM).optimization.execution_accelerators
    assert not accelerators.cpu_execution_accelerator
    (tensorrt,) = accelerators.gpu_execution_accelerator
    assert tensorrt.name == "tensorrt"
    assert tensorrt.parameters["precision_mode"] == "FP16"
    assert {tensorrt.parameters[f"trt_{name}_cache_path"] for name in ("engine", "timing")} == {
        "/tmp/tensorrt/0123456789abcdef"
    }
    shapes = [tensorrt.parameters[f"trt_profile_{name}_shapes"] for name in ("min", "opt", "max")]
    assert shapes == [f"image:{batch}x3x224x224" for batch in (1, 8, MAX_BATCH)]


@pytest.mark.parametrize("checksum", ["", CHECKSUM], ids=["plain", "accelerated"])
def test_with_a_gpu_every_batch_of_the_study_is_warm(checksum: str) -> None:
    """Its serial batches, and what its callers can form together; on a CPU that would cost memory and win nothing."""
    warm = {sample.batch_size for sample in parsed("efficientnet_lite0", "gpu", checksum=checksum).model_warmup}
    assert warm >= {*BATCHES, *range(1, max(CONCURRENCY) + 1)}
    assert not parsed("efficientnet_lite0", checksum=checksum).model_warmup


def test_only_logits_have_labels() -> None:
    """Triton's classification extension reads them from the model's folder."""
    assert [tensor.label_filename for tensor in parsed("efficientnet_lite0").output] == ["", "labels.txt"]
    assert [tensor.label_filename for tensor in parsed("openclip_vit_b32").output] == [""]


@pytest.mark.parametrize("model", IMAGE_MODELS)
def test_the_jpeg_model_is_preprocessing_and_then_the_model(model: str) -> None:
    """JPEG files in, the model's own outputs out; the first step has the spec's numbers and runs on the CPU."""
    spec = ImageSpec.load(model)
    whole = text_format.Parse(jpeg_config(spec), ModelConfig())
    first = text_format.Parse(preprocess_config(spec), ModelConfig())
    assert (whole.name, whole.platform, first.name) == (f"{model}_jpeg", "ensemble", f"{model}_preprocess")
    assert {tensor.name: tensor.dims[0] for tensor in whole.output} == spec.outputs
    assert [step.model_name for step in whole.ensemble_scheduling.step] == [first.name, model]
    for taking in (whole, first):
        assert [(one.name, one.data_type, list(one.dims)) for one in taking.input] == [("jpeg", 13, [1])]
        assert taking.max_batch_size == MAX_BATCH
    assert json.loads(first.parameters["preprocess"].string_value) == json.loads(json.dumps(asdict(spec.preprocess)))
    assert first.instance_group[0].kind == first.instance_group[0].KIND_CPU
