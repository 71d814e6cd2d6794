"""From a spec to TorchScript and ONNX, with a small torchvision model that another spec could name as it is.

A model that is an ONNX file is served as it is, and by its PyTorch form where photos are taken. An export that answers
something else than PyTorch is never let through.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
import timm
import torch
from msgspec.structs import replace

from models.builder import from_onnx, sources
from models.builder.export import models, sample_tensors, write_labels
from models.builder.half import traced
from models.builder.parity import FP16, check
from models.builder.sources import SOURCES, Loaded, labels, load
from models.builder.spec import BuildError, ImageSpec, Source, Weights
from tests.stack.onnx_models import Tensors, write

SPEC = replace(
    ImageSpec.load("densenet161"),
    name="small",
    embedding_dim=512,
    source=Source(kind="torchvision", name="resnet18", head="fc"),
    weights=Weights(url="https://127.0.0.1:9/resnet18.pth", sha256="0" * 8),
)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    return load(SPEC, tmp_path_factory.mktemp("scratch"))


@pytest.fixture(scope="module")
def tensors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, npt.NDArray[np.float32]]:
    """What a client sends, of three photos."""
    everything = sample_tensors(SPEC, tmp_path_factory.mktemp("artefacts") / "tensors")
    assert {(str(one.dtype), one.shape) for one in everything.values()} == {("float32", (3, 224, 224))}
    return dict(list(everything.items())[:3])


@pytest.fixture(scope="module")
def built(loaded: Loaded, tensors: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    with torch.inference_mode():
        models(SPEC, loaded, tensors, folder)
    return folder


def test_without_a_hub_the_weights_are_random_and_say_so(loaded: Loaded, tmp_path: Path) -> None:
    """The same seed gives the same weights, so two machines build the same model."""
    assert loaded.weights == "random"
    assert "https://127.0.0.1:9/resnet18.pth could not be fetched" in loaded.source
    again = load(SPEC, tmp_path).module.state_dict()
    assert all(torch.equal(value, again[name]) for name, value in loaded.module.state_dict().items())


def test_a_spec_that_states_another_width_is_refused(loaded: Loaded, tensors: Any, tmp_path: Path) -> None:
    with torch.inference_mode(), pytest.raises(BuildError, match="the spec says"):
        models(replace(SPEC, embedding_dim=513), loaded, tensors, tmp_path)


def test_labels_are_known_by_name(tmp_path: Path) -> None:
    names = labels("imagenet")
    assert (len(names), names[360]) == (1000, "otter")
    with pytest.raises(BuildError, match="known: imagenet"):
        labels("pets")
    with pytest.raises(BuildError, match="1000 labels, but classes = 7"):
        write_labels(replace(SPEC, classes=7), tmp_path)


def test_a_timm_model_is_one_small_spec(tmp_path: Path) -> None:
    """Its weights come as a file of its state; here there is no hub, so they are random."""
    spec = replace(SPEC, source=Source(kind="timm", name="resnet10t", head="fc"))
    module = load(spec, tmp_path).module
    with torch.inference_mode():
        assert [output.shape for output in module(torch.zeros(2, 3, 224, 224))] == [(2, 512), (2, 1000)]
        torch.save(timm.create_model("resnet10t").state_dict(), tmp_path / "resnet10t.pth")
        SOURCES["timm"]("resnet10t", tmp_path / "resnet10t.pth")


def test_a_model_without_weights_is_built_without_a_hub(tensors: Any, tmp_path: Path) -> None:
    """And its ONNX form agrees with it."""
    spec = ImageSpec.load("noop")
    loaded = load(spec, tmp_path)
    assert loaded.weights == "real"
    with torch.inference_mode():
        models(spec, loaded, tensors, tmp_path)


@pytest.fixture
def foreign(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same model as another exporter may write it, as if it came in a package: logits alone, other names."""
    model = onnx.load(built / "repository/small/1/model.onnx")
    names = {"image": "pixels", "embedding": "/Flatten_output_0", "logits": "scores"}
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    del model.graph.output[0]
    model.graph.input[0].name, model.graph.output[0].name = "pixels", "scores"
    onnx.save(model, tmp_path / "foreign.onnx")
    monkeypatch.setattr(sources, "_installed", lambda file: tmp_path / "foreign.onnx")


ONNX = replace(
    SPEC,
    source=Source(kind="onnx", input="pixels", embedding="/Flatten_output_0", logits="scores"),
    weights=Weights(file="package/model.onnx"),
)
EMBEDDING = replace(ONNX, kind="embedding", classes=0, labels="", source=replace(ONNX.source, logits=""))


@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize("spec", [ONNX, EMBEDDING], ids=["classifier", "embedding"])
def test_a_graph_is_served_under_our_names_and_its_pytorch_form_agrees(
    spec: ImageSpec, tensors: Any, tmp_path: Path
) -> None:
    """The embedding is a tensor inside of the graph; for an embedding model the logits are left out."""
    loaded = load(spec, tmp_path)
    assert loaded.weights == "real"
    with torch.inference_mode():
        assert models(spec, loaded, tensors, tmp_path).min_cosine > 0.99999
    served = onnx.load(tmp_path / "repository/small/1/model.onnx").graph
    assert [one.name for one in served.input] == ["image"]
    assert [one.name for one in served.output] == list(spec.outputs)


@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize("change", [{"input": "image"}, {"embedding": "image"}])
def test_a_name_that_the_graph_does_not_have_is_refused(tmp_path: Path, change: dict[str, str]) -> None:
    with pytest.raises(BuildError, match=f"source.{next(iter(change))}.* image"):
        load(replace(ONNX, source=replace(ONNX.source, **change)), tmp_path)


def test_a_graph_without_a_pytorch_form_is_refused_with_the_other_way(tmp_path: Path) -> None:
    """The converter knows the operators of convolutional networks, not all there are."""
    image: Tensors = {"image": ("FP32", ["n", 3, 3])}
    write(tmp_path / "m", [("Det", ["image"], "embedding", {})], image, {"embedding": ("FP32", ["n"])})
    with pytest.raises(BuildError, match=r'no PyTorch form \(.*Det.*kind = "tensors"'):
        from_onnx.module(tmp_path / "m/1/model.onnx")


def test_in_fp16_both_forms_compute_in_it_and_stay_near_fp32(loaded: Loaded, tensors: Any, tmp_path: Path) -> None:
    """What a client sends and gets stays FP32. They agree within FP16's limits, and not within FP32's."""
    photo = np.stack(list(tensors.values())[:1])
    with torch.inference_mode():
        wanted = [output.numpy() for output in loaded.module(torch.from_numpy(photo))]
        agreement = models(SPEC, loaded, tensors, tmp_path, "fp16")
    assert (agreement.photos, agreement.min_cosine > 0.99999) == (3, True)
    weights = torch.jit.load(str(tmp_path / "model.pt")).parameters()
    assert {weight.dtype for weight in weights} == {torch.float16}
    path = tmp_path / "repository/small/1/model.onnx"
    graph = onnx.load(path).graph
    assert {one.type.tensor_type.elem_type for one in (*graph.input, *graph.output)} == {onnx.TensorProto.FLOAT}
    assert onnx.TensorProto.FLOAT not in {one.data_type for one in graph.initializer}
    got = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"image": photo})
    check("ONNX", NAMES[:1], wanted, got, FP16)
    with pytest.raises(BuildError, match=r"allowed: 0\.0001 of the largest value"):
        check("ONNX", NAMES[:1], wanted, got)
    assert {weight.dtype for weight in loaded.module.parameters()} == {torch.float32}


def test_a_transformer_too_is_made_in_fp16(tensors: Any, tmp_path: Path) -> None:
    """ONNX Runtime's optimisations for a CPU end the process with such a graph."""

    class Transformer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = torch.nn.Conv2d(3, 16, 32, 32, bias=False)
            self.layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)

        def forward(self, image: torch.Tensor) -> tuple[torch.Tensor]:
            return (self.layer(self.patches(image).flatten(2).transpose(1, 2)).mean(1),)

    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)
    spec = replace(ImageSpec.load("openclip_vit_b32"), embedding_dim=16)
    with torch.inference_mode():
        agreement = models(spec, Loaded("random", "", Transformer().eval()), tensors, tmp_path, "fp16")
    assert agreement.min_cosine > 0.9999


def test_a_model_that_insists_on_fp32_is_refused_in_fp16() -> None:
    """With the reason and what to set."""

    class Stubborn(torch.nn.Linear):
        def forward(self, image: torch.Tensor) -> torch.Tensor:
            return super().forward(image.float())

    with pytest.raises(BuildError, match=r"cannot compute this model in FP16 \(.+\): set PRECISION=tf32"):
        traced(Stubborn(3, 3), torch.zeros(1, 3))


NAMES = ("lake", "otter", "osprey")
Array = npt.NDArray[np.float32]


def outputs() -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((3, width), dtype=np.float32) for width in (16, 10)]


@pytest.mark.parametrize("output", [0, 1])
@pytest.mark.parametrize("value", [9.0, np.nan, np.inf])
def test_one_wrong_number_fails_and_the_photo_is_named(output: int, value: float) -> None:
    """NaN compares false with every limit: that must not read as "within"."""
    wanted, got = outputs(), outputs()
    got[output][1, 3] = value
    with pytest.raises(BuildError, match="ONNX disagrees with PyTorch on 1 of 3 photos, most on otter"):
        check("ONNX", NAMES, wanted, got)


def test_the_limit_follows_the_size_of_the_output_and_its_shape_must_fit() -> None:
    """Logits of a thousand may differ by more than logits of one."""
    wanted: list[Array] = [np.asarray(output * 1000, np.float32) for output in outputs()]
    parity = check("ONNX", NAMES, wanted, [output + np.float32(0.01) for output in wanted])
    assert (parity.photos, parity.max_abs < 0.02, parity.min_cosine > 0.99999) == (3, True, True)
    with pytest.raises(BuildError):
        check("ONNX", NAMES, outputs(), [output + np.float32(0.01) for output in outputs()])
    with pytest.raises(BuildError, match="shapes"):
        check("ONNX", NAMES, outputs(), outputs()[:1])
