"""The Triton model repository: standard config.pbtxt files that any Triton with an ONNX Runtime backend loads."""

from models.spec import ImageSpec

MAX_BATCH = 32

# Every dynamic input needs all three shapes, else a batch outside of them rebuilds the engine. The caches go to /tmp,
# which every container of the stack may write: a volume mounted there keeps the engines over a restart.
_TENSORRT = {
    "precision_mode": "FP16",
    "trt_engine_cache_enable": "1",
    "trt_engine_cache_path": "/tmp/tensorrt",
    "trt_timing_cache_enable": "1",
    "trt_timing_cache_path": "/tmp/tensorrt",
    "trt_profile_min_shapes": "image:1x3x{side}x{side}",
    "trt_profile_opt_shapes": "image:8x3x{side}x{side}",
    "trt_profile_max_shapes": "image:32x3x{side}x{side}",
}


def config(spec: ImageSpec, name: str, weights: str, *, accelerated: bool) -> str:
    """config.pbtxt of the model called `name`. It states no instance kind: one file serves with and without a GPU."""
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
    return text + _accelerators(side) if accelerated else text


def _output(name: str, width: int) -> str:
    labelled = ' label_filename: "labels.txt"' if name == "logits" else ""
    return f'  {{ name: "{name}" data_type: TYPE_FP32 dims: [ {width} ]{labelled} }}'


def _accelerators(side: int) -> str:
    parameters = "\n".join(
        f'      parameters {{ key: "{key}" value: "{value.format(side=side)}" }}' for key, value in _TENSORRT.items()
    )
    return f"""\
# TensorRT on a GPU instance, OpenVINO on a CPU instance.
optimization {{
  execution_accelerators {{
    gpu_execution_accelerator [ {{
      name: "tensorrt"
{parameters}
    }} ]
    cpu_execution_accelerator [ {{ name: "openvino" }} ]
  }}
}}
"""
