"""Whether this machine can run the stack, and what to do where it cannot: scripts/doctor."""

import functools
import json
import os
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from scripts.host import machine
from scripts.host.machine import ask, has, setting

OK, WARN, FAIL = "ok", "warn", "fail"
SYSTEMS = ("debian-12", "debian-13", "ubuntu-22.04", "ubuntu-24.04")
# The stack idles at 1.5 GB (docs/budgets.md); its model builder may take 4 GB.
MEMORY_LEAST_MIB, MEMORY_ENOUGH_MIB = 3500, 7500
VRAM_ENOUGH_MIB = 8000  # an estimate: three servers hold the model
# What the engine holds after a first build, build cache included, with room to spare. cpu: docs/budgets.md has the
# measured size. gpu: an estimate until it has been measured: those 15, Triton's image (15.5 GB unpacked:
# github.com/triton-inference-server/server/issues/7474, and about half of that again while it is pulled), and PyTorch
# with CUDA in two images and in the build cache.
DISK_NEEDED_GB = {"cpu": 15, "gpu": 60}
CAP_SYS_ADMIN = 21  # a machine's own root has it, a rented container has not
RENTALS = {"RUNPOD_POD_ID": " (a RunPod pod)", "VAST_CONTAINERLABEL": " (a Vast.ai instance)"}
# NVIDIA's data-center line; GeForce, RTX, Quadro and TITAN have no forward compatibility.
DATA_CENTER = re.compile(
    r"Tesla |(NVIDIA )?(A2|A10G?|A16|A30|A40|A100|A800|B100|B200|B300|GB200|GB300|GH200|H20|H100|H200|H800|L2|L4|L20"
    r"|L40S?|P4|P40|P100|T4|V100)([ -]|$)"
)


@dataclass(frozen=True)
class Finding:
    level: str
    subject: str
    found: str
    remedy: str | None = None


@dataclass(frozen=True)
class Gpu:
    """The first GPU, which Compose gives the stack; all of a machine share the driver."""

    name: str
    driver: str
    memory_mib: int
    capability: str  # empty where the driver does not say
    count: int

    @property
    def branch(self) -> int:
        return int(self.driver.partition(".")[0])


@dataclass(frozen=True)
class Release:
    """A row of scripts/triton-tags."""

    tag: str
    cuda: str
    driver: int
    capabilities: tuple[str, str]
    forward: tuple[str, ...]

    def misfit(self, gpu: Gpu) -> str | None:
        """Why this driver and GPU cannot run it; None where they can."""
        least, most = self.capabilities
        if gpu.capability and not _version(least) <= _version(gpu.capability) <= _version(most):
            return f"runs on compute capability {least}-{most}, this GPU has {gpu.capability}"
        if gpu.branch >= self.driver or (DATA_CENTER.match(gpu.name) and str(gpu.branch) in self.forward):
            return None
        return f"(CUDA {self.cuda}) needs driver {self.driver}, on a data-center GPU one of: {' '.join(self.forward)}"


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def releases() -> list[Release]:
    """The known ones, newest first."""
    rows = [
        line.split() for line in (machine.ROOT / "scripts/triton-tags").read_text().splitlines() if line[:1].isdigit()
    ]
    return [
        Release(tag, cuda, int(driver), (span.partition("-")[0], span.partition("-")[2]), tuple(forward))
        for tag, cuda, driver, span, *forward in rows
    ]


@functools.cache
def engine() -> str | None:
    """The version of the Docker engine that answers."""
    return ask("docker", "info", "--format", "{{.ServerVersion}}") or None


def needed_for_gpu() -> str:
    """What only a GPU stack needs is a failure where one is asked for, else a warning."""
    return FAIL if machine.accelerator() == "gpu" else WARN


def accelerator() -> Iterator[Finding]:
    if machine.accelerator() not in DISK_NEEDED_GB:
        yield Finding(FAIL, "accelerator", machine.accelerator(), "set ACCELERATOR to cpu or gpu")


def system() -> Iterator[Finding]:
    name, processor = machine.lib("os_id") or "unknown", platform.machine()
    here = f"{name}, {processor}"
    if processor != "x86_64":
        yield Finding(FAIL, "system", here, "use an x86-64 machine: the images are built for it alone")
    elif name in SYSTEMS:
        yield Finding(OK, "system", here)
    elif engine():
        yield Finding(OK, "system", f"{here}: scripts/up cannot install on it, but Docker is here")
    else:
        yield Finding(FAIL, "system", here, f"take one of {' '.join(SYSTEMS)}, or install Docker with Compose yourself")


def container() -> Iterator[Finding]:
    """Why Docker cannot run in here, in words."""
    kind = ask("systemd-detect-virt", "--container") or "none"
    marked = machine.exists("/.dockerenv") or machine.exists("/run/.containerenv")
    if kind == "none" and (marked or re.search("docker|kubepods|libpod|lxc", machine.read("/proc/1/cgroup"))):
        kind = "docker"
    rental = next((words for variable, words in RENTALS.items() if os.environ.get(variable)), "")
    if kind == "none" and not rental:
        yield Finding(OK, "machine", "its own: a VM or bare metal")
        return
    here = f"a container, {'docker' if kind == 'none' else kind}{rental}"
    allowed = re.search(r"^CapBnd:\s*(\w+)", machine.read("/proc/self/status"), re.M)
    if engine():
        yield Finding(OK, "machine", f"{here}, and Docker answers in it")
    elif allowed and int(allowed[1], 16) >> CAP_SYS_ADMIN & 1:
        yield Finding(WARN, "machine", f"{here}, with CAP_SYS_ADMIN", "Docker may start in it: try scripts/up")
    else:
        remedy = "rent a VM (a cloud's, or a VM template of Vast.ai), or measure without Docker: scripts/native"
        yield Finding(FAIL, "machine", f"{here}, not a machine: Docker cannot run inside it", remedy)


def size() -> Iterator[Finding]:
    cores = machine.cores()
    one = "the stack runs; to measure take 2 cores or more"
    yield Finding(OK, "cpu", f"{cores} cores") if cores > 1 else Finding(WARN, "cpu", "1 core", one)
    memory = (machine.number_after("MemTotal", machine.read("/proc/meminfo")) or 0) >> 10
    if memory < MEMORY_LEAST_MIB:
        remedy = "take a machine with 8 GB: the model builder alone may need 4"
        yield Finding(FAIL, "memory", f"{memory} MiB", remedy)
    elif memory < MEMORY_ENOUGH_MIB:
        yield Finding(WARN, "memory", f"{memory} MiB", "close what else runs; 8 GB are comfortable")
    else:
        yield Finding(OK, "memory", f"{memory} MiB")


def disk() -> Iterator[Finding]:
    folder = Path(ask("docker", "info", "--format", "{{.DockerRootDir}}") or "/var/lib/docker")
    while not folder.is_dir():
        folder = folder.parent
    free, needed = machine.free_gb(folder), DISK_NEEDED_GB.get(machine.accelerator(), 0)
    built = ("docker", "image", "inspect", "fiveway-triton", "fiveway-torchserve")
    if machine.accelerator() == "cpu" and ask(*built) is not None:
        yield Finding(OK, "disk", f"{free} GB free at {folder}, and the images are built")
    elif free >= needed:
        yield Finding(OK, "disk", f"{free} GB free at {folder}, the first build needs {needed}")
    else:
        remedy = f"the first build needs {needed} GB: free some, or give Docker another data-root"
        yield Finding(FAIL, "disk", f"too small: {folder} has {free} GB free", remedy)


def docker() -> Iterator[Finding]:
    install = "scripts/up installs it (with sudo)"
    if version := engine():
        yield Finding(OK, "docker", version)
    elif has("dockerd"):
        remedy = "run scripts/up with sudo: it starts the engine; or add yourself to the group docker"
        yield Finding(WARN, "docker", "installed, does not answer", remedy)
    else:
        yield Finding(WARN, "docker", "none", install)
    compose = (ask("docker", "compose", "version", "--short") or "none").removeprefix("v")
    if engine() and machine.lib("compose_works") is None:
        least = machine.lib('echo "$COMPOSE_MIN"')
        remedy = f"run scripts/engine with sudo, or install Compose {least} or newer and buildx"
        yield Finding(FAIL, "compose", f"{compose}: too old, or no buildx", remedy)
    elif compose == "none":
        yield Finding(WARN, "compose", compose, install)
    else:
        yield Finding(OK, "compose", compose)
    if machine.is_root():
        yield Finding(OK, "rights", "root")
    elif engine():
        yield Finding(OK, "rights", "not root, and Docker answers")
    elif has("sudo"):
        yield Finding(OK, "rights", "not root, sudo is here")
    else:
        remedy = "ask for root or sudo: Docker has to be installed or started"
        yield Finding(FAIL, "rights", "not root, no sudo, no Docker", remedy)


def ports() -> Iterator[Finding]:
    address = setting("BIND_ADDRESS", "127.0.0.1")
    published = (
        ("edge", "EDGE_PORT", setting("EDGE_PORT", "8080")),
        ("locust-master", "LOCUST_PORT", setting("LOCUST_PORT", "8089")),
    )
    for service, variable, port in published:
        ours = ask("docker", "compose", "ps", "--quiet", "--status", "running", service)
        if not ours and machine.listens(address.replace("0.0.0.0", "127.0.0.1"), int(port)):
            remedy = f"stop it, or set {variable} to a free port (in .env or: {variable}=18080 scripts/up)"
            yield Finding(FAIL, "port", f"{port} on {address} is taken by another program", remedy)
        else:
            yield Finding(OK, "port", f"{port} is free, or ours")


def first_gpu() -> Gpu | None:
    """What nvidia-smi says."""
    query = "--query-gpu=name,driver_version,memory.total"
    # A driver before 510 does not know compute_cap and refuses the whole query.
    said = ask("nvidia-smi", f"{query},compute_cap", "--format=csv") or ask("nvidia-smi", query, "--format=csv") or ""
    rows = said.splitlines()[1:]
    if not rows:
        return None
    name, driver, memory, *capability = [word.strip() for word in rows[0].split(",")]
    return Gpu(name, driver, int(memory.split()[0]), "".join(capability), len(rows))


def no_gpu() -> Finding:
    on_the_bus = machine.lib("nvidia_on_pci") is not None
    if machine.accelerator() == "cpu" and not on_the_bus:
        return Finding(OK, "gpu", "none, and ACCELERATOR=cpu needs none")
    if has("nvidia-smi"):
        remedy = "reboot, or install the driver for this kernel again (scripts/setup-vm --driver)"
        return Finding(needed_for_gpu(), "driver", "nvidia-smi is here and cannot reach the driver", remedy)
    if on_the_bus:
        remedy = "install it: sudo scripts/setup-vm --driver, then reboot"
        return Finding(needed_for_gpu(), "driver", "none, and an NVIDIA GPU is on the bus", remedy)
    return Finding(FAIL, "gpu", "none", "rent a machine with an NVIDIA GPU, or leave ACCELERATOR=cpu")


def newest_tag(gpu: Gpu) -> str | None:
    """The newest release of Triton that the driver runs."""
    return next((release.tag for release in releases() if not release.misfit(gpu)), None)


def triton(gpu: Gpu) -> Finding:
    wanted, newest = setting("TRITON_TAG", "25.06-py3"), newest_tag(gpu)
    known = {release.tag: release for release in releases()}
    if wanted not in known:
        fits = f", the newest that fits is {newest}" if newest else ""
        remedy = f"scripts/triton-tags has the known ones{fits}"
        return Finding(WARN, "triton", f"whether TRITON_TAG={wanted} fits is not known", remedy)
    why = known[wanted].misfit(gpu)
    if not why:
        return Finding(OK, "triton", f"TRITON_TAG={wanted} fits; the newest known that fits: {newest}")
    if newest:
        remedy = f"put TRITON_TAG={newest} into .env: the newest known tag that fits"
        return Finding(needed_for_gpu(), "triton", f"{wanted} {why}", remedy)
    remedy = "update the driver to 575 or newer, or take a machine image that has it: TRITON_TAG=25.06-py3 needs that"
    return Finding(needed_for_gpu(), "triton", f"no known tag fits driver {gpu.driver} with {gpu.name}", remedy)


def toolkit() -> Finding:
    known = engine() is None or '"nvidia"' in (ask("docker", "info", "--format", "{{json .Runtimes}}") or "")
    if not has("nvidia-ctk"):
        return Finding(needed_for_gpu(), "toolkit", "no NVIDIA container toolkit", "sudo scripts/setup-vm installs it")
    if not known and not machine.exists("/etc/cdi/nvidia*") and not machine.exists("/var/run/cdi/nvidia*"):
        remedy = "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
        return Finding(needed_for_gpu(), "toolkit", "installed, and Docker does not know it", remedy)
    return Finding(OK, "toolkit", (ask("nvidia-ctk", "--version") or "").partition("\n")[0].rpartition(" ")[2])


def gpu() -> Iterator[Finding]:
    found = first_gpu()
    if not found:
        yield no_gpu()
        return
    which = found.name + (f", compute capability {found.capability}" if found.capability else "")
    if machine.accelerator() == "cpu":
        which += ": not used, ACCELERATOR=gpu in .env would"
    elif found.count > 1:
        which += f": the first of {found.count}, the one that is used"
    yield Finding(OK, "gpu", which)
    yield Finding(OK, "driver", found.driver)
    remedy = "close what else uses the GPU: three servers hold the model (not measured yet)"
    enough = found.memory_mib >= VRAM_ENOUGH_MIB
    yield Finding(OK if enough else WARN, "vram", f"{found.memory_mib} MiB", None if enough else remedy)
    yield triton(found)
    yield toolkit()


CHECKS = (accelerator, system, container, size, disk, docker, ports, gpu)


def main() -> int:
    if sys.argv[1:2] == ["--refuse"]:  # scripts/up: what is in its way, by the names of checks
        for check in CHECKS:
            for one in check() if check.__name__ in sys.argv[2:] else ():
                if one.level == FAIL:
                    raise machine.Refusal(f"{one.subject} {one.found}: {one.remedy}")
        return 0
    findings = [one for check in CHECKS for one in check()]
    failed = any(one.level == FAIL for one in findings)
    if "--json" in sys.argv:
        there = first_gpu()
        about = {
            "ok": not failed,
            "accelerator": machine.accelerator(),
            "triton_tag": newest_tag(there) if there else None,
        }
        print(json.dumps({**about, "findings": [asdict(one) for one in findings]}, ensure_ascii=False))
    else:
        for one in findings:
            print(f"{one.level:<5} {one.subject:<9} {one.found}{f': {one.remedy}' if one.remedy else ''}")
    return int(failed)


if __name__ == "__main__":
    machine.verb(main)
