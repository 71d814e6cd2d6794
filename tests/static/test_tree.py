"""What the repository may hold: locks without addresses, no path of one machine, links that lead somewhere."""

import re
import tomllib
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


def asked_for(group: str) -> set[str]:
    """The names in a dependency group and in those it includes."""
    included = [asked_for(one["include-group"]) for one in GROUPS[group] if not isinstance(one, str)]
    return set().union({name(one) for one in GROUPS[group] if isinstance(one, str)}, *included)


def name(requirement: str) -> str:
    """The normal form of its package's."""
    return re.sub(r"[-_.]+", "-", re.findall(r"^[\w.-]+", requirement)[0]).lower()


@pytest.mark.parametrize("group", LOCKED_GROUPS)
def test_a_lock_holds_what_its_group_asks_for(group: str) -> None:
    """Versions with a SHA-256 each and no address; what is not locked comes from Debian, and pyproject.toml says so."""
    text = (ROOT / "requirements" / f"{group}.txt").read_text()
    assert "://" not in text
    assert "--index" not in text
    requirements = re.split(r"\n(?=\S)", text.strip())
    assert all(LOCKED.match(requirement) for requirement in requirements)
    locked = {name(requirement) for requirement in requirements}
    assert asked_for(group) <= locked | set(HOW.get(group, {}).get("from-debian", [])), f"run scripts/lock {group}"


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
        assert path.suffix not in {".pem", ".key", ".onnx", ".pt", ".pth", ".mar", ".npy", ".safetensors"}, path
        assert path.stat().st_size < 2_000_000, path


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_links_lead_somewhere(document: Path) -> None:
    """Every relative link names a file that is there, and a heading that is in it."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", (ROOT / document).read_text(), flags=re.S)
    for target in re.findall(r"\]\((?![a-z]+:)([^)\s]+)\)", text):
        file, _, heading = target.partition("#")
        path = (ROOT / document).parent / file if file else ROOT / document
        assert path.exists(), f"{document}: {target}"
        if heading:
            assert heading in {anchor(line) for line in re.findall(r"^#+ (.+)$", path.read_text(), re.M)}, target


def anchor(heading: str) -> str:
    """A heading's link as the usual renderers make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("document", DOCUMENTS, ids=str)
def test_files_that_documents_name_exist(document: Path) -> None:
    """Each path in backticks below a folder of this repository exists, and so does each script that is shown."""
    text = (ROOT / document).read_text()
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")} - {"out"}
    for named in re.findall(r"`(?:\./)?([\w-]+/[\w./{}*-]*)`", text):
        if named.partition("/")[0] in folders and not re.search(r"[*{}]", named):
            assert (ROOT / named).exists() or (ROOT / document.parent / named).exists(), named
    for script in re.findall(r"(?<![\w/])(?:\./)?scripts/([\w-]+(?:\.sh)?)", text):
        assert (ROOT / "scripts" / script).exists(), script
