"""An image model from an ONNX file: its tensors get our names, and a PyTorch form serves the photo routes."""

from pathlib import Path

import onnx
import onnxruntime
from onnx import TensorProto, helper
from torch import Tensor, nn

from models.builder.spec import BuildError, ImageSpec


class Outputs(nn.Module):
    """image [N,3,H,W] -> (embedding [N,D],) or (embedding [N,D], logits [N,C]): of a plain module.

    One that answers logits is cut in front of its last layer, `head`.
    """

    def __init__(self, module: nn.Module, head: str = "") -> None:
        super().__init__()
        self.head = module.get_submodule(head) if head else None
        if head:
            module.set_submodule(head, nn.Identity())
        self.trunk = module

    def forward(self, image: Tensor) -> tuple[Tensor, ...]:
        answer = self.trunk(image)
        if self.head is not None:
            return answer, self.head(answer)
        return (answer,) if isinstance(answer, Tensor) else tuple(answer)


def named(path: Path, spec: ImageSpec, scratch: Path) -> Path:
    """A copy of the graph with input `image` and the spec's outputs, simplified. Raises BuildError.

    ONNX Runtime's basic optimisations stay within standard ONNX: constants are folded and renaming nodes go, which
    the converter below needs.
    """
    try:
        model = onnx.load(str(path))
    except Exception as error:  # protobuf's own, which is not ours to import
        raise spec.wrong(f"the weights are not an ONNX model ({error})") from error
    made = {name for node in model.graph.node for name in node.output}
    constants = {one.name for one in model.graph.initializer}
    taken = [one.name for one in model.graph.input if one.name not in constants]
    if taken != [spec.source.input]:
        raise spec.wrong(f"source.input is {spec.source.input}, the graph takes {', '.join(taken)}")
    side = spec.preprocess.crop
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, side, side])
    outputs = []
    for name, width in spec.outputs.items():
        inside = getattr(spec.source, name)
        if inside not in made:
            raise spec.wrong(f"source.{name}: the graph has no tensor {inside}")
        outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width]))
        if inside != name:
            model.graph.node.append(helper.make_node("Identity", [inside], [name]))
    if spec.source.input != "image":
        model.graph.node.insert(0, helper.make_node("Identity", ["image"], [spec.source.input]))
    for field, tensors in (("input", [image]), ("output", outputs)):
        model.graph.ClearField(field)
        getattr(model.graph, field).extend(tensors)
    model.graph.ClearField("value_info")
    renamed, simple = scratch / "named.onnx", scratch / "simple.onnx"
    onnx.save(model, str(renamed))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(simple)
    options.log_severity_level = 3
    try:
        onnxruntime.InferenceSession(str(renamed), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no common class
        reason = " ".join(str(error).split())[:300]
        raise spec.wrong(f"the graph does not take [N,3,{side},{side}]: {reason}") from error
    return simple


def module(path: Path) -> nn.Module:
    """The graph in PyTorch. Raises BuildError for one that the converter does not know."""
    import onnx2torch  # not where scripts/native builds

    try:
        return Outputs(onnx2torch.convert(onnx.load(str(path)))).eval()
    except Exception as error:  # NotImplementedError, KeyError, ...: by operator
        raise BuildError(
            f"this graph has no PyTorch form ({type(error).__name__}: {error}), which the photo routes need: "
            'serve it on the tensor routes with kind = "tensors"'
        ) from error
