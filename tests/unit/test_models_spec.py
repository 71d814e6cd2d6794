"""models/<name>/model.toml: what is read, and what is refused with which words."""

from pathlib import Path

import pytest

from models.spec import MODELS, Spec, SpecError

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


def load(folder: Path, text: str) -> Spec:
    (folder / "m").mkdir()
    (folder / "m" / "model.toml").write_text(text)
    return Spec.load("m", folder)


@pytest.mark.parametrize("path", sorted(MODELS.glob("*/model.toml")), ids=lambda path: path.parent.name)
def test_every_model_of_the_repository_has_a_valid_spec(path: Path) -> None:
    """A spec that cannot be read would only be noticed by the one who sets MODEL to it."""
    assert Spec.load(path.parent.name).preprocess.crop == 224


def test_a_classifier_has_two_outputs_and_an_embedding_model_has_one() -> None:
    """The order is the order of the tuple that TorchScript answers."""
    assert list(Spec.load("densenet161").outputs.items()) == [("embedding", 2208), ("logits", 1000)]
    assert list(Spec.load("openclip_vit_b32").outputs.items()) == [("embedding", 512)]


def test_an_unknown_model_lists_the_known_ones() -> None:
    """The message is what a user reads who mistyped MODEL; a path is no model name."""
    for name in ("resnet", "", "../models/densenet161"):
        with pytest.raises(SpecError, match="densenet161, efficientnet_lite0, openclip_vit_b32"):
            Spec.load(name)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("embedding_dim = 8", "", "embedding_dim is missing"),
        ("embedding_dim = 8", "embedding_dim = 8.0", "embedding_dim must be int, got 8.0"),
        ("embedding_dim = 8", "embedding_dim = 0", "must be positive"),
        ("embedding_dim = 8", "embeding_dim = 8", "embeding_dim is not known"),
        ('kind = "classifier"', 'kind = "detector"', 'kind must be "classifier" or "embedding"'),
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
    ],
)
def test_a_wrong_spec_is_refused_with_its_file_and_the_reason(tmp_path: Path, old: str, new: str, message: str) -> None:
    """A typo must never become a default."""
    with pytest.raises(SpecError, match=rf"models/m/model\.toml: .*{message}"):
        load(tmp_path, CLASSIFIER.replace(old, new))


def test_the_template_of_the_cases_above_is_valid(tmp_path: Path) -> None:
    """Else each of them could fail for another reason."""
    assert load(tmp_path, CLASSIFIER).source.head == "fc"
