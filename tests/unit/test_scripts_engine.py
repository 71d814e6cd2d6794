"""What scripts/engine installs and starts, system by system, in a sandbox: nothing of this machine is asked or changed.

The script runs as a copy whose absolute paths lead into a folder, with shell functions in the place of apt-get, docker
and all else that would act. What it says and what it does land in one transcript, in the order in which they happen.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.repository import ROOT

TOOLS = (
    *("bash", "cat", "dirname", "grep", "head", "install", "mkdir", "mktemp"),
    *("rm", "sed", "seq", "sort", "tail", "tar", "touch"),
)
ABSOLUTE = re.compile(r'(?<=[\s=>])("?)/(etc|run|usr|var)/')
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# What the script may find, as files of the sandbox; the functions below make the same files.
ENGINE, RUNNING, SYSTEMD = "state/engine", "state/running", "run/systemd/system/docker.service"
COMPOSE, BUILDX = "usr/libexec/docker/cli-plugins/docker-compose", "usr/libexec/docker/cli-plugins/docker-buildx"
IMAGES = ("state/debian:bookworm-slim", "state/debian:trixie-slim")

# Read by bash before the script. A package brings what the script looks for after it.
WORLD = r"""
did() { printf '%s\n' "$*" | sed "s#$SANDBOX/tmp/[^/ ]*#TMP#g; s#$SANDBOX##g" >>"$SANDBOX/transcript"; }
bring() { # PACKAGE
  case "$1" in
    docker.io) touch "$SANDBOX/state/engine" ;;
    docker-compose | docker-compose-v2) echo 2.24.6 >"$SANDBOX/usr/libexec/docker/cli-plugins/docker-compose" ;;
    docker-buildx) touch "$SANDBOX/usr/libexec/docker/cli-plugins/docker-buildx" ;;
    debootstrap) touch "$SANDBOX/state/debootstrap" ;;
    debian-archive-keyring) touch "$SANDBOX/usr/share/keyrings/debian-archive-keyring.gpg" ;;
  esac
}
plugin() { # NAME
  cat "$SANDBOX/usr/libexec/docker/cli-plugins/$1" 2>/dev/null ||
    cat "$SANDBOX/usr/local/lib/docker/cli-plugins/$1" 2>/dev/null
}
apt-get() {
  case "$*" in
    indextargets*) echo bookworm http://mirror/debian ;;
    *Dir::Etc::sourcelist=*update) did "apt-get update from: $(cat "$(sed 's/.*sourcelist=\(\S*\).*/\1/' <<<"$*")")" ;;
    *" download "*) did "apt-get ${*: -3}" && touch docker-compose_2.26.1-4_amd64.deb docker-buildx_0.13.1_amd64.deb ;;
    *)
      did "DEBIAN_FRONTEND=${DEBIAN_FRONTEND-} apt-get $*"
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
    info) [ -e "$SANDBOX/state/running" ] ;;
    "compose version --short") plugin docker-compose ;;
    "buildx version") plugin docker-buildx ;;
    "image inspect "*) [ -e "$SANDBOX/state/$3" ] ;;
    "pull "*) did "docker $*" && false ;;
    "import "*) cat >/dev/null && did "docker $*" && touch "$SANDBOX/state/${*: -1}" ;;
    "cp "*) touch "$3" ;;
  esac
}
dockerd() {
  [ ! -e "$SANDBOX/var/run/docker.pid" ] && did dockerd && touch "$SANDBOX/state/running"
}
debootstrap() {
  did "debootstrap $*"
  [ ! -e "$SANDBOX/state/unknown-key" ] || { echo "E: Release signed by unknown key" && return 1; }
  mkdir -p "${*: -1}"/{etc/apt/apt.conf.d,etc/dpkg/dpkg.cfg.d,usr/share,var}
}
systemctl() { did "systemctl $*" && touch "$SANDBOX/state/running"; }
command() { # -v PROGRAM
  [ "$2" != dockerd ] || set -- -v engine
  [ -e "$SANDBOX/state/$2" ]
}
id() { echo "$UID_THERE"; }
uname() { echo "$MACHINE_THERE"; }
setsid() { "$@"; }
sleep() { wait; } # for the engine that setsid starts
timeout() { shift && "$@"; }
"""


def engine(
    sandbox: Path, system: str, there: tuple[str, ...] = (), *, uid: int = 0, machine: str = "x86_64"
) -> tuple[int, list[str], str]:
    """Run the script on `system` ("ID-VERSION_ID") where these files are there: exit status, transcript, stderr."""
    name, _, version = system.partition("-")
    for folder in ("bin", "etc", "scripts", "state", "tmp", "usr/libexec/docker/cli-plugins", "usr/share/keyrings"):
        (sandbox / folder).mkdir(parents=True)
    for file in there:
        (sandbox / file).parent.mkdir(parents=True, exist_ok=True)
        (sandbox / file).write_text("2.24.6\n")
    for tool in TOOLS:
        (sandbox / "bin" / tool).symlink_to(shutil.which(tool) or tool)
    (sandbox / "etc/os-release").write_text(f"ID={name}\n" + (f'VERSION_ID="{version}"\n' if version else ""))
    (sandbox / "world.sh").write_text(WORLD)
    script = sandbox / "scripts/engine"
    for name in ("engine", "lib.sh"):
        text = (ROOT / "scripts" / name).read_text()
        (sandbox / "scripts" / name).write_text(ABSOLUTE.sub(rf"\1{sandbox}/\2/", text))
    environment = {
        "BASH_ENV": str(sandbox / "world.sh"),
        "MACHINE_THERE": machine,
        "PATH": str(sandbox / "bin"),
        "SANDBOX": str(sandbox),
        "TMPDIR": str(sandbox / "tmp"),
        "UID_THERE": str(uid),
    }
    with (sandbox / "transcript").open("a") as transcript:
        done = subprocess.run(
            ["bash", script], env=environment, stdout=transcript, stderr=subprocess.PIPE, text=True, check=False
        )
    lines = (sandbox / "transcript").read_text().replace(str(sandbox), "").splitlines()
    return done.returncode, lines, done.stderr.replace(str(sandbox), "")


INSTALL = "DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends"
PACKAGES = {
    "debian-12": "docker.io iptables debootstrap ca-certificates python3",
    "debian-13": "docker.io docker-cli docker-buildx docker-compose iptables debootstrap ca-certificates python3",
    "ubuntu-22.04": "docker.io docker-buildx docker-compose-v2 iptables debootstrap ca-certificates python3",
    "ubuntu-24.04": "docker.io docker-buildx docker-compose-v2 iptables debootstrap ca-certificates python3",
}
systems = pytest.mark.parametrize("system", PACKAGES)


def installs(system: str) -> list[str]:
    """The transcript of the installation: what will be installed is said before apt is called at all."""
    debian_12 = system == "debian-12"
    return [
        f"==> Going to install with apt: {PACKAGES[system]}",
        *[
            "==> Going to install from Debian 13's packages, into /usr/local/lib/docker/cli-plugins: "
            "docker-compose, docker-buildx (Debian 12 has Compose v1 only)"
        ]
        * debian_12,
        "DEBIAN_FRONTEND=noninteractive apt-get -q update",
        f"{INSTALL} {PACKAGES[system]}",
        *[
            f"apt-get update from: deb [signed-by={KEYRING}] http://mirror/debian trixie main",
            "apt-get download docker-compose docker-buildx",
        ]
        * debian_12,
    ]


@systems
@pytest.mark.parametrize(
    ("init", "start"),
    [
        pytest.param((SYSTEMD,), "systemctl enable --now docker", id="systemd"),
        pytest.param((), "dockerd", id="no init system"),
    ],
)
def test_a_bare_machine(system: str, init: tuple[str, ...], start: str, tmp_path: Path) -> None:
    """It says what it will install, installs just that, and starts the engine."""
    status, transcript, errors = engine(tmp_path, system, (*IMAGES, *init))
    assert (status, errors) == (0, "")
    assert transcript == [*installs(system), "==> Starting the Docker engine", start]


@pytest.mark.parametrize("uid", [0, 1000])
@pytest.mark.parametrize("system", [*PACKAGES, "fedora-43", "ubuntu-20.04"])
def test_what_is_there_is_used(system: str, uid: int, tmp_path: Path) -> None:
    """With engine, Compose v2, buildx and base images it does nothing: on any system, and without root."""
    there = (ENGINE, RUNNING, COMPOSE, BUILDX, *IMAGES)
    assert engine(tmp_path, system, there, uid=uid) == (0, [], "")


@systems
def test_a_stopped_engine_is_started(system: str, tmp_path: Path) -> None:
    """An engine that is installed and not running is started; nothing is installed."""
    status, transcript, errors = engine(tmp_path, system, (ENGINE, COMPOSE, BUILDX, SYSTEMD, *IMAGES))
    assert (status, errors) == (0, "")
    assert transcript == ["==> Starting the Docker engine", "systemctl enable --now docker"]


def test_the_pid_file_of_a_killed_engine_is_no_obstacle(tmp_path: Path) -> None:
    """A pid file that names another program is removed: the engine would not start beside it."""
    (tmp_path / "var/run").mkdir(parents=True)
    (tmp_path / "var/run/docker.pid").write_text(str(os.getpid()))
    status, transcript, _ = engine(tmp_path, "ubuntu-24.04", (ENGINE, COMPOSE, BUILDX, *IMAGES))
    assert status == 0
    assert transcript == ["==> Starting the Docker engine", "dockerd"]


@systems
@pytest.mark.parametrize("missing", [COMPOSE, BUILDX])
def test_a_missing_plugin_is_installed(system: str, missing: str, tmp_path: Path) -> None:
    """An engine without Compose or buildx gets them; the engine that runs is not started again."""
    there = [file for file in (ENGINE, RUNNING, COMPOSE, BUILDX, *IMAGES) if file != missing]
    status, transcript, errors = engine(tmp_path, system, tuple(there))
    assert (status, errors) == (0, "")
    assert transcript == installs(system)


@pytest.mark.parametrize(
    ("system", "uid", "machine", "says"),
    [
        ("fedora-43", 0, "x86_64", "Debian 12/13 and Ubuntu 22.04/24.04 only, this is fedora-43: install Docker"),
        ("ubuntu-20.04", 0, "x86_64", "this is ubuntu-20.04: install Docker"),
        ("debian-11", 0, "x86_64", "this is debian-11: install Docker"),
        ("arch", 0, "x86_64", "this is arch-none: install Docker"),
        ("ubuntu-24.04", 1000, "x86_64", "installing it needs root: run this as root (sudo)"),
        ("fedora-43", 1000, "x86_64", "installing it needs root: run this as root (sudo)"),
        ("ubuntu-22.04", 0, "aarch64", "this machine is aarch64: use an x86-64 machine"),
    ],
)
def test_refusals(system: str, uid: int, machine: str, says: str, tmp_path: Path) -> None:
    """One line that says what to do, exit status 1, and nothing has been done."""
    status, transcript, errors = engine(tmp_path, system, uid=uid, machine=machine)
    assert (status, transcript) == (1, [])
    assert errors.startswith("fiveway: ")
    assert errors.count("\n") == 1, errors
    assert says in errors


def test_base_images_without_a_registry(tmp_path: Path) -> None:
    """Debian's keyring, new on Ubuntu, checks bookworm, and bookworm's own checks trixie; apt is announced here too."""
    there = (ENGINE, RUNNING, COMPOSE, BUILDX, "state/debootstrap")
    status, transcript, errors = engine(tmp_path, "ubuntu-22.04", there)
    assert (status, errors) == (0, "")
    packages = "debootstrap debian-archive-keyring"
    assert transcript == [
        "docker pull -q debian:bookworm-slim",
        "==> Making debian:bookworm-slim with debootstrap (no image registry can be reached)",
        f"==> Going to install with apt: {packages}",
        "DEBIAN_FRONTEND= apt-get -q update",
        f"DEBIAN_FRONTEND= apt-get -q install -y --no-install-recommends {packages}",
        f"debootstrap --variant=minbase --keyring={KEYRING} bookworm TMP",
        'docker import --change CMD ["bash"] - debian:bookworm-slim',
        "docker pull -q debian:trixie-slim",
        "==> Making debian:trixie-slim with debootstrap (no image registry can be reached)",
        "debootstrap --variant=minbase --keyring=TMP trixie TMP",
        'docker import --change CMD ["bash"] - debian:trixie-slim',
    ]


def test_a_keyring_that_is_too_old(tmp_path: Path) -> None:
    """What debootstrap says is shown, and the last line says what to do; no image is made."""
    there = (ENGINE, RUNNING, COMPOSE, BUILDX, "state/debootstrap", "state/unknown-key", KEYRING.lstrip("/"))
    status, transcript, errors = engine(tmp_path, "ubuntu-22.04", there)
    assert status == 1
    assert transcript[-1] == f"debootstrap --variant=minbase --keyring={KEYRING} bookworm TMP"
    assert errors.startswith("E: Release signed by unknown key\n")
    assert f"put Debian 12's keyring at {KEYRING}; or give Docker a registry" in errors.splitlines()[-1]
