"""A model in FP16, with FP32 inputs and outputs: clients, configs and comparisons stay the same."""

import copy
from pathlib import Path

import onnx
import torch
from onnxruntime.transformers.float16 import convert_float_to_float16
from onnxruntime.transformers.onnx_model import OnnxModel
from torch import Tensor, nn

from models.builder.spec import BuildError


class Half(nn.Module):
    """A copy of an image model that computes in FP16."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = copy.deepcopy(module).half()

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        return tuple(output.float() for output in self.module(image.half()))


def traced(module: nn.Module, example: Tensor) -> torch.jit.ScriptModule:
    """Its trace, made in FP16: halved later, one of FP32 would keep the casts to FP32 that some models make. Raises
    BuildError."""
    try:
        return torch.jit.trace(Half(module), example)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise BuildError(f"PyTorch cannot compute this model in FP16 ({reason}): set PRECISION=tf32") from error


def convert(path: Path) -> None:
    """The ONNX graph at `path` in FP16, in its place."""
    model = OnnxModel(convert_float_to_float16(onnx.load(str(path)), keep_io_types=True))
    model.topological_sort()  # the converter appends its casts at the end
    onnx.checker.check_model(model.model)
    onnx.save(model.model, str(path))
