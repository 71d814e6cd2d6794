"""cloud-init.yaml: what a cloud's user-data field takes. Its schema: test_checkers.py."""

import re
from pathlib import Path
from typing import Any

import yaml

from tests.repository import ROOT
from tests.static.test_checkers import check

FILE = ROOT / "cloud-init.yaml"


def user_data() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return found


def script() -> str:
    """What the VM runs at its first start."""
    [found] = [one["content"] for one in user_data()["write_files"] if one["path"] == "/usr/local/sbin/fiveway-setup"]
    return str(found)


def test_its_script_has_no_known_trap(tmp_path: Path) -> None:
    """shellcheck, as for every script."""
    (tmp_path / "fiveway-setup").write_text(script())
    check("shellcheck", "--exclude=SC1091", tmp_path / "fiveway-setup")


def test_it_runs_scripts_that_are_there() -> None:
    """The script calls ours by their names, and cloud-init calls the script."""
    called = re.findall(r"^\s*scripts/([\w-]+)", script(), re.M)
    assert called == ["setup-vm", "doctor", "up"]
    assert all((ROOT / "scripts" / name).is_file() for name in called)
    assert user_data()["runcmd"] == [["fiveway-setup"]]


def test_it_opens_nothing() -> None:
    """Passwords are off over SSH, and no address or port is set: the stack listens on 127.0.0.1."""
    assert user_data()["ssh_pwauth"] is False
    assert not re.search(r"BIND_ADDRESS|_PORT|0\.0\.0\.0|ufw|iptables", FILE.read_text())
