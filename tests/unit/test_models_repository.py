"""config.pbtxt is what Triton's own message definition says a model configuration is."""

import json
from dataclasses import asdict

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from locustfiles.study_routes.fiveway import BATCHES, CONCURRENCY
from models.builder.currency import Accelerator
from models.builder.repository import MAX_BATCH, config, jpeg_config, preprocess_config
from models.builder.spec import MODELS, ImageSpec, Spec

CHECKSUM = "0123456789abcdef" * 4

SPECS = [Spec.load(path.parent.name) for path in sorted(MODELS.glob("*/model.toml"))]
IMAGE_MODELS = [spec.name for spec in SPECS if isinstance(spec, ImageSpec)]


def parsed(model: str, accelerator: Accelerator = "cpu", *, checksum: str = "", weights: str = "real") -> ModelConfig:
    return text_format.Parse(config(ImageSpec.load(model), model, weights, accelerator, checksum), ModelConfig())


@pytest.mark.parametrize("checksum", ["", CHECKSUM], ids=["plain", "accelerated"])
@pytest.mark.parametrize("accelerator", ["cpu", "gpu"])
@pytest.mark.parametrize("model", IMAGE_MODELS)
def test_a_config_states_the_models_tensors_and_what_is_warm(
    model: str, accelerator: Accelerator, checksum: str
) -> None:
    """With no group Triton starts two instances; with no kind it takes the GPU where it sees one.

    On a GPU every serial batch of the study is warm, and what its callers can form together; on a CPU that would cost
    memory and win nothing. Triton's classification extension reads labels from the model's folder.
    """
    got, spec = parsed(model, accelerator, checksum=checksum, weights="random"), ImageSpec.load(model)
    assert (got.name, got.backend, got.max_batch_size) == (model, "onnxruntime", MAX_BATCH)
    assert [(tensor.name, list(tensor.dims)) for tensor in got.input] == [("image", [3, 224, 224])]
    assert {tensor.name: tensor.dims[0] for tensor in got.output} == spec.outputs
    assert [tensor.label_filename for tensor in got.output] == ["", "labels.txt"][: len(spec.outputs)]
    assert got.HasField("dynamic_batching")
    assert got.dynamic_batching.max_queue_delay_microseconds == 0
    (group,) = got.instance_group
    assert (group.count, group.kind) == (1, group.KIND_AUTO)
    assert got.parameters["weights"].string_value == "random"
    assert got.HasField("optimization") == bool(checksum)
    openvino = [one.name for one in got.optimization.execution_accelerators.cpu_execution_accelerator]
    assert openvino == (["openvino"] if checksum and accelerator == "cpu" else [])
    warm = {sample.batch_size for sample in got.model_warmup}
    assert warm >= {*BATCHES, *range(1, max(CONCURRENCY) + 1)} if accelerator == "gpu" else not warm


def test_with_a_gpu_the_trt_model_is_tensorrts() -> None:
    """Its caches are keyed by the model, and its profiles hold every batch, so that none builds an engine later."""
    config = parsed("efficientnet_lite0", "gpu", checksum=CHECKSUM)
    (tensorrt,) = config.optimization.execution_accelerators.gpu_execution_accelerator
    caches = {
        f"trt_{cache}_cache_{key}": value
        for cache in ("engine", "timing")
        for key, value in (("enable", "1"), ("path", "/tmp/tensorrt/0123456789abcdef"))
    }
    profiles = {
        f"trt_profile_{name}_shapes": f"image:{n}x3x224x224" for name, n in (("min", 1), ("opt", 8), ("max", MAX_BATCH))
    }
    assert (tensorrt.name, dict(tensorrt.parameters)) == ("tensorrt", {"precision_mode": "FP16"} | caches | profiles)


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
