"""models/<name>/model.toml: what is read, and what is refused with which words."""

from pathlib import Path

import pytest

from models.builder.spec import MODELS, ImageSpec, Input, Spec, SpecError, TensorsSpec

CLASSIFIER = """\
kind = "classifier"
embedding_dim = 8
classes = 10
labels = "imagenet"
[source]
kind = "torchvision"
name = "resnet18"
head = "fc"
[weights]
url = "https://hub.invalid/resnet18.pth"
sha256 = "0123abcd"
[preprocess]
resize = 256
crop = 224
interpolation = "bilinear"
mean = [0.5, 0.5, 0.5]
std = [0.5, 0.5, 0.5]
"""

ONNX = (
    CLASSIFIER.replace('"torchvision"', '"onnx"')
    .replace('name = "resnet18"', 'input = "pixels"')
    .replace('head = "fc"', 'embedding = "pool"\nlogits = "scores"')
)
TENSORS = """\
kind = "tensors"
[weights]
file = "package/model.onnx"
[inputs.sound]
shape = [1, -1]
[inputs.rate]
value = 16000
[labels]
scores = "imagenet"
"""


def load[S: Spec](folder: Path, text: str, sort: type[S]) -> S:
    (folder / "m").mkdir(exist_ok=True)
    (folder / "m" / "model.toml").write_text(text)
    return sort.load("m", folder)


@pytest.mark.parametrize("path", sorted(MODELS.glob("*/model.toml")), ids=lambda path: path.parent.name)
def test_every_model_of_the_repository_has_a_valid_spec(path: Path) -> None:
    """A spec that cannot be read would only be noticed by the one who sets MODEL to it."""
    spec = Spec.load(path.parent.name)
    assert isinstance(spec, TensorsSpec) or (isinstance(spec, ImageSpec) and spec.preprocess.crop == 224)


def test_a_classifier_has_two_outputs_and_an_embedding_model_has_one() -> None:
    """The order is the order of the tuple that TorchScript answers."""
    assert list(ImageSpec.load("densenet161").outputs.items()) == [("embedding", 2208), ("logits", 1000)]
    assert list(ImageSpec.load("openclip_vit_b32").outputs.items()) == [("embedding", 512)]


def test_an_unknown_model_lists_the_known_ones() -> None:
    """The message is what a user reads who mistyped MODEL; a path is no model name."""
    for name in ("resnet", "", "../models/densenet161"):
        with pytest.raises(SpecError, match=r"densenet161, efficientnet_lite0, .*openclip_vit_b32"):
            Spec.load(name)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("embedding_dim = 8", "", "embedding_dim is missing"),
        ("embedding_dim = 8", "embedding_dim = 8.0", "embedding_dim must be int, got 8.0"),
        ("embedding_dim = 8", "embedding_dim = 0", "must be positive"),
        ("embedding_dim = 8", "embeding_dim = 8", "embeding_dim is not known"),
        (
            'kind = "classifier"',
            'kind = "detector"',
            "kind must be one of classifier, embedding, tensors, got 'detector'",
        ),
        ('kind = "classifier"', 'kind = "embedding"', "an embedding model has no classes"),
        ("classes = 10", "", "a classifier needs classes"),
        ('head = "fc"', "", "a classifier needs"),
        ('name = "resnet18"', "", "source.name is missing"),
        ('name = "resnet18"', 'nmae = "resnet18"', "source.nmae is not known"),
        ("[source]", "[sauce]", r"\[source\] is missing"),
        ('sha256 = "0123abcd"', "", "weights.sha256 must be 8 to 64"),
        ('sha256 = "0123abcd"', 'sha256 = "0123"', "weights.sha256 must be 8 to 64"),
        ("https://", "http://", "weights.url must start with https://"),
        ('sha256 = "0123abcd"', 'file = "p/f.pth"', "name one of file and url"),
        ("mean = [0.5, 0.5, 0.5]", "mean = [0.5, 0.5]", "preprocess.mean must be three decimal numbers"),
        ('interpolation = "bilinear"', 'interpolation = "nearest"', "interpolation must be one of"),
        ("crop = 224", "crop = 300", "crop must be between 1 and resize"),
        ("[preprocess]", "[preprocess", "line"),
        ('kind = "torchvision"', 'kind = "onnx"', "source.kind onnx needs input and embedding"),
        ('name = "resnet18"', 'name = "resnet18"\ninput = "x"', "source.kind is not onnx and has input"),
    ],
)
def test_a_wrong_spec_is_refused_with_its_file_and_the_reason(tmp_path: Path, old: str, new: str, message: str) -> None:
    """A typo must never become a default."""
    with pytest.raises(SpecError, match=rf"models/m/model\.toml: .*{message}"):
        load(tmp_path, CLASSIFIER.replace(old, new), Spec)


def test_the_template_of_the_cases_above_is_valid(tmp_path: Path) -> None:
    """Else each of them could fail for another reason."""
    assert load(tmp_path, CLASSIFIER, ImageSpec).source.head == "fc"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('embedding = "pool"', "", "source.kind onnx needs input and embedding"),
        ('logits = "scores"', "", r"a classifier needs .*\(source.logits for ONNX\)"),
        ('input = "pixels"', 'input = "pixels"\nname = "resnet18"', "has no name or head"),
    ],
)
def test_an_onnx_source_names_the_tensors_of_its_graph(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert load(tmp_path, ONNX, ImageSpec).outputs == {"embedding": 8, "logits": 10}
    with pytest.raises(SpecError, match=message):
        load(tmp_path, ONNX.replace(old, new), Spec)


def test_a_model_of_tensors_has_no_photos_and_no_preprocessing(tmp_path: Path) -> None:
    """A shape and a value for an input are optional, and either may stand alone."""
    spec = load(tmp_path, TENSORS, TensorsSpec)
    assert spec.inputs == {"sound": Input(shape=(1, -1)), "rate": Input(value=16000)}
    assert spec.labels == {"scores": "imagenet"}
    with pytest.raises(SpecError, match="kind tensors does not fit here"):
        ImageSpec.load("m", tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[1, -1]", "[0]", r"inputs\.sound must be shape = "),
        ("[1, -1]", "7", r"inputs\.sound must be shape = "),
        ("16000", '"fast"', r"inputs\.rate must be shape = "),
        ("value = 16000", "", r"inputs\.rate must be shape = "),
        ('"imagenet"', "3", r"labels\.scores must be str"),
        ("[weights]", "embedding_dim = 3\n[weights]", "embedding_dim is not known"),
        ('file = "package/model.onnx"', "", "name one of file and url"),
    ],
)
def test_a_wrong_spec_of_tensors_is_refused_with_the_reason(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(SpecError, match=rf"models/m/model\.toml: .*{message}"):
        load(tmp_path, TENSORS.replace(old, new), Spec)
