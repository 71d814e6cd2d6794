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


def test_nothing_breaks_released_clients(root: Path, tmp_path: Path) -> None:
    """The contract is compatible with proto/baseline.binpb; a field of another type would not be."""
    shutil.copytree(root / "proto", tmp_path / "proto")
    file = tmp_path / "proto/fiveway/vision/v1/vision.proto"
    contract = file.read_text()
    for text, found in ((contract, ""), (contract.replace("uint32 index = 1;", "uint64 index = 1;"), "ClassScore")):
        file.write_text(text)
        built = run("buf", "build", "proto", "--path", "proto/fiveway", "-o", "now.binpb", cwd=tmp_path)
        assert built.returncode == 0, built.stderr
        done = run("buf", "breaking", "now.binpb", "--against", "proto/baseline.binpb", cwd=tmp_path)
        assert (done.returncode == 0) is (found == ""), done.stdout
        assert found in done.stdout


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
    row = r"^\| `([\w/.]+\.proto)` \|.*`([0-9a-f]{64})` \|$"
    listed = {folder / name: checksum for name, checksum in re.findall(row, (folder / "README.md").read_text(), re.M)}
    assert listed == {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*.proto")}
