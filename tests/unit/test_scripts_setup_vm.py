"""What scripts/setup-vm installs, system by system, in a sandbox: nothing of this machine is asked or changed.

The script runs as a copy whose absolute paths lead into a folder, with fake programs in the place of apt-get, docker
and all else that would act. What it says and what it does land in one transcript, in the order in which they happen.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.repository import ROOT

TOOLS = (
    "awk",
    "bash",
    "cat",
    "chmod",
    "cp",
    "dirname",
    "grep",
    "head",
    "install",
    "mktemp",
    "rm",
    "sed",
    "sort",
    "tail",
)
ABSOLUTE = re.compile(r"(?<=[\s=>])(\"?)/(etc|sys|usr)/")
TOOLKIT_PROGRAM = '#!/bin/bash\ndid nvidia-ctk "$@"\n'
PROGRAMS = {
    "did": r"""sed "s#$SANDBOX/tmp/[^/ ]*#TMP#g; s#$SANDBOX##g" <<<"$*" >>"$SANDBOX/transcript" """,
    "apt-get": f"""
case "$*" in
  indextargets*) echo stable http://mirror/debian; echo stable-security http://mirror/security; exit ;;
  *nvidia-container-toolkit=*)
    echo '{TOOLKIT_PROGRAM}' >"$SANDBOX/bin/nvidia-ctk"
    chmod +x "$SANDBOX/bin/nvidia-ctk"
    ;;
esac
did apt-get "$@" """,
    "curl": 'did curl "$@"; [ ! -e "$SANDBOX/offline" ] && echo key >"$5"',
    "docker": """case "$*" in
  info | "buildx version") ;;
  "compose version --short") echo 2.40.3 ;;
  *Runtimes*) cat "$SANDBOX/runtimes" ;;
esac""",
    "gpg": r'printf "pub:x:\nfpr:::::::::%s:\nsub:x:\nfpr:::::::::OTHER:\n" "${KEY_THERE-$NVIDIAS_KEY}"',
    "systemctl": """did systemctl "$@"; echo '{"nvidia":{}}' >"$SANDBOX/runtimes" """,
    "id": 'echo "${UID_THERE-0}"',
    "uname": "echo 6.8.0-1",
}
NVIDIAS_KEY = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
GPU = {"sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:01:00.0/class": "0x030000\n"}
AUDIO = {"sys/bus/pci/devices/0000:01:00.1/vendor": "0x10de\n", "sys/bus/pci/devices/0000:01:00.1/class": "0x040300\n"}
DRIVER = {"bin/nvidia-smi": "#!/bin/sh\necho 580.65.06\n"}
CODENAMES = {"debian-12": "bookworm", "debian-13": "trixie", "ubuntu-22.04": "jammy", "ubuntu-24.04": "noble"}
systems = pytest.mark.parametrize("system", CODENAMES)


def setup(
    sandbox: Path, system: str, *options: str, there: Mapping[str, str] | None = None, **environment: str
) -> tuple[int, list[str], str]:
    """Run the script on `system` where these files are there: exit status, transcript, stderr. A second run goes on."""
    name, _, version = system.partition("-")
    release = f'ID={name}\nVERSION_ID="{version}"\nVERSION_CODENAME={CODENAMES.get(system, "none")}\n'
    files = {"etc/os-release": release, "runtimes": "{}", "bin/": "", "tmp/": "", "etc/apt/sources.list.d/": ""}
    files |= {"usr/share/keyrings/": "", "scripts/engine": "#!/bin/bash\ndid engine\n"}
    files |= {f"bin/{program}": f"#!/bin/bash\n{body}\n" for program, body in PROGRAMS.items()} | dict(there or {})
    for script in ("setup-vm", "lib.sh"):
        text = (ROOT / "scripts" / script).read_text()
        files[f"scripts/{script}"] = ABSOLUTE.sub(rf"\1{sandbox}/\2/", text)
    for file, content in files.items():
        path = sandbox / file
        (path if file.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not file.endswith("/") and not path.exists():
            path.write_text(content)
            path.chmod(0o755)
    for tool in TOOLS:
        if not (sandbox / "bin" / tool).exists():
            (sandbox / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    environment |= {"PATH": str(sandbox / "bin"), "SANDBOX": str(sandbox), "TMPDIR": str(sandbox / "tmp")}
    environment["NVIDIAS_KEY"] = NVIDIAS_KEY
    (sandbox / "transcript").unlink(missing_ok=True)
    with (sandbox / "transcript").open("a") as transcript:
        done = subprocess.run(
            ["bash", str(sandbox / "scripts/setup-vm"), *options],
            env=environment, stdout=transcript, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    lines = (sandbox / "transcript").read_text().replace(str(sandbox), "").splitlines()
    return done.returncode, lines, done.stderr.replace(str(sandbox), "")


PINNED = " ".join(
    f"{name}=1.19.0-1"
    for name in (
        *("nvidia-container-toolkit", "nvidia-container-toolkit-base"),
        *("libnvidia-container-tools", "libnvidia-container1"),
    )
)
REPOSITORY = "https://nvidia.github.io/libnvidia-container"
INSTALL = "apt-get -q install -y --no-install-recommends"
SAYS_TOOLKIT = f"==> Going to install with apt: {PINNED}, from {REPOSITORY}"
SAYS_DOCKER = "==> Going to tell Docker of the GPU, and to restart it"
TOOLKIT = [
    SAYS_TOOLKIT,
    "apt-get -q update",
    f"{INSTALL} ca-certificates curl gpg",
    f"curl -fsSL --retry 3 -o TMP/key {REPOSITORY}/gpgkey",
    "apt-get -q update",
    f"{INSTALL} {PINNED}",
    SAYS_DOCKER,
    "nvidia-ctk runtime configure --runtime=docker",
    "systemctl restart docker",
]


@systems
def test_without_a_gpu(system: str, tmp_path: Path) -> None:
    """It is the engine and nothing else; the sound of an NVIDIA card is no GPU."""
    assert setup(tmp_path, system, there=AUDIO) == (0, ["engine"], "")


@systems
def test_a_gpu_with_a_driver(system: str, tmp_path: Path) -> None:
    """The toolkit comes pinned from NVIDIA's repository, its key in a file of its own; a second run does nothing."""
    assert setup(tmp_path, system, there=GPU | DRIVER) == (0, ["engine", *TOOLKIT], "")
    source = (tmp_path / "etc/apt/sources.list.d/nvidia-container-toolkit.list").read_text()
    keyring = "/usr/share/keyrings/nvidia-container-toolkit.asc"
    assert source.replace(str(tmp_path), "") == f"deb [signed-by={keyring}] {REPOSITORY}/stable/deb/$(ARCH) /\n"
    assert (tmp_path / keyring.lstrip("/")).read_text() == "key\n"
    assert setup(tmp_path, system) == (0, ["engine"], "")


def test_a_toolkit_that_docker_does_not_know(tmp_path: Path) -> None:
    """It is configured, and not installed again."""
    there = GPU | DRIVER | {"bin/nvidia-ctk": TOOLKIT_PROGRAM}
    status, transcript, errors = setup(tmp_path, "ubuntu-24.04", there=there)
    assert (status, transcript, errors) == (0, ["engine", *TOOLKIT[-3:]], "")


PACKAGES = {
    "ubuntu": "linux-headers-6.8.0-1 nvidia-headless-580-server-open nvidia-utils-580-server",
    "debian": "linux-headers-6.8.0-1 nvidia-kernel-dkms nvidia-smi nvidia-modprobe libcuda1 libnvidia-ml1 "
    "libnvidia-ptxjitcompiler1",
}


@systems
def test_a_gpu_without_a_driver(system: str, tmp_path: Path) -> None:
    """It says which packages the driver is, and installs them only with --driver, on Debian from its non-free part."""
    packages = PACKAGES[system.partition("-")[0]]
    status, transcript, errors = setup(tmp_path, system, there=GPU)
    assert (status, errors) == (0, "")
    assert transcript[1].startswith("==> An NVIDIA GPU is here and no driver answers. To install one run: sudo scripts")
    assert f"(apt: {packages})" in transcript[1]
    assert transcript[2:] == TOOLKIT
    assert setup(tmp_path, system, "--driver") == (
        0,
        [
            "engine",
            f"==> Going to install with apt: {packages}",
            *["apt-get -q update"] * (2 if system.startswith("debian") else 1),
            f"{INSTALL} {packages}",
            "==> The driver is loaded by the next start: reboot, then run scripts/setup-vm again and scripts/doctor",
        ],
        "",
    )
    source = tmp_path / "etc/apt/sources.list.d/fiveway-non-free.list"
    if system.startswith("debian"):
        non_free = f"{CODENAMES[system]} contrib non-free non-free-firmware"
        assert source.read_text() == f"deb http://mirror/debian {non_free}\n"
    else:
        assert not source.exists()


@systems
def test_a_dry_run_does_nothing(system: str, tmp_path: Path) -> None:
    """It says all it would do, without root, and leaves no file."""
    status, transcript, errors = setup(tmp_path, system, "--driver", "--dry-run", there=GPU, UID_THERE="1000")
    packages = PACKAGES[system.partition("-")[0]]
    assert (status, errors) == (0, "")
    assert transcript == [f"==> Going to install with apt: {packages}", SAYS_TOOLKIT, SAYS_DOCKER]
    assert not list((tmp_path / "etc/apt/sources.list.d").iterdir())
    without = {"bin/docker": "#!/bin/bash\nexit 1\n"}
    status, transcript, errors = setup(tmp_path / "bare", system, "--dry-run", there=without)
    assert transcript == ["==> Going to install or start Docker with Compose (scripts/engine)"]


@pytest.mark.parametrize(
    ("options", "there", "environment", "status", "says"),
    [
        ([], {}, {"UID_THERE": "1000"}, 1, "run it as root (sudo), or see what it would do with --dry-run"),
        ([], GPU | DRIVER, {"KEY_THERE": "0" * 40}, 1, "is not NVIDIA's C95B321B61E88C1809C4F759DDCAE044F796ECB0: do"),
        ([], GPU | DRIVER | {"offline": ""}, {}, 1, "cannot be downloaded from https://nvidia.github.io/libnvidia-co"),
    ],
)
def test_refusals(
    options: list[str], there: dict[str, str], environment: dict[str, str], status: int, says: str, tmp_path: Path
) -> None:
    """One line that says what to do; with a wrong key no source is added and nothing of NVIDIA's is installed."""
    done, transcript, errors = setup(tmp_path, "ubuntu-24.04", *options, there=there, **environment)
    assert done == status
    assert errors.startswith("fiveway: ")
    assert errors.count("\n") == 1, errors
    assert says in errors
    assert not any("=1.19.0-1" in line for line in transcript if line.startswith("apt-get"))
    assert not (tmp_path / "etc/apt/sources.list.d/nvidia-container-toolkit.list").exists()


def test_another_system_with_a_gpu(tmp_path: Path) -> None:
    """Where it cannot install a driver it says which one to install."""
    status, _, errors = setup(tmp_path, "fedora-43", there=GPU)
    assert status == 1
    assert "this is fedora-43: install NVIDIA's driver 575 or newer yourself" in errors
