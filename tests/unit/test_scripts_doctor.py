"""What scripts/doctor finds, machine by machine, in a sandbox: nothing of this machine is asked.

The script runs as a copy whose absolute paths lead into a folder. Its PATH has fake programs that say what is recorded
in tests/unit/nvidia_smi (the README there names the sources), and the real ones of coreutils.
"""

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.repository import ROOT

RECORDED = ROOT / "tests/unit/nvidia_smi"
TOOLS = (
    *("awk", "bash", "cat", "dirname", "grep", "head", "sed", "sort"),
    *("tail", "timeout", "tr"),
)
ABSOLUTE = re.compile(r"(?<=[\s='(-])(\"?)/(\.dockerenv|etc|proc|run|sys|var)\b")
BARE_METAL = {"systemd-detect-virt": "echo none; exit 1"}
ENGINE = """case "$*" in
  "info --format {{.ServerVersion}}") echo 28.1.1 ;;
  "info --format {{.DockerRootDir}}") echo "$SANDBOX/var/lib/docker" ;;
  "info --format {{json .Runtimes}}") echo '{"nvidia":{"path":"nvidia-container-runtime"},"runc":{"path":"runc"}}' ;;
  "compose version --short") echo 2.40.3 ;;
  "image inspect "*) exit 1 ;;
esac"""
TOOLKIT = {"nvidia-ctk": "echo 'NVIDIA Container Toolkit CLI version 1.19.0'"}


def smi(machine: str) -> dict[str, str]:
    """A program nvidia-smi that answers as recorded; the exit statuses are those that README.md names."""
    if machine == "no-driver":
        return {"nvidia-smi": f"cat {RECORDED}/no-driver.txt; exit 9"}
    status, recorded = 2 if machine == "old" else 0, RECORDED / machine
    return {
        "nvidia-smi": f"""case "$*" in
  "--query-gpu=name,driver_version,memory.total,compute_cap --format=csv") cat {recorded}.query.txt; exit {status} ;;
  "--query-gpu=name,driver_version,memory.total --format=csv") cat {recorded}.query-without-compute_cap.txt ;;
esac"""
    }


def doctor(
    sandbox: Path,
    programs: Mapping[str, str],
    *options: str,
    system: str = "ubuntu-24.04",
    files: Mapping[str, str] | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Run the script where these programs and files are; the rest is a VM with 8 cores, 64 GB and 200 GB free."""
    name, _, version = system.partition("-")
    there = {
        "etc/os-release": f'ID={name}\nVERSION_ID="{version}"\n',
        "proc/1/cgroup": "0::/init.scope\n",
        "proc/meminfo": "MemTotal:       65834496 kB\n",
        "proc/self/status": "CapBnd:\t000001ffffffffff\n",
        "var/lib/docker/there": "",
    } | dict(files or {})
    for file, content in there.items():
        (sandbox / file).parent.mkdir(parents=True, exist_ok=True)
        (sandbox / file).write_text(content)
    (sandbox / "bin").mkdir()
    for tool in TOOLS:
        (sandbox / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    fakes = {"df": "echo Avail; echo 200G", "id": "echo 0", "nproc": "echo 8", "uname": "echo x86_64"}
    for program, body in (fakes | BARE_METAL | dict(programs)).items():
        (sandbox / "bin" / program).write_text(f"#!{shutil.which('bash')}\n{body}\n")
        (sandbox / "bin" / program).chmod(0o755)
    (sandbox / "scripts").mkdir()
    for script in ("doctor", "lib.sh", "triton-tags"):
        text = (ROOT / "scripts" / script).read_text()
        (sandbox / "scripts" / script).write_text(ABSOLUTE.sub(rf"\1{sandbox}/\2", text))
    # Nothing listens on ports 1 and 2.
    environment = {"EDGE_PORT": "1", "LOCUST_PORT": "2"} | environment
    environment |= {"PATH": str(sandbox / "bin"), "SANDBOX": str(sandbox)}
    command = ["bash", str(sandbox / "scripts/doctor"), *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def findings(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    """The findings of a run with --json by their subject; of several on one subject the last."""
    assert done.stderr == ""
    return {one["subject"]: one for one in json.loads(done.stdout)["findings"]}


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.stderr == ""
    return done.stdout.replace("'", "").splitlines()


READY = {"docker": ENGINE} | TOOLKIT


def test_a_machine_that_has_all(tmp_path: Path) -> None:
    """One line per finding, and exit status 0."""
    done = doctor(tmp_path, READY | smi("a100"), ACCELERATOR="gpu")
    assert [line.replace(str(tmp_path), "") for line in said(done)] == [
        "ok    system    ubuntu-24.04, x86_64",
        "ok    machine   its own: a VM or bare metal",
        "ok    cpu       8 cores",
        "ok    memory    64291 MiB",
        "ok    disk      200 GB free at /var/lib/docker, the first build needs 60",
        "ok    docker    28.1.1",
        "ok    compose   2.40.3",
        "ok    rights    root",
        "ok    port      1 is free, or ours",
        "ok    port      2 is free, or ours",
        "ok    gpu       NVIDIA A100-SXM4-40GB, compute capability 8.0",
        "ok    driver    575.57.08",
        "ok    vram      40960 MiB",
        "ok    triton    TRITON_TAG=25.06-py3 fits; the newest known that fits: 26.02-py3",
        "ok    toolkit   1.19.0",
    ]
    assert done.returncode == 0


@pytest.mark.parametrize("system", ["debian-12", "debian-13", "ubuntu-22.04", "ubuntu-24.04"])
def test_a_bare_machine_is_fit(system: str, tmp_path: Path) -> None:
    """Without Docker and without a GPU the remedy is scripts/up, which installs what is missing: no failure."""
    done = doctor(tmp_path, {}, "--json", system=system)
    found = findings(done)
    assert done.returncode == 0
    assert {subject for subject, one in found.items() if one["level"] != "ok"} == {"docker", "compose"}
    assert found["docker"]["remedy"] == "scripts/up installs it (with sudo)"
    assert found["gpu"]["found"] == "none, and ACCELERATOR=cpu needs none"


@pytest.mark.parametrize(
    ("machine", "tag", "level", "says"),
    [
        ("a100", "26.02-py3", "ok", "TRITON_TAG=25.06-py3 fits"),
        # Driver 550: by forward compatibility, which only data-center GPUs have.
        ("h200", "26.02-py3", "ok", "TRITON_TAG=25.06-py3 fits"),
        ("rtx-4090", None, "fail", "no known tag fits driver 535.230.02 with NVIDIA GeForce RTX 4090"),
        ("rtx-4090-580", "25.08-py3", "ok", "TRITON_TAG=25.06-py3 fits"),
        # The plain table of driver 610 has another header; the query has not.
        ("b200", "26.02-py3", "ok", "TRITON_TAG=25.06-py3 fits"),
        ("old", None, "fail", "no known tag fits driver 470.57.02 with Quadro RTX 6000"),
    ],
)
def test_the_triton_tag(machine: str, tag: str | None, level: str, says: str, tmp_path: Path) -> None:
    """The newest tag that the driver runs, in the JSON too; where there is none the remedy is a newer driver."""
    done = doctor(tmp_path, READY | smi(machine), "--json", ACCELERATOR="gpu")
    found = findings(done)["triton"]
    assert (json.loads(done.stdout)["triton_tag"], found["level"]) == (tag, level)
    assert found["found"].startswith(says)
    assert done.returncode == (level == "fail")
    assert (found["remedy"] or "").startswith("update the driver to 575 or newer") == (level == "fail")


@pytest.mark.parametrize(
    ("name", "driver", "capability", "tag", "forward"),
    [
        ("NVIDIA GeForce RTX 4090", "570.133.07", "8.9", "25.03-py3", False),
        ("NVIDIA GeForce RTX 4090", "565.57.01", "8.9", "24.10-py3", False),
        ("NVIDIA RTX A6000", "565.57.01", "8.6", "24.10-py3", False),
        ("NVIDIA A10G", "535.183.01", "8.6", "26.02-py3", True),
        ("Tesla T4", "570.133.07", "7.5", "26.02-py3", True),
        # A V100 is below what Triton supports from 2025 on.
        ("Tesla V100-SXM2-16GB", "550.54.15", "7.0", "24.10-py3", False),
        ("NVIDIA L40S", "560.35.03", "8.9", "25.06-py3", True),
    ],
)
def test_a_tag_that_does_not_fit(
    name: str, driver: str, capability: str, tag: str, *, forward: bool, tmp_path: Path
) -> None:
    """The line for .env is in the remedy; a GPU that nobody asked for makes it a warning."""
    query = f"printf 'name\\n{name}, {driver}, 24564 MiB, {capability}\\n'"
    done = doctor(tmp_path, READY | {"nvidia-smi": query}, "--json", ACCELERATOR="gpu")
    assert json.loads(done.stdout)["triton_tag"] == tag
    if not forward:
        assert done.returncode == 1
        assert findings(done)["triton"]["remedy"].startswith(f"put TRITON_TAG={tag} into .env")
    chosen = doctor(tmp_path / "chosen", READY | {"nvidia-smi": query}, ACCELERATOR="gpu", TRITON_TAG=tag)
    assert f"ok    triton    TRITON_TAG={tag} fits; the newest known that fits: {tag}" in said(chosen)
    unused = doctor(tmp_path / "unused", READY | {"nvidia-smi": query}, "--json")
    assert unused.returncode == 0
    assert findings(unused)["gpu"]["found"].endswith("not used, ACCELERATOR=gpu in .env would")
    assert findings(unused)["triton"]["level"] == ("ok" if forward else "warn")


def test_a_tag_that_is_not_known(tmp_path: Path) -> None:
    """A tag that the table does not have may fit: a warning that says where to look."""
    found = findings(doctor(tmp_path, READY | smi("a100"), "--json", ACCELERATOR="gpu", TRITON_TAG="27.01-py3"))
    assert found["triton"]["level"] == "warn"
    assert found["triton"]["found"] == "whether TRITON_TAG=27.01-py3 fits is not known"


PCI = {"sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:01:00.0/class": "0x030200\n"}


@pytest.mark.parametrize(
    ("programs", "files", "subject", "found", "remedy"),
    [
        ({}, PCI, "driver", "none, and an NVIDIA GPU is on the bus", "install it: sudo scripts/setup-vm --driver"),
        (smi("no-driver"), PCI, "driver", "nvidia-smi is here and cannot reach the driver", "reboot, or install"),
        ({}, {}, "gpu", "none", "rent a machine with an NVIDIA GPU, or leave ACCELERATOR=cpu"),
    ],
)
def test_no_driver(
    programs: dict[str, str], files: dict[str, str], subject: str, found: str, remedy: str, tmp_path: Path
) -> None:
    """A failure where the GPU is asked for, else at most a warning."""
    done = doctor(tmp_path, READY | programs, "--json", files=files, ACCELERATOR="gpu")
    one = findings(done)[subject]
    assert (done.returncode, one["level"], one["found"]) == (1, "fail", found)
    assert one["remedy"].startswith(remedy)
    assert doctor(tmp_path / "cpu", READY | programs, files=files).returncode == 0


@pytest.mark.parametrize(
    ("programs", "says"),
    [
        ({"docker": ENGINE}, "fail  toolkit   no NVIDIA container toolkit: sudo scripts/setup-vm installs it"),
        (
            {"docker": ENGINE.replace('"nvidia"', '"crun"')} | TOOLKIT,
            "fail  toolkit   installed, and Docker does not know it: "
            "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
        ),
    ],
)
def test_the_container_toolkit(programs: dict[str, str], says: str, tmp_path: Path) -> None:
    """It is installed, and the engine knows it."""
    assert said(doctor(tmp_path, programs | smi("a100"), ACCELERATOR="gpu"))[-1] == says


NO_CAPABILITIES = {"proc/self/status": "CapBnd:\t00000000a80425fb\n", ".dockerenv": ""}


@pytest.mark.parametrize(
    ("files", "environment", "says"),
    [
        (NO_CAPABILITIES, {"RUNPOD_POD_ID": "x1"}, "a container, docker (a RunPod pod), not a machine: Docker cannot"),
        (NO_CAPABILITIES, {"VAST_CONTAINERLABEL": "C.1"}, "a container, docker (a Vast.ai instance), not a machine:"),
        (NO_CAPABILITIES, {}, "a container, docker, not a machine: Docker cannot run inside it"),
        (
            {"proc/self/status": "CapBnd:\t00000000a80425fb\n", "proc/1/cgroup": "0::/kubepods/pod1\n"},
            {},
            "a container, docker, not a machine: Docker cannot run inside it",
        ),
    ],
)
def test_a_rental_that_is_a_container(
    files: dict[str, str], environment: dict[str, str], says: str, tmp_path: Path
) -> None:
    """It says so in words, and what to do instead."""
    done = doctor(tmp_path, smi("rtx-4090-580"), "--json", files=files, **environment)
    machine = findings(done)["machine"]
    assert (done.returncode, machine["level"]) == (1, "fail")
    assert machine["found"].startswith(says)
    assert "rent a VM" in machine["remedy"]
    assert "scripts/native" in machine["remedy"]


def test_a_container_where_docker_works(tmp_path: Path) -> None:
    """Being a container is no failure where Docker answers, or may start."""
    done = doctor(tmp_path, READY, "--json", files=NO_CAPABILITIES)
    assert findings(done)["machine"]["found"] == "a container, docker, and Docker answers in it"
    assert done.returncode == 0
    done = doctor(tmp_path / "may", {"systemd-detect-virt": "echo lxc"}, "--json")
    assert findings(done)["machine"] == {
        "level": "warn",
        "subject": "machine",
        "found": "a container, lxc, with CAP_SYS_ADMIN",
        "remedy": "Docker may start in it: try scripts/up",
    }
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("programs", "options", "says"),
    [
        ({"nproc": "echo 1"}, {}, "warn  cpu       1 core: the stack runs; to measure take 2 cores or more"),
        (
            {},
            {"files": {"proc/meminfo": "MemTotal:  2014496 kB\n"}},
            "fail  memory    1967 MiB: take a machine with 8 GB: the model builder alone may need 4",
        ),
        (
            {"df": "echo Avail; echo 14G"},
            {},
            "fail  disk      14 GB free at /var/lib/docker: free some, or give Docker another data-root: "
            "the first build needs 15 GB",
        ),
        ({"uname": "echo aarch64"}, {}, "fail  system    ubuntu-24.04, aarch64: use an x86-64 machine"),
        ({}, {"system": "fedora-43"}, "fail  system    fedora-43, x86_64: take one of debian-12 debian-13"),
        ({"docker": ENGINE}, {"system": "fedora-43"}, "ok    system    fedora-43, x86_64: scripts/up cannot install"),
        ({"id": "echo 1000"}, {}, "fail  rights    not root, no sudo, no Docker: ask for root or sudo"),
        ({"id": "echo 1000", "sudo": ""}, {}, "ok    rights    not root, sudo is here"),
        ({"dockerd": ""}, {}, "warn  docker    installed, does not answer: run scripts/up with sudo"),
        (
            {"docker": ENGINE.replace("2.40.3", "2.17.0")},
            {},
            "fail  compose   2.17.0, or no buildx: run scripts/engine with sudo, or install Compose 2.20 or newer",
        ),
        ({}, {"ACCELERATOR": "tpu"}, "fail  accelerator tpu: set ACCELERATOR to cpu or gpu"),
    ],
)
def test_other_findings(programs: dict[str, str], options: dict[str, Any], says: str, tmp_path: Path) -> None:
    """Each with its remedy; a failure ends in exit status 1."""
    done = doctor(tmp_path, programs, **options)
    lines = [line.replace(str(tmp_path), "") for line in said(done)]
    assert any(line.startswith(says) for line in lines), lines
    assert done.returncode == says.startswith("fail")


def test_a_taken_port(tmp_path: Path) -> None:
    """The variable that moves it is in the remedy."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = doctor(tmp_path, READY, EDGE_PORT=str(port))
    assert (
        f"fail  port      {port} is taken by another program: stop it, or set EDGE_PORT in .env to a free port"
        in said(done)
    )
    assert done.returncode == 1


def test_the_settings_of_env(tmp_path: Path) -> None:
    """What .env says counts, quotes and backslashes included in valid JSON."""
    done = doctor(tmp_path, READY | smi("a100"), "--json", files={".env": 'ACCELERATOR=gpu\nTRITON_TAG=a"\\b\n'})
    assert json.loads(done.stdout)["accelerator"] == "gpu"
    assert findings(done)["triton"]["found"] == 'whether TRITON_TAG=a"\\b fits is not known'


def test_an_unknown_option(tmp_path: Path) -> None:
    """Exit status 2, one line."""
    done = doctor(tmp_path, {}, "--yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "fiveway: unknown option --yaml: scripts/doctor [--json]\n"


@pytest.mark.parametrize("machine", ["a100", "h200", "rtx-4090", "b200", "old"])
def test_the_recordings_agree(machine: str) -> None:
    """A query that was derived says what the published table beside it says: name, driver, memory of every GPU."""
    query = RECORDED / f"{machine}.query-without-compute_cap.txt"
    if not query.exists():
        query = RECORDED / f"{machine}.query.txt"
    table = (RECORDED / f"{machine}.txt").read_text()
    driver = re.findall(r"(?:Driver|KMD) Version: (\S+)", table)
    names = re.findall(r"^\|\s+\d+  (\S.*?)\s+(?:Off|On)\s+\|", table, re.M)
    memory = re.findall(r"/\s*(\d+)MiB", table)
    rows = [line.split(", ")[:3] for line in query.read_text().splitlines()[1:]]
    assert rows == [[name, *driver, f"{mib} MiB"] for name, mib in zip(names, memory, strict=True)]
