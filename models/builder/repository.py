"""The Triton model repository: standard config.pbtxt files that any Triton with an ONNX Runtime backend loads."""

import json
from dataclasses import asdict
from typing import Literal

from models.builder.spec import ImageSpec

Accelerator = Literal["cpu", "gpu"]

MAX_BATCH = 32
# On a GPU a model is not ready before it has run these: every batch of the studies, and every one that their 16 callers
# can form together. The first run builds TensorRT's engine; CUDA looks for the fastest convolution once per shape.
WARM_BATCHES = (*range(1, 17), MAX_BATCH)

# Every dynamic input needs all three shapes, else a batch outside of them rebuilds the engine. The caches are keyed by
# the model here; servers/triton/serve-gpu links their folder to one per GPU, driver and Triton release on a volume.
_TENSORRT = {
    "precision_mode": "FP16",
    "trt_engine_cache_enable": "1",
    "trt_engine_cache_path": "/tmp/tensorrt/{checksum}",
    "trt_timing_cache_enable": "1",
    "trt_timing_cache_path": "/tmp/tensorrt/{checksum}",
    "trt_profile_min_shapes": "image:1x3x{side}x{side}",
    "trt_profile_opt_shapes": "image:8x3x{side}x{side}",
    "trt_profile_max_shapes": "image:32x3x{side}x{side}",
}


def config(spec: ImageSpec, name: str, weights: str, accelerator: Accelerator, checksum: str = "") -> str:
    """config.pbtxt of the model called `name`; with the SHA-256 of its model.onnx, of the accelerated one.

    It states no instance kind: Triton takes the GPU where it sees one.
    """
    side = spec.preprocess.crop
    outputs = ",\n".join(_output(output, width) for output, width in spec.outputs.items())
    text = f"""\
# Made by the models service from models/{spec.name}/model.toml.
name: "{name}"
backend: "onnxruntime"
max_batch_size: {MAX_BATCH}
input [
  {{ name: "image" data_type: TYPE_FP32 dims: [ 3, {side}, {side} ] }}
]
output [
{outputs}
]
# A batch is what is waiting when the model is free; nobody is made to wait for company.
dynamic_batching {{ max_queue_delay_microseconds: 0 }}
instance_group [ {{ count: 1 }} ]
parameters {{ key: "weights" value: {{ string_value: "{weights}" }} }}
"""
    if accelerator == "gpu":
        text += "".join(_warm_up(batch, side) for batch in WARM_BATCHES)
    if checksum:
        text += _tensorrt(side, checksum) if accelerator == "gpu" else _OPENVINO
    return text


def preprocess_config(spec: ImageSpec) -> str:
    """config.pbtxt of `<model>_preprocess`, servers/triton/jpeg/model.py: JPEG files to the model's input."""
    side = spec.preprocess.crop
    numbers = json.dumps(json.dumps(asdict(spec.preprocess)))  # twice: JSON as a quoted string
    return f"""\
# Made by the models service from models/{spec.name}/model.toml.
name: "{spec.name}_preprocess"
backend: "python"
max_batch_size: {MAX_BATCH}
input [ {{ name: "jpeg" data_type: TYPE_STRING dims: [ 1 ] }} ]
output [ {{ name: "image" data_type: TYPE_FP32 dims: [ 3, {side}, {side} ] }} ]
# What is waiting is decoded together, by as many threads as there are cores.
dynamic_batching {{ max_queue_delay_microseconds: 0 }}
instance_group [ {{ count: 1 kind: KIND_CPU }} ]
parameters {{ key: "preprocess" value: {{ string_value: {numbers} }} }}
"""


def jpeg_config(spec: ImageSpec) -> str:
    """config.pbtxt of `<model>_jpeg`: JPEG files in, `<model>`'s outputs out."""
    outputs = ",\n".join(_output(output, width, labelled=False) for output, width in spec.outputs.items())
    kept = " ".join(_map("output", output) for output in spec.outputs)
    return f"""\
# Made by the models service from models/{spec.name}/model.toml.
name: "{spec.name}_jpeg"
platform: "ensemble"
max_batch_size: {MAX_BATCH}
input [ {{ name: "jpeg" data_type: TYPE_STRING dims: [ 1 ] }} ]
output [
{outputs}
]
ensemble_scheduling {{
  step [
    {{ model_name: "{spec.name}_preprocess" model_version: -1 {_map("input", "jpeg")} {_map("output", "image")} }},
    {{ model_name: "{spec.name}" model_version: -1 {_map("input", "image")} {kept} }}
  ]
}}
"""


def _map(side: str, tensor: str) -> str:
    return f'{side}_map {{ key: "{tensor}" value: "{tensor}" }}'


def _output(name: str, width: int, *, labelled: bool = True) -> str:
    labels = ' label_filename: "labels.txt"' if labelled and name == "logits" else ""
    return f'  {{ name: "{name}" data_type: TYPE_FP32 dims: [ {width} ]{labels} }}'


def _warm_up(batch: int, side: int) -> str:
    image = f"{{ data_type: TYPE_FP32 dims: [ 3, {side}, {side} ] zero_data: true }}"
    return f'model_warmup {{ name: "batch {batch}" batch_size: {batch} inputs {{ key: "image" value {image} }} }}\n'


_OPENVINO = """\
optimization { execution_accelerators { cpu_execution_accelerator [ { name: "openvino" } ] } }
"""


def _tensorrt(side: int, checksum: str) -> str:
    """TensorRT alone: NVIDIA's backend would hand a GPU instance's graph to OpenVINO as well where it is named."""
    values = {key: value.format(side=side, checksum=checksum[:16]) for key, value in _TENSORRT.items()}
    parameters = "\n".join(f'      parameters {{ key: "{key}" value: "{value}" }}' for key, value in values.items())
    return f"""\
optimization {{
  execution_accelerators {{
    gpu_execution_accelerator [ {{
      name: "tensorrt"
{parameters}
    }} ]
  }}
}}
"""
