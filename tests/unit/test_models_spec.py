"""models/<name>/model.toml: what is read, and what is refused with which words."""

from pathlib import Path

import pytest

from models.builder.sources import SOURCES
from models.builder.spec import MODELS, BuildError, ImageSpec, Input, Spec, TensorsSpec

CLASSIFIER, SOUND = ((MODELS / name / "model.toml").read_text() for name in ("densenet161", "silero_vad"))
ONNX = (
    CLASSIFIER.replace('"torchvision"', '"onnx"')
    .replace('name = "densenet161"', 'input = "pixels"')
    .replace('head = "classifier"', 'embedding = "pool"\nlogits = "scores"')
)
TENSORS = f'{SOUND}[labels]\nscores = "imagenet"\n'


def load[S: Spec](folder: Path, text: str, sort: type[S]) -> S:
    (folder / "m").mkdir(exist_ok=True)
    (folder / "m" / "model.toml").write_text(text)
    return sort.load("m", folder)


@pytest.mark.parametrize("path", sorted(MODELS.glob("*/model.toml")), ids=lambda path: path.parent.name)
def test_every_model_of_the_repository_has_a_valid_spec(path: Path) -> None:
    """A spec that cannot be read would only be noticed by the one who sets MODEL to it."""
    spec = Spec.load(path.parent.name)
    if isinstance(spec, ImageSpec):
        assert spec.preprocess.crop == 224
        assert spec.source.kind in {*SOURCES, "onnx"}


def test_the_templates_are_read_as_they_are_written(tmp_path: Path) -> None:
    """Outputs in the order of the tuple that TorchScript answers; a shape and a value of an input may stand alone."""
    for text in (CLASSIFIER, ONNX):
        assert list(load(tmp_path, text, ImageSpec).outputs.items()) == [("embedding", 2208), ("logits", 1000)]
    assert list(ImageSpec.load("openclip_vit_b32").outputs.items()) == [("embedding", 512)]
    spec = load(tmp_path, TENSORS, TensorsSpec)
    assert spec.inputs["input"] == Input(shape=(1, 576))
    assert spec.inputs["sr"] == Input(value=16000)
    assert spec.labels == {"scores": "imagenet"}
    with pytest.raises(BuildError, match="kind tensors does not fit here"):
        ImageSpec.load("m", tmp_path)


@pytest.mark.parametrize("name", ["resnet", "", "../models/densenet161"])
def test_an_unknown_model_lists_the_known_ones(name: str) -> None:
    """The message is for a user who mistyped MODEL; a path is not a model name."""
    with pytest.raises(BuildError, match=r"densenet161, efficientnet_lite0, .*openclip_vit_b32"):
        Spec.load(name)


@pytest.mark.parametrize(
    ("template", "old", "new", "keyword"),
    [
        (CLASSIFIER, "embedding_dim = 2208", "embedding_dim = 0", "must be positive"),
        (CLASSIFIER, "embedding_dim = 2208", "embeding_dim = 2208", "embeding_dim"),
        (CLASSIFIER, "embedding_dim = 2208", 'embedding_dim = 2208\nname = "m"', "leave it out"),
        (CLASSIFIER, 'kind = "classifier"', 'kind = "detector"', "classifier, embedding, tensors"),
        (CLASSIFIER, 'kind = "classifier"', 'kind = "embedding"', "an embedding model has no classes"),
        (CLASSIFIER, "classes = 1000", "", "a classifier needs classes"),
        (CLASSIFIER, 'head = "classifier"', "", "a classifier needs"),
        (CLASSIFIER, 'name = "densenet161"', "", "source.name is missing"),
        (CLASSIFIER, 'head = "classifier"', 'head = "classifier"\ninput = "x"', "is not onnx and has input"),
        (CLASSIFIER, 'kind = "torchvision"', 'kind = "onnx"', "source.kind onnx needs input and embedding"),
        (CLASSIFIER, 'kind = "torchvision"', 'kind = "pool"', "source.kind is pool, which has none"),
        (CLASSIFIER, 'sha256 = "8d451a50"', 'sha256 = "8d45"', "weights.sha256 must be 8 to 64"),
        (CLASSIFIER, 'sha256 = "8d451a50"', 'file = "p/f.pth"', "name one of file and url"),
        (CLASSIFIER, "https://", "http://", "weights.url must start with https://"),
        (CLASSIFIER, "crop = 224", "crop = 300", "crop must be between 1 and resize"),
        (CLASSIFIER, "crop = 224", "crop = 224\nscale = 2", "preprocess.*scale"),
        (CLASSIFIER, "[preprocess]", "[preprocess", "line"),
        (ONNX, 'logits = "scores"', "", r"a classifier needs .*\(source.logits for ONNX\)"),
        (ONNX, 'input = "pixels"', 'input = "pixels"\nname = "densenet161"', "has no name or head"),
        (TENSORS, "[1, 576]", "[0]", "shape.*inputs"),
        (TENSORS, "value = 16000", "", "value.*inputs"),
        (TENSORS, 'file = "silero_vad/data/silero_vad_op18_ifless.onnx"', "", "name one of file and url"),
    ],
)
def test_a_wrong_spec_is_refused_with_its_file_and_the_field(
    tmp_path: Path, template: str, old: str, new: str, keyword: str
) -> None:
    """A typo must never become a default."""
    assert old in template
    with pytest.raises(BuildError, match=rf"models/m/model\.toml: .*{keyword}"):
        load(tmp_path, template.replace(old, new), Spec)
