"""The Triton model repository: standard config.pbtxt files that any Triton with an ONNX Runtime backend loads.

Each is Triton's own message, written by protobuf; the functions here build it from its JSON form.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from google.protobuf.json_format import ParseDict
from google.protobuf.text_format import MessageToString
from tritonclient.grpc.model_config_pb2 import ModelConfig

from models.builder.currency import Accelerator, Precision
from models.builder.spec import ImageSpec

MAX_BATCH = 32
# On a GPU a model is not ready before it has run these: every batch of the studies, and every one that their 16 callers
# can form together. The first run builds TensorRT's engine; CUDA looks for the fastest convolution once per shape.
WARM_BATCHES = (*range(1, 17), MAX_BATCH)

CPU_AT_ONCE = 8
"""Photos that a CPU computes together where more wait: of more each takes as long, and their memory stays taken."""
BATCHING = {"max_queue_delay_microseconds": 0}
"""A batch is made of the requests that are waiting when the model is free; none is delayed for others. No queue policy:
with one, the last requests of a burst wait half a second (docs/decisions/0023-a-queue-is-bounded-in-time.md)."""


def text(source: str, about: dict[str, Any]) -> str:
    """config.pbtxt of a model that is made from the spec `source`; `about` is its ModelConfig in JSON form.

    max_batch_size is MAX_BATCH unless `about` has it.
    """
    config = MessageToString(ParseDict({"max_batch_size": MAX_BATCH} | about, ModelConfig()))
    return f"# Made by the models service from models/{source}/model.toml.\n{config}"


def tensor(name: str, data_type: str, dims: Iterable[int], labels: str = "") -> dict[str, Any]:
    """One input or output; `labels` is the file of an output's labels."""
    described = {"name": name, "data_type": f"TYPE_{data_type}", "dims": list(dims)}
    return described | ({"label_filename": labels} if labels else {})


def parameters(values: dict[str, str]) -> dict[str, Any]:
    """Parameters of a config by name."""
    return {name: {"string_value": value} for name, value in values.items()}


def config(
    spec: ImageSpec,
    name: str,
    weights: str,
    accelerator: Accelerator,
    checksum: str = "",
    precision: Precision = "fp32",
    *,
    profiled: bool = True,
) -> str:
    """config.pbtxt of the model called `name`; with the SHA-256 of its model.onnx, of the accelerated one. `profiled`:
    TensorRT is told the batches (profile.py says which graphs it may be told them for).

    It states no instance kind: Triton takes the GPU where it sees one.
    """
    shape = image_shape(spec)
    # Nothing else in a config says what a graph computes in: the bench reads this.
    said = {"weights": weights} | ({"precision": "FP16"} if precision == "fp16" else {})
    about = {
        "name": name,
        "backend": "onnxruntime",
        "input": [tensor("image", "FP32", shape)],
        "output": _outputs(spec, labels="labels.txt"),
        "dynamic_batching": BATCHING | ({"preferred_batch_size": [CPU_AT_ONCE]} if accelerator == "cpu" else {}),
        "instance_group": [{"count": 1}],
        "parameters": parameters(said),
    }
    if accelerator == "gpu":
        zeros = {"image": {"data_type": "TYPE_FP32", "dims": shape, "zero_data": True}}
        about["model_warmup"] = [{"name": f"batch {n}", "batch_size": n, "inputs": zeros} for n in WARM_BATCHES]
    if checksum:
        # Only one of them: NVIDIA's backend would give a GPU instance's graph to OpenVINO too if it were named.
        one = [_tensorrt(shape, checksum, precision, profiled)] if accelerator == "gpu" else [{"name": "openvino"}]
        about["optimization"] = {"execution_accelerators": {f"{accelerator}_execution_accelerator": one}}
    return text(spec.name, about)


def jpeg_configs(spec: ImageSpec) -> dict[str, str]:
    """config.pbtxt of `<model>_preprocess`, JPEG files to the model's input, and of `<model>_jpeg`, which is both."""
    preprocess, whole, jpeg = f"{spec.name}_preprocess", f"{spec.name}_jpeg", tensor("jpeg", "STRING", [1])
    first = {
        "name": preprocess,
        "backend": "python",
        "input": [jpeg],
        "output": [tensor("image", "FP32", image_shape(spec))],
        # What is waiting is decoded together, by as many threads as there are cores.
        "dynamic_batching": BATCHING,
        "instance_group": [{"count": 1, "kind": "KIND_CPU"}],
        "parameters": parameters({"preprocess": json.dumps(asdict(spec.preprocess))}),
    }
    steps = [_step(preprocess, ["jpeg"], ["image"]), _step(spec.name, ["image"], spec.outputs)]
    both = {
        "name": whole,
        "platform": "ensemble",
        "input": [jpeg],
        "output": _outputs(spec),
        "ensemble_scheduling": {"step": steps},
    }
    return {preprocess: text(spec.name, first), whole: text(spec.name, both)}


def image_shape(spec: ImageSpec) -> list[int]:
    """Of one photo, as the model takes it."""
    return [3, spec.preprocess.crop, spec.preprocess.crop]


def _outputs(spec: ImageSpec, labels: str = "") -> list[dict[str, Any]]:
    return [tensor(name, "FP32", [n], labels if name == "logits" else "") for name, n in spec.outputs.items()]


def _step(model: str, inputs: Iterable[str], outputs: Iterable[str]) -> dict[str, Any]:
    """Of an ensemble, whose tensors have the names that its models give them."""
    maps = {"input_map": {name: name for name in inputs}, "output_map": {name: name for name in outputs}}
    return {"model_name": model, "model_version": -1, **maps}


def _tensorrt(shape: list[int], checksum: str, precision: Precision, profiled: bool) -> dict[str, Any]:
    """Every dynamic input needs all three shapes, else a batch outside of them rebuilds the engine.

    The caches are keyed by the model and the precision (an engine that was built with TF32 must not run without it);
    servers/triton/serve-gpu links their folder to one per GPU, driver and Triton release on a volume.
    """
    image = "x".join(map(str, shape))
    batches = {"min": 1, "opt": 8, "max": MAX_BATCH}
    caches = {
        f"trt_{cache}_cache_{key}": value
        for cache in ("engine", "timing")
        for key, value in (("enable", "1"), ("path", f"/tmp/tensorrt/{checksum[:16]}-{precision}"))
    }
    profiles = {f"trt_profile_{name}_shapes": f"image:{batch}x{image}" for name, batch in batches.items() if profiled}
    # Of an FP32 graph: TF32 is on in TensorRT unless NVIDIA_TF32_OVERRIDE=0, which has no option of its own here.
    mode = "FP16" if precision == "fp16" else "FP32"
    return {"name": "tensorrt", "parameters": {"precision_mode": mode, **caches, **profiles}}
