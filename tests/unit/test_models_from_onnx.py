"""An image model that is an ONNX file is served as it is, and by its PyTorch form where photos are taken."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from msgspec.structs import replace
from onnx import helper

from models.builder import sources
from models.builder.errors import BuildError
from models.builder.export import models, sample_tensors
from models.builder.from_onnx import module
from models.builder.sources import load
from models.builder.spec import ImageSpec, Source, SpecError, Weights
from tests.stack.onnx_models import IR_VERSION, OPSET

SPEC = replace(
    ImageSpec.load("densenet161"),
    name="small",
    embedding_dim=512,
    source=Source(kind="onnx", input="pixels", embedding="/Flatten_output_0", logits="scores"),
    weights=Weights(file="package/model.onnx"),
)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """torchvision's resnet18 as somebody else may have exported it: other names, and logits alone."""
    from torchvision.models import resnet18

    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("graph") / "model.onnx"
    torch.onnx.export(
        resnet18().eval(),
        (torch.zeros(2, 3, 224, 224),),
        str(path),
        opset_version=13,
        input_names=["pixels"],
        output_names=["scores"],
        dynamic_axes={"pixels": {0: "n"}, "scores": {0: "n"}},
        dynamo=False,
    )
    return path


@pytest.fixture
def installed(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the file came in a package."""
    monkeypatch.setattr(sources, "_installed", lambda file: graph)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("kind", ["classifier", "embedding"])
def test_it_is_served_under_our_names_and_its_pytorch_form_agrees(tmp_path: Path, kind: str) -> None:
    """The embedding is a tensor inside of the graph; for an embedding model the logits are left out."""
    spec = SPEC
    if kind == "embedding":
        spec = replace(SPEC, kind=kind, classes=0, labels="", source=replace(SPEC.source, logits=""))
    loaded = load(spec, tmp_path)
    assert loaded.weights == "real"
    tensors = dict(list(sample_tensors(spec, tmp_path / "tensors").items())[:3])
    with torch.inference_mode():
        parity = models(spec, loaded, tensors, tmp_path)
    assert parity.min_cosine > 0.99999
    served = onnx.load(tmp_path / "repository/small/1/model.onnx").graph
    assert [one.name for one in served.input] == ["image"]
    assert [one.name for one in served.output] == list(spec.outputs)
    assert np.isfinite(parity.max_abs)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("change", [{"input": "image"}, {"embedding": "image"}])
def test_a_name_that_the_graph_does_not_have_is_refused(tmp_path: Path, change: dict[str, str]) -> None:
    with pytest.raises(SpecError, match=f"source.{next(iter(change))}.* image"):
        load(replace(SPEC, source=replace(SPEC.source, **change)), tmp_path)


def test_a_graph_without_a_pytorch_form_is_refused_with_the_other_way(tmp_path: Path) -> None:
    """The converter knows the operators of convolutional networks, not all there are."""
    value = helper.make_tensor_value_info
    node = helper.make_node("Det", ["image"], ["embedding"])
    tensors = value("image", 1, ["n", 3, 3]), value("embedding", 1, ["n"])
    made = helper.make_graph([node], "test", tensors[:1], tensors[1:])
    onnx.save(helper.make_model(made, opset_imports=[OPSET], ir_version=IR_VERSION), tmp_path / "m.onnx")
    with pytest.raises(BuildError, match=r'no PyTorch form \(.*Det.*kind = "tensors"'):
        module(tmp_path / "m.onnx")
