"""What the repository may hold: locks without addresses, no path of one machine, links that lead somewhere."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.repository import ROOT, files, texts

DOCUMENTS = [path.relative_to(ROOT) for path in files(".md")]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
GROUPS: dict[str, list[Any]] = SETTINGS["dependency-groups"]
HOW: dict[str, dict[str, Any]] = SETTINGS["tool"]["lock"]
LOCKED_GROUPS = [name for name in GROUPS if "part" not in HOW.get(name, {})]
# Hosts of package registries: an image that names one cannot be built where another is used.
REGISTRY = re.compile(
    r"(pypi\.org|pythonhosted\.org|registry\.npmjs|proxy\.golang\.org|repo1?\.maven|docker\.io/|/simple/)"
)
# Home and working directories of a machine; `/root`, `/home` in a path is where such a thing begins.
MACHINE = re.compile(r"(?<![\w.$}])/(?:home/(?!fiveway)\w+|root/|Users/|workspace/|work/)")
LOCKED = re.compile(r"[\w.-]+(\[[\w,-]+\])?==\S+ (; .+ )?\\\n +--hash=sha256:[0-9a-f]{64}")


def asked_for(group: str) -> Iterator[str]:
    """The names in a dependency group and in those it includes."""
    for one in GROUPS[group]:
        if isinstance(one, str):
            yield normal(re.findall(r"^[\w.-]+", one)[0])
        else:
            yield from asked_for(one["include-group"])


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("group", LOCKED_GROUPS)
def test_a_lock_holds_what_its_group_asks_for(group: str) -> None:
    """Versions with a SHA-256 each and no address; what is not locked comes from Debian, and pyproject.toml says so."""
    text = (ROOT / "requirements" / f"{group}.txt").read_text()
    assert "://" not in text
    assert "--index" not in text
    requirements = re.split(r"\n(?=\S)", text.strip())
    assert all(LOCKED.match(requirement) for requirement in requirements)
    locked = {normal(re.findall(r"^[\w.-]+", requirement)[0]) for requirement in requirements}
    assert set(asked_for(group)) <= locked | set(HOW.get(group, {}).get("from-debian", [])), f"run scripts/lock {group}"


def test_every_lock_has_a_group() -> None:
    """A lock that scripts/lock would not write is stale; a table for a group that is not there does nothing."""
    assert {path.stem for path in (ROOT / "requirements").iterdir()} == set(LOCKED_GROUPS)
    assert set(HOW) <= set(GROUPS)


def test_no_registry_and_no_path_of_one_machine() -> None:
    """Neither a package registry's host nor a home directory is written down anywhere."""
    for path, text in texts():
        if path == Path("tests/static/test_tree.py"):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            assert not MACHINE.search(line), f"{path}:{number}: {line.strip()}"
            assert not REGISTRY.search(line), f"{path}:{number}: {line.strip()}"


def test_no_secrets_and_no_weights() -> None:
    """Keys stay out of git, and so does what the builder makes."""
    for path in files():
        name = path.relative_to(ROOT)
        assert path.suffix not in {".pem", ".key", ".onnx", ".pt", ".pth", ".mar", ".npy", ".safetensors"}, name
        assert path.stat().st_size < 2_000_000, name


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_links_lead_somewhere(document: Path) -> None:
    """Every relative link names a file that is there, and a heading that is in it."""
    text = without_code((ROOT / document).read_text())
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, heading = target.partition("#")
        path = (ROOT / document).parent / name if name else ROOT / document
        assert path.exists(), f"{document}: {target}"
        if heading:
            assert heading in {anchor(line) for line in re.findall(r"^#+ (.+)$", path.read_text(), re.M)}, target


def without_code(text: str) -> str:
    return re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)


def anchor(heading: str) -> str:
    """A heading's link as the usual renderers make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_files_that_documents_name_exist(document: Path) -> None:
    """A path in backticks that begins with a folder of ours is there: documents follow the code."""
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
    for name in re.findall(r"`(?:\./)?([\w-]+/[\w./{}*-]*)`", (ROOT / document).read_text()):
        if name.partition("/")[0] in folders - {"out"} and not re.search(r"[*{}]", name):
            assert (ROOT / name).exists() or (ROOT / document.parent / name).exists(), f"{document}: {name}"


def test_commands_in_the_documents_exist() -> None:
    """Each `scripts/...` that a document shows is there."""
    shown = set()
    for document in DOCUMENTS:
        shown |= set(re.findall(r"(?<![\w/])(?:\./)?scripts/([\w-]+)", (ROOT / document).read_text()))
    assert {"up", "down", "test"} <= shown
    for name in shown:
        assert (ROOT / "scripts" / name).exists(), f"scripts/{name}"
