"""cloud-init.yaml: what a cloud's user-data field takes. Its schema: test_checkers.py."""

import re
from pathlib import Path

import yaml

from tests.repository import ROOT
from tests.static.test_checkers import check

TEXT = (ROOT / "cloud-init.yaml").read_text()
USER_DATA = yaml.safe_load(TEXT)
# What the VM runs at its first start.
(SCRIPT,) = [one["content"] for one in USER_DATA["write_files"] if one["path"] == "/usr/local/sbin/fiveway-setup"]


def test_its_script_has_no_known_trap(tmp_path: Path) -> None:
    """shellcheck, as for every script."""
    (tmp_path / "fiveway-setup").write_text(SCRIPT)
    check("shellcheck", "--exclude=SC1091", tmp_path / "fiveway-setup")


def test_it_runs_scripts_that_are_there() -> None:
    """The script calls ours by their names, and cloud-init calls the script."""
    called = re.findall(r"^\s*scripts/([\w-]+)", SCRIPT, re.M)
    assert called == ["setup-vm", "doctor", "up"]
    assert all((ROOT / "scripts" / name).is_file() for name in called)
    assert USER_DATA["runcmd"] == [["fiveway-setup"]]


def test_it_opens_nothing() -> None:
    """Passwords are off over SSH, and no address or port is set: the stack listens on 127.0.0.1."""
    assert USER_DATA["ssh_pwauth"] is False
    assert not re.search(r"BIND_ADDRESS|_PORT|0\.0\.0\.0|ufw|iptables", TEXT)
