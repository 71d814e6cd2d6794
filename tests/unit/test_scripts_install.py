"""What scripts/engine and scripts/setup-vm install and start, system by system; nothing of this machine is changed.

They run as copies whose absolute paths lead into a folder, with shell functions in the place of apt-get, docker and all
else that would act. What they say and what they do land in one transcript, in the order in which it happens.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.repository import ROOT

TOOLS = (
    "awk", "bash", "cat", "dirname", "grep", "head", "install", "mkdir", "mktemp", "rm", "sed", "seq", "sort", "tail",
    "tar", "touch",
)  # fmt: skip
ABSOLUTE = re.compile(r'(?<=[\s=>])("?)/(etc|run|sys|usr|var)/')
CODENAMES = {"debian-12": "bookworm", "debian-13": "trixie", "ubuntu-22.04": "jammy", "ubuntu-24.04": "noble"}
systems = pytest.mark.parametrize("system", CODENAMES)
PINS = re.findall(r"^(\w+) (sha256:[0-9a-f]{64})$", (ROOT / "scripts" / "base-images").read_text(), re.MULTILINE)
BASES = {suite: f"debian@{digest}" for suite, digest in PINS}
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# What the scripts may find, as files of the sandbox; the functions below make the same files.
ENGINE, RUNNING, SYSTEMD = "state/dockerd", "state/running", "run/systemd/system/docker.service"
COMPOSE, BUILDX = "usr/libexec/docker/cli-plugins/docker-compose", "usr/libexec/docker/cli-plugins/docker-buildx"
IMAGES = ("state/debian:bookworm-slim", "state/debian:trixie-slim")
READY = (ENGINE, RUNNING, COMPOSE, BUILDX, *IMAGES)
DRIVER, TOOLKIT_THERE, OFFLINE, FORGED = "state/driver", "state/nvidia-ctk", "state/offline", "state/forged"
GPU, SOUND = "sys/bus/pci/devices/0000:01:00.0", "sys/bus/pci/devices/0000:01:00.1"
CLASSES = {GPU: "0x030000", SOUND: "0x040300"}
NVIDIAS_KEY = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"

# Read by bash before the script. A package brings what the script looks for after it.
WORLD = r"""
did() { printf '%s\n' "$*" | sed "s#$SANDBOX/tmp/[^/ ]*#TMP#g; s#$SANDBOX##g" >>"$SANDBOX/transcript"; }
there() { [ -e "$SANDBOX/state/$1" ]; }
bring() { # PACKAGE
  case "$1" in
    docker.io) touch "$SANDBOX/state/dockerd" ;;
    docker-compose | docker-compose-v2) echo 2.24.6 >"$SANDBOX/usr/libexec/docker/cli-plugins/docker-compose" ;;
    docker-buildx) touch "$SANDBOX/usr/libexec/docker/cli-plugins/docker-buildx" ;;
    debootstrap) touch "$SANDBOX/state/debootstrap" ;;
    debian-archive-keyring) touch "$SANDBOX/usr/share/keyrings/debian-archive-keyring.gpg" ;;
    nvidia-container-toolkit=*) touch "$SANDBOX/state/nvidia-ctk" ;;
  esac
}
plugin() { # NAME
  cat "$SANDBOX/usr/libexec/docker/cli-plugins/$1" 2>/dev/null ||
    cat "$SANDBOX/usr/local/lib/docker/cli-plugins/$1" 2>/dev/null
}
apt-get() {
  [ "$DEBIAN_FRONTEND" = noninteractive ] || did "a question"
  case "$*" in
    indextargets*) printf '%s\n' "$RELEASE-security http://mirror/security" "$RELEASE http://mirror/debian" ;;
    *Dir::Etc::sourcelist=*update) did "apt-get update from: $(cat "$(sed 's/.*sourcelist=\(\S*\).*/\1/' <<<"$*")")" ;;
    *" download "*) did "apt-get ${*: -3}" && touch docker-compose_2.26.1-4_amd64.deb docker-buildx_0.13.1_amd64.deb ;;
    *)
      did "apt-get $*"
      for package; do bring "$package"; done
      ;;
  esac
}
dpkg() {
  mkdir -p "$3/usr/libexec/docker/cli-plugins"
  set -- "$3" "${2#./}"
  echo 2.26.1 >"$1/usr/libexec/docker/cli-plugins/${2%%_*}"
}
docker() {
  case "$*" in
    info) there running ;;
    *Runtimes*) if there runtime; then echo '{"nvidia":{}}'; else echo '{}'; fi ;;
    "compose version --short") plugin docker-compose ;;
    "buildx version") plugin docker-buildx ;;
    "image inspect "*) there "$3" ;;
    "pull "*) did "docker $*" && there registry ;;
    "tag "*) did "docker $*" ;;
    "import "*) cat >/dev/null && did "docker $*" && touch "$SANDBOX/state/${*: -1}" ;;
    "cp "*) touch "$3" ;;
  esac
}
dockerd() {
  [ ! -e "$SANDBOX/var/run/docker.pid" ] && did dockerd && touch "$SANDBOX/state/running"
}
debootstrap() {
  did "debootstrap $*"
  ! there unknown-key || { echo "E: Release signed by unknown key" && return 1; }
  mkdir -p "${*: -1}"/{etc/apt/apt.conf.d,etc/dpkg/dpkg.cfg.d,usr/share,var}
}
systemctl() { did "systemctl $*" && touch "$SANDBOX/state/running"; }
nvidia-smi() { there driver && echo 580.65.06; }
nvidia-ctk() { did "nvidia-ctk $*" && touch "$SANDBOX/state/runtime"; }
curl() { did "curl $*" && ! there offline && echo key >"$5"; }
gpg() {
  ! there forged || KEY=0
  printf 'pub:x:\nfpr:::::::::%s:\nsub:x:\nfpr:::::::::OTHER:\n' "$KEY"
}
command() { there "$2"; } # -v PROGRAM
id() { echo "$UID_THERE"; }
uname() { if [ "$1" = -r ]; then echo 6.8.0-1; else echo "$MACHINE_THERE"; fi; }
setsid() { "$@"; }
sleep() { wait; } # for the engine that setsid starts
timeout() { shift && "$@"; }
"""


def run(
    sandbox: Path,
    system: str,
    there: Sequence[str] = (),
    script: str = "engine",
    *options: str,
    uid: int = 0,
    machine: str = "x86_64",
) -> tuple[int, list[str], str]:
    """Run it on `system` ("ID-VERSION_ID") where these files are: status, transcript, stderr. A second run goes on."""
    name, _, version = system.partition("-")
    codename = CODENAMES.get(system, "none")
    about = {"ID": name, "VERSION_ID": version, "VERSION_CODENAME": codename}
    names = ("engine", "setup-vm", "lib.sh", "base-images")
    scripts = {f"scripts/{script}": (ROOT / "scripts" / script).read_text() for script in names}
    files = {
        "etc/os-release": "".join(f'{key}="{value}"\n' for key, value in about.items() if value),
        "world.sh": WORLD,
        **{path: ABSOLUTE.sub(rf"\1{sandbox}/\2/", text) for path, text in scripts.items()},
        **{path: "2.24.6\n" for path in there if path not in CLASSES},
        **{f"{path}/vendor": "0x10de\n" for path in there if path in CLASSES},
        **{f"{path}/class": f"{CLASSES[path]}\n" for path in there if path in CLASSES},
    }
    folders = ("bin", "etc/apt/sources.list.d", "state", "tmp", "usr/libexec/docker/cli-plugins", "usr/share/keyrings")
    for folder in (*folders, *(os.path.dirname(path) for path in files)):
        (sandbox / folder).mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        (sandbox / path).write_text(text)
        (sandbox / path).chmod(0o755)
    for tool in TOOLS:
        if not (sandbox / "bin" / tool).exists():
            (sandbox / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    environment = {
        "BASH_ENV": str(sandbox / "world.sh"),
        "KEY": NVIDIAS_KEY,
        "MACHINE_THERE": machine,
        "PATH": str(sandbox / "bin"),
        "RELEASE": "stable" if codename == "trixie" else codename,
        "SANDBOX": str(sandbox),
        "TMPDIR": str(sandbox / "tmp"),
        "UID_THERE": str(uid),
    }
    (sandbox / "transcript").unlink(missing_ok=True)
    with (sandbox / "transcript").open("a") as out:
        command = ["bash", str(sandbox / "scripts" / script), *options]
        done = subprocess.run(command, env=environment, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    lines = (sandbox / "transcript").read_text().replace(str(sandbox), "").splitlines()
    return done.returncode, lines, done.stderr.replace(str(sandbox), "")


INSTALL = "apt-get -q install -y --no-install-recommends"
COMMON = "iptables debootstrap ca-certificates python3"
PACKAGES = {
    "debian-12": f"docker.io {COMMON}",
    "debian-13": f"docker.io docker-cli docker-buildx docker-compose {COMMON}",
    "ubuntu-22.04": f"docker.io docker-buildx docker-compose-v2 {COMMON}",
    "ubuntu-24.04": f"docker.io docker-buildx docker-compose-v2 {COMMON}",
}


def installs(system: str) -> list[str]:
    """The transcript of the installation: what will be installed is said before apt is called at all."""
    begin, end = [f"==> Going to install with apt: {PACKAGES[system]}"], []
    if system == "debian-12":
        begin.append(
            "==> Going to install from Debian 13's packages, into /usr/local/lib/docker/cli-plugins: "
            "docker-compose, docker-buildx (Debian 12 has Compose v1 only)"
        )
        end.append(f"apt-get update from: deb [signed-by={KEYRING}] http://mirror/debian trixie main")
        end.append("apt-get download docker-compose docker-buildx")
    return [*begin, "apt-get -q update", f"{INSTALL} {PACKAGES[system]}", *end]


STARTING = "==> Starting the Docker engine"
starts = pytest.mark.parametrize(
    ("init", "start"), [((SYSTEMD,), "systemctl enable --now docker"), ((), "dockerd")], ids=["systemd", "no init"]
)


@systems
@starts
def test_a_bare_machine(system: str, init: tuple[str, ...], start: str, tmp_path: Path) -> None:
    """It says what it will install, installs just that, and starts the engine."""
    assert run(tmp_path, system, (*IMAGES, *init)) == (0, [*installs(system), STARTING, start], "")


@pytest.mark.parametrize("uid", [0, 1000])
@pytest.mark.parametrize("system", [*PACKAGES, "fedora-43", "ubuntu-20.04"])
def test_what_is_there_is_used(system: str, uid: int, tmp_path: Path) -> None:
    """With engine, Compose v2, buildx and base images it does nothing: on any system, and without root."""
    assert run(tmp_path, system, READY, uid=uid) == (0, [], "")


@starts
def test_a_stopped_engine_is_started(init: tuple[str, ...], start: str, tmp_path: Path) -> None:
    """Nothing is installed; a pid file that a killed engine left, with another program's pid, is removed."""
    (tmp_path / "var/run").mkdir(parents=True)
    (tmp_path / "var/run/docker.pid").write_text(str(os.getpid()))
    assert run(tmp_path, "debian-13", (ENGINE, COMPOSE, BUILDX, *init, *IMAGES)) == (0, [STARTING, start], "")


@systems
@pytest.mark.parametrize("missing", [COMPOSE, BUILDX])
def test_a_missing_plugin_is_installed(system: str, missing: str, tmp_path: Path) -> None:
    """An engine without Compose or buildx gets them; the engine that runs is not started again."""
    assert run(tmp_path, system, [file for file in READY if file != missing]) == (0, installs(system), "")


def test_base_images_without_a_registry(tmp_path: Path) -> None:
    """Debian's keyring, new on Ubuntu, checks bookworm, and bookworm's own checks trixie; apt is announced here too."""
    status, transcript, errors = run(tmp_path, "ubuntu-22.04", (ENGINE, RUNNING, COMPOSE, BUILDX, "state/debootstrap"))
    assert (status, errors) == (0, "")
    assert transcript == [
        f"docker pull -q {BASES['bookworm']}",
        "==> Making debian:bookworm-slim with debootstrap (no image registry can be reached)",
        "==> Going to install with apt: debootstrap debian-archive-keyring",
        "apt-get -q update",
        f"{INSTALL} debootstrap debian-archive-keyring",
        f"debootstrap --variant=minbase --keyring={KEYRING} bookworm TMP",
        'docker import --change CMD ["bash"] - debian:bookworm-slim',
        f"docker pull -q {BASES['trixie']}",
        "==> Making debian:trixie-slim with debootstrap (no image registry can be reached)",
        "debootstrap --variant=minbase --keyring=TMP trixie TMP",
        'docker import --change CMD ["bash"] - debian:trixie-slim',
    ]


def test_base_images_of_a_registry(tmp_path: Path) -> None:
    """They are pulled by digest, under the names that FROM lines have."""
    status, transcript, errors = run(tmp_path, "debian-13", (ENGINE, RUNNING, COMPOSE, BUILDX, "state/registry"))
    assert (status, errors) == (0, "")
    assert transcript == [
        f"docker {verb}"
        for suite, pinned in BASES.items()
        for verb in (f"pull -q {pinned}", f"tag {pinned} debian:{suite}-slim")
    ]


def test_a_keyring_that_is_too_old(tmp_path: Path) -> None:
    """What debootstrap says is shown, and the last line says what to do; no image is made."""
    there = (ENGINE, RUNNING, COMPOSE, BUILDX, "state/debootstrap", "state/unknown-key", KEYRING.lstrip("/"))
    status, transcript, errors = run(tmp_path, "ubuntu-22.04", there)
    assert status == 1
    assert transcript[-1] == f"debootstrap --variant=minbase --keyring={KEYRING} bookworm TMP"
    assert errors.startswith("E: Release signed by unknown key\n")
    assert f"put Debian 12's keyring at {KEYRING}; or give Docker a registry" in errors.splitlines()[-1]


# ---------------------------------------------------------------- setup-vm

PINNED = (
    "nvidia-container-toolkit=1.19.0-1 nvidia-container-toolkit-base=1.19.0-1 libnvidia-container-tools=1.19.0-1 "
    "libnvidia-container1=1.19.0-1"
)
REPOSITORY = "https://nvidia.github.io/libnvidia-container"
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
DRIVERS = {
    "ubuntu": "linux-headers-6.8.0-1 nvidia-headless-580-server-open nvidia-utils-580-server",
    "debian": "linux-headers-6.8.0-1 nvidia-kernel-dkms nvidia-smi nvidia-modprobe libcuda1 libnvidia-ml1 "
    "libnvidia-ptxjitcompiler1",
}


def test_without_a_gpu(tmp_path: Path) -> None:
    """The engine and nothing else; the audio device of an NVIDIA card is not a GPU."""
    transcript = [*installs("debian-13"), STARTING, "dockerd"]
    assert run(tmp_path, "debian-13", (*IMAGES, SOUND), "setup-vm") == (0, transcript, "")


@systems
def test_a_gpu_with_a_driver(system: str, tmp_path: Path) -> None:
    """The toolkit comes pinned from NVIDIA's repository, its key in a file of its own; a second run does nothing."""
    assert run(tmp_path, system, (*READY, GPU, DRIVER), "setup-vm") == (0, TOOLKIT, "")
    source = (tmp_path / "etc/apt/sources.list.d/nvidia-container-toolkit.list").read_text()
    keyring = "/usr/share/keyrings/nvidia-container-toolkit.asc"
    assert source.replace(str(tmp_path), "") == f"deb [signed-by={keyring}] {REPOSITORY}/stable/deb/$(ARCH) /\n"
    assert (tmp_path / keyring.lstrip("/")).read_text() == "key\n"
    assert run(tmp_path, system, (), "setup-vm") == (0, [], "")


def test_a_toolkit_that_docker_does_not_know(tmp_path: Path) -> None:
    """It is configured, and not installed again."""
    there = (*READY, GPU, DRIVER, TOOLKIT_THERE)
    assert run(tmp_path, "ubuntu-24.04", there, "setup-vm") == (0, TOOLKIT[-3:], "")


@systems
def test_a_gpu_without_a_driver(system: str, tmp_path: Path) -> None:
    """It says which packages the driver is, and installs them only with --driver, on Debian from its non-free part."""
    packages, debian = DRIVERS[system.partition("-")[0]], system.startswith("debian")
    status, transcript, errors = run(tmp_path, system, (*READY, GPU), "setup-vm")
    assert (status, transcript[1:], errors) == (0, TOOLKIT, "")
    assert f"sudo scripts/setup-vm --driver (apt: {packages}), then reboot" in transcript[0]
    status, transcript, errors = run(tmp_path, system, (), "setup-vm", "--driver")
    assert (status, errors) == (0, "")
    installing = [*["apt-get -q update"] * (1 + debian), f"{INSTALL} {packages}"]
    assert transcript[:-1] == [f"==> Going to install with apt: {packages}", *installing]
    assert "reboot, then run scripts/setup-vm again" in transcript[-1]
    source = tmp_path / "etc/apt/sources.list.d/fiveway-non-free.list"
    parts = f"deb http://mirror/debian {CODENAMES[system]} contrib non-free non-free-firmware\n"
    assert (source.read_text() if source.exists() else None) == (parts if debian else None)


@systems
def test_a_dry_run_does_nothing(system: str, tmp_path: Path) -> None:
    """It says all it would do, without root, and leaves no file."""
    options = ("setup-vm", "--driver", "--dry-run")
    packages = DRIVERS[system.partition("-")[0]]
    says = [f"==> Going to install with apt: {packages}", SAYS_TOOLKIT, SAYS_DOCKER]
    assert run(tmp_path, system, (*READY, GPU), *options, uid=1000) == (0, says, "")
    assert not list((tmp_path / "etc/apt/sources.list.d").iterdir())
    status, transcript, _ = run(tmp_path / "bare", system, (), *options, uid=1000)
    assert (status, transcript) == (0, ["==> Going to install or start Docker with Compose (scripts/engine)"])


BARE = ()
NEW_GPU = (*READY, GPU, DRIVER)


@pytest.mark.parametrize(
    ("script", "system", "there", "uid", "machine", "keyword"),
    [
        ("engine", "ubuntu-20.04", BARE, 0, "x86_64", "this is ubuntu-20.04"),
        ("engine", "debian-11", BARE, 0, "x86_64", "this is debian-11"),
        ("engine", "arch", BARE, 0, "x86_64", "this is arch-none"),
        ("engine", "ubuntu-24.04", BARE, 1000, "x86_64", "needs root"),
        ("engine", "ubuntu-22.04", BARE, 0, "aarch64", "this machine is aarch64"),
        ("setup-vm", "ubuntu-24.04", BARE, 1000, "x86_64", "--dry-run"),
        ("setup-vm", "ubuntu-24.04", (*NEW_GPU, FORGED), 0, "x86_64", f"is not NVIDIA's {NVIDIAS_KEY}"),
        ("setup-vm", "ubuntu-24.04", (*NEW_GPU, OFFLINE), 0, "x86_64", "cannot be downloaded"),
        ("setup-vm", "fedora-43", (*READY, GPU), 0, "x86_64", "this is fedora-43"),
    ],
)
def test_refusals(
    script: str, system: str, there: tuple[str, ...], uid: int, machine: str, keyword: str, tmp_path: Path
) -> None:
    """One line; nothing has been done, and with a wrong key no source is added."""
    status, transcript, errors = run(tmp_path, system, there, script, uid=uid, machine=machine)
    assert (status, errors.count("\n")) == (1, 1), errors
    assert errors.startswith("fiveway: ")
    assert keyword in errors
    assert script == "setup-vm" or not transcript
    assert not any("=1.19.0-1" in line for line in transcript if line.startswith("apt-get"))
    assert not (tmp_path / "etc/apt/sources.list.d/nvidia-container-toolkit.list").exists()
