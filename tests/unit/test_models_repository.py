"""config.pbtxt: what no CPU shows, and what the studies need. How Triton reads it: tests/stack."""

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from locustfiles.study_routes.fiveway import BATCHES, CONCURRENCY
from models.builder.currency import Accelerator
from models.builder.repository import MAX_BATCH, config
from models.builder.spec import ImageSpec

CHECKSUM = "0123456789abcdef" * 4
MODELS = ("efficientnet_lite0", "openclip_vit_b32")


def parsed(model: str, accelerator: Accelerator = "cpu", checksum: str = "") -> ModelConfig:
    return text_format.Parse(config(ImageSpec.load(model), model, "real", accelerator, checksum), ModelConfig())


@pytest.mark.parametrize("model", MODELS)
def test_what_a_model_says_of_itself(model: str) -> None:
    """With no group Triton starts two instances; with no kind it takes the GPU where it sees one.

    On a GPU every serial batch of the study is warm, and what its callers can form together; on a CPU that would cost
    memory and win nothing. Triton's classification extension reads labels from the model's folder.
    """
    got = parsed(model)
    assert [tensor.label_filename for tensor in got.output] == ["", "labels.txt"][: len(got.output)]
    assert got.dynamic_batching.max_queue_delay_microseconds == 0
    (group,) = got.instance_group
    assert (group.count, group.kind) == (1, group.KIND_AUTO)
    assert not got.HasField("optimization")
    assert not got.model_warmup
    warm = {sample.batch_size for sample in parsed(model, "gpu").model_warmup}
    assert warm >= {*BATCHES, *range(1, max(CONCURRENCY) + 1)}


def test_the_trt_model_is_openvinos_or_with_a_gpu_tensorrts() -> None:
    """Its caches are keyed by the model, and its profiles hold every batch, so that none builds an engine later."""
    cpu, gpu = (
        parsed(MODELS[0], accelerator, CHECKSUM).optimization.execution_accelerators for accelerator in ("cpu", "gpu")
    )
    assert [one.name for one in cpu.cpu_execution_accelerator] == ["openvino"]
    (tensorrt,) = gpu.gpu_execution_accelerator
    folder = "/tmp/tensorrt/0123456789abcdef"
    assert (tensorrt.name, dict(tensorrt.parameters)) == ("tensorrt", {
        "precision_mode": "FP16",
        "trt_engine_cache_enable": "1", "trt_engine_cache_path": folder,
        "trt_timing_cache_enable": "1", "trt_timing_cache_path": folder,
        "trt_profile_min_shapes": "image:1x3x224x224",
        "trt_profile_opt_shapes": "image:8x3x224x224",
        "trt_profile_max_shapes": f"image:{MAX_BATCH}x3x224x224",
    })  # fmt: skip
