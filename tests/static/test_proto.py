"""The contract: compatibility with the released one, current generated code, untouched vendored files."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "PYTHON": sys.executable}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def breaking(root: Path, proto: Path, work: Path) -> subprocess.CompletedProcess[str]:
    """Compare the contract in `proto` with the released one."""
    image = work / "now.binpb"
    built = run("buf", "build", proto, "--path", proto / "fiveway", "-o", image, cwd=root)
    assert built.returncode == 0, built.stderr
    return run("buf", "breaking", image, "--against", "proto/baseline.binpb", cwd=root)


def test_nothing_breaks_released_clients(root: Path, tmp_path: Path) -> None:
    """The contract is compatible with proto/baseline.binpb."""
    done = breaking(root, root / "proto", tmp_path)
    assert done.returncode == 0, done.stdout


def test_a_breaking_change_is_noticed(root: Path, tmp_path: Path) -> None:
    """Changing a field's type fails the check above: it does look."""
    shutil.copytree(root / "proto", tmp_path / "proto")
    proto = tmp_path / "proto" / "fiveway" / "vision" / "v1" / "vision.proto"
    proto.write_text(proto.read_text().replace("uint32 index = 1;", "uint64 index = 1;"))
    done = breaking(root, tmp_path / "proto", tmp_path)
    assert done.returncode != 0
    assert "ClassScore" in done.stdout


@pytest.mark.timeout(300)
def test_generated_code_is_current(root: Path, tmp_path: Path) -> None:
    """scripts/generate writes what is committed, byte for byte."""
    done = run(root / "scripts" / "generate", "--out", tmp_path, cwd=root)
    assert done.returncode == 0, done.stderr
    committed, fresh = (
        {path.relative_to(base): path.read_bytes() for path in base.rglob("*.*") if "__pycache__" not in path.parts}
        for base in (root / "proto" / "gen", tmp_path)
    )
    assert sorted(committed) == sorted(fresh)
    assert [str(name) for name in fresh if fresh[name] != committed[name]] == [], "run scripts/generate"


def test_vendored_files_are_untouched(root: Path) -> None:
    """Every file of third_party is in its README with the checksum it has."""
    folder = root / "proto" / "third_party"
    listed = dict(
        re.findall(r"^\| `([\w/.]+\.proto)` \|.*`([0-9a-f]{64})` \|$", (folder / "README.md").read_text(), re.M)
    )
    found = {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*.proto")
    }
    assert listed == found
