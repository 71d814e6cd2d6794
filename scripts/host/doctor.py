"""Whether this machine can run the stack, and what to do where it cannot: scripts/doctor."""

import json
import os
import platform
import re
import sys
from collections.abc import Iterator
from functools import cache, partial
from glob import glob
from pathlib import Path
from shutil import which
from typing import NamedTuple

from scripts.host import machine
from scripts.host.machine import ask, setting

OK, WARN, FAIL = "ok", "warn", "fail"
SYSTEMS = ("debian-12", "debian-13", "ubuntu-22.04", "ubuntu-24.04")
# The stack idles at 1.3 to 1.8 GB (docs/performance.md); its model builder may take 4 GB.
MEMORY_LEAST_MIB, MEMORY_ENOUGH_MIB = 3500, 7500
VRAM_ENOUGH_MIB = 8000  # an estimate: three servers hold the model
# Disk space of the engine after a first build, build cache included, with room to spare. cpu: docs/performance.md has
# the measured size. gpu: an estimate until it has been measured: those 15, Triton's image (15.5 GB unpacked:
# github.com/triton-inference-server/server/issues/7474, and about half of that again while it is pulled), and PyTorch
# with CUDA in two images and in the build cache.
DISK_NEEDED_GB = {"cpu": 15, "gpu": 60}
PRECISIONS = ("fp32", "tf32", "fp16")
TF32_CAPABILITY = 8.0  # Ampere: older GPUs multiply in FP32 whatever they are told
CAP_SYS_ADMIN = 21  # a machine's own root has it, a rented container has not
RENTALS = {"RUNPOD_POD_ID": " (a RunPod pod)", "VAST_CONTAINERLABEL": " (a Vast.ai instance)"}
# NVIDIA's data-center line; GeForce, RTX, Quadro and TITAN have no forward compatibility.
DATA_CENTER = re.compile(
    r"Tesla |(NVIDIA )?(A2|A10G?|A16|A30|A40|A100|A800|B100|B200|B300|GB200|GB300|GH200|H20|H100|H200|H800|L2|L4|L20"
    r"|L40S?|P4|P40|P100|T4|V100)([ -]|$)"
)


# Any CUDA 12 release runs on this driver branch or a newer one, "with limited feature-set": code that the driver would
# have to compile (PTX) may fail. docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
MINOR_DRIVER = 525
USUALLY = f"usually runs: CUDA 12's minor versions are compatible from driver {MINOR_DRIVER} on"


class Finding(NamedTuple):
    level: str
    subject: str
    found: str
    remedy: str | None = None


ok, warn, fail = (partial(Finding, level) for level in (OK, WARN, FAIL))


class Gpu(NamedTuple):
    """The first GPU, which Compose gives the stack; all of a machine share the driver."""

    name: str
    driver: str
    memory_mib: int
    capability: str  # empty where the driver does not say
    gpus: int


def misfits(gpu: Gpu) -> dict[str, str]:
    """Why this driver and GPU cannot run a release of Triton, by its tag, newest first; empty where they can, USUALLY
    where that is not certain."""
    why, branch = {}, gpu.driver.partition(".")[0]
    for line in (machine.ROOT / "scripts/triton-tags").read_text().splitlines():
        if not line[:1].isdigit():
            continue
        tag, cuda, driver, span, *forward = line.split()
        least, most = map(float, span.split("-"))
        if gpu.capability and not least <= float(gpu.capability) <= most:
            why[tag] = f"runs on compute capability {span}, this GPU has {gpu.capability}"
        elif int(branch) >= int(driver) or (DATA_CENTER.match(gpu.name) and branch in forward):
            why[tag] = ""
        elif cuda.startswith("12.") and int(branch) >= MINOR_DRIVER:
            why[tag] = USUALLY
        else:
            why[tag] = f"(CUDA {cuda}) needs driver {driver}, on a data-center GPU one of: {' '.join(forward)}"
    return why


@cache
def engine() -> str | None:
    """The version of the Docker engine that answers."""
    return ask("docker", "info", "--format", "{{.ServerVersion}}") or None


def for_gpu(subject: str, found: str, remedy: str) -> Finding:
    """A missing GPU requirement is a failure with ACCELERATOR=gpu, else a warning."""
    return Finding(FAIL if machine.accelerator() == "gpu" else WARN, subject, found, remedy)


def accelerator() -> Iterator[Finding]:
    if machine.accelerator() not in DISK_NEEDED_GB:
        yield fail("accelerator", machine.accelerator(), "set ACCELERATOR to cpu or gpu")


def precision() -> Iterator[Finding]:
    wanted = setting("PRECISION", "fp32")
    if wanted not in PRECISIONS:
        yield fail("precision", wanted, f"set PRECISION to one of {' '.join(PRECISIONS)}")
    elif wanted != "fp32" and machine.accelerator() != "gpu":
        yield fail("precision", f"{wanted} without a GPU", "leave PRECISION out: on a CPU all engines compute in FP32")
    elif wanted == "tf32" and (gpu := first_gpu()) and float(gpu.capability or TF32_CAPABILITY) < TF32_CAPABILITY:
        yield fail("precision", f"tf32 on compute capability {gpu.capability}", "set PRECISION to fp32 or fp16")


def traces() -> Iterator[Finding]:
    endpoint = setting("OTLP_ENDPOINT", "")
    if endpoint and not re.fullmatch(r"http://[A-Za-z0-9._-]+:[0-9]+", endpoint):  # as compose/envoy/run
        yield fail("traces", endpoint, "set OTLP_ENDPOINT to http://HOST:PORT (docs/metrics.md)")


def system() -> Iterator[Finding]:
    name, processor = machine.lib("os_id") or "unknown", platform.machine()
    here = f"{name}, {processor}"
    if processor != "x86_64":
        yield fail("system", here, "use an x86-64 machine: the images are built for it alone")
    elif name in SYSTEMS:
        yield ok("system", here)
    elif engine():
        yield ok("system", f"{here}: scripts/up cannot install on it, but Docker is here")
    else:
        yield fail("system", here, f"take one of {' '.join(SYSTEMS)}, or install Docker with Compose yourself")


def container() -> Iterator[Finding]:
    """Why Docker cannot run in here, in words."""
    kind = ask("systemd-detect-virt", "--container") or "none"
    marked = glob("/.dockerenv") or glob("/run/.containerenv")
    if kind == "none" and (marked or re.search("docker|kubepods|libpod|lxc", machine.read("/proc/1/cgroup"))):
        kind = "docker"
    rental = next((words for variable, words in RENTALS.items() if os.environ.get(variable)), "")
    if kind == "none" and not rental:
        yield ok("machine", "its own: a VM or bare metal")
        return
    here = f"a container, {'docker' if kind == 'none' else kind}{rental}"
    allowed = re.search(r"^CapBnd:\s*(\w+)", machine.read("/proc/self/status"), re.M)
    if engine():
        yield ok("machine", f"{here}, and Docker answers in it")
    elif allowed and int(allowed[1], 16) >> CAP_SYS_ADMIN & 1:
        yield warn("machine", f"{here}, with CAP_SYS_ADMIN", "Docker may start in it: try scripts/up")
    else:
        remedy = "rent a VM (a cloud's, or a VM template of Vast.ai), or measure without Docker: scripts/native"
        yield fail("machine", f"{here}, not a machine: Docker cannot run inside it", remedy)


def size() -> Iterator[Finding]:
    cores, memory = len(os.sched_getaffinity(0)), machine.memory_mib()
    one = warn("cpu", "1 core", "the stack runs; to measure take 2 cores or more")
    yield ok("cpu", f"{cores} cores") if cores > 1 else one
    if memory < MEMORY_LEAST_MIB:
        yield fail("memory", f"{memory} MiB", "take a machine with 8 GB: the model builder alone may need 4")
    elif memory < MEMORY_ENOUGH_MIB:
        yield warn("memory", f"{memory} MiB", "close what else runs; 8 GB are comfortable")
    else:
        yield ok("memory", f"{memory} MiB")


def disk() -> Iterator[Finding]:
    folder = Path(ask("docker", "info", "--format", "{{.DockerRootDir}}") or "/var/lib/docker")
    while not folder.is_dir():
        folder = folder.parent
    free, needed = machine.free_gb(folder), DISK_NEEDED_GB.get(machine.accelerator(), 0)
    # As know_registry of scripts/lib.sh names them.
    registry = machine.setting("IMAGE_REGISTRY", "")
    tag = (machine.setting("IMAGE_TAG", "") or f"v{machine.read('VERSION').strip()}") if registry else "local"
    images = (f"{registry}fiveway-{name}:{tag}" for name in ("triton", "torchserve"))
    if machine.accelerator() == "cpu" and ask("docker", "image", "inspect", *images) is not None:
        yield ok("disk", f"{free} GB free at {folder}, and the images are there")
    elif free >= needed:
        yield ok("disk", f"{free} GB free at {folder}, the first build needs {needed}")
    else:
        remedy = f"the first build needs {needed} GB: free some, or give Docker another data-root"
        yield fail("disk", f"too small: {folder} has {free} GB free", remedy)


def docker() -> Iterator[Finding]:
    version, install = engine(), "scripts/up installs it (with sudo)"
    if version:
        yield ok("docker", version)
    elif which("dockerd"):
        remedy = "run scripts/up with sudo: it starts the engine; or add yourself to the group docker"
        yield warn("docker", "installed, does not answer", remedy)
    else:
        yield warn("docker", "none", install)
    compose = (ask("docker", "compose", "version", "--short") or "none").removeprefix("v")
    if version and machine.lib("compose_works") is None:
        least = machine.lib('echo "$COMPOSE_MIN"')
        remedy = f"run scripts/engine with sudo, or install Compose {least} or newer and buildx"
        yield fail("compose", f"{compose}: too old, or no buildx", remedy)
    else:
        yield warn("compose", compose, install) if compose == "none" else ok("compose", compose)
    if os.geteuid() == 0:
        yield ok("rights", "root")
    elif version or which("sudo"):
        yield ok("rights", f"not root, {'and Docker answers' if version else 'sudo is here'}")
    else:
        yield fail(
            "rights", "not root, no sudo, no Docker", "ask for root or sudo: Docker has to be installed or started"
        )


def ports() -> Iterator[Finding]:
    address = setting("BIND_ADDRESS", "127.0.0.1")
    loopback = address.startswith("127.") or address in ("localhost", "::1", "[::1]")
    if not loopback and not setting("API_KEY", "") and setting("OPEN_TO_ANYONE", "") != "yes":  # as compose/envoy/run
        remedy = "set API_KEY too, or OPEN_TO_ANYONE=yes if that is meant (SECURITY.md)"
        yield fail("address", f"BIND_ADDRESS={address} lets in everybody who reaches it, without a password", remedy)
    published = (
        ("edge", "EDGE_PORT", setting("EDGE_PORT", "8080"), address),
        ("locust-master", "LOCUST_PORT", setting("LOCUST_PORT", "8089"), "127.0.0.1"),
    )
    for service, variable, port, address in published:
        ours = ask("docker", "compose", "ps", "--quiet", "--status", "running", service)
        if not ours and machine.listens(address.replace("0.0.0.0", "127.0.0.1"), int(port)):
            remedy = f"stop it, or set {variable} to a free port (in .env or: {variable}=18080 scripts/up)"
            yield fail("port", f"{port} on {address} is taken by another program", remedy)
        else:
            yield ok("port", f"{port} is free, or ours")


def first_gpu() -> Gpu | None:
    """What nvidia-smi says."""
    query = "--query-gpu=name,driver_version,memory.total"
    # A driver before 510 does not know compute_cap and refuses the whole query.
    said = ask("nvidia-smi", f"{query},compute_cap", "--format=csv") or ask("nvidia-smi", query, "--format=csv") or ""
    rows = said.splitlines()[1:]
    if not rows:
        return None
    name, driver, memory, *capability = rows[0].split(", ")
    return Gpu(name, driver, int(memory.split()[0]), "".join(capability), len(rows))


def no_gpu() -> Finding:
    on_the_bus = machine.lib("nvidia_on_pci") is not None
    if machine.accelerator() == "cpu" and not on_the_bus:
        return ok("gpu", "none, and ACCELERATOR=cpu needs none")
    if which("nvidia-smi"):
        remedy = "reboot, or install the driver for this kernel again (scripts/setup-vm --driver)"
        if "enabled" in (ask("mokutil", "--sb-state") or ""):
            remedy = (
                "Secure Boot is on, and a driver built here (DKMS) loads once its key is enrolled: sudo mokutil"
                " --import /var/lib/dkms/mok.pub, reboot, confirm; or turn Secure Boot off"
            )
        return for_gpu("driver", "nvidia-smi is here and cannot reach the driver", remedy)
    if on_the_bus:
        remedy = "install it: sudo scripts/setup-vm --driver, then reboot"
        return for_gpu("driver", "none, and an NVIDIA GPU is on the bus", remedy)
    return fail("gpu", "none", "rent a machine with an NVIDIA GPU, or leave ACCELERATOR=cpu")


def newest_tag(gpu: Gpu) -> str | None:
    """The newest release of Triton that the driver runs, or usually runs."""
    why = misfits(gpu)
    return next((tag for fit in ("", USUALLY) for tag in why if why[tag] == fit), None)


def triton(gpu: Gpu) -> Finding:
    wanted, newest, why = setting("TRITON_TAG", "25.06-py3"), newest_tag(gpu), misfits(gpu)
    if wanted not in why:
        remedy = "scripts/triton-tags has the known ones" + (f", the newest that fits is {newest}" if newest else "")
        return warn("triton", f"whether TRITON_TAG={wanted} fits is not known", remedy)
    if not why[wanted]:
        return ok("triton", f"TRITON_TAG={wanted} fits; the newest known that fits: {newest}")
    if why[wanted] == USUALLY:
        surely = "" if not newest or why[newest] else f", or put TRITON_TAG={newest} into .env, which certainly does"
        return warn("triton", f"{wanted} {USUALLY}", f"if Triton does not start, update the driver{surely}")
    if newest:
        remedy = f"put TRITON_TAG={newest} into .env: the newest known tag that fits"
        return for_gpu("triton", f"{wanted} {why[wanted]}", remedy)
    remedy = "update the driver to 575 or newer, or take a machine image that has it: TRITON_TAG=25.06-py3 needs that"
    return for_gpu("triton", f"no known tag fits driver {gpu.driver} with {gpu.name}", remedy)


def toolkit() -> Finding:
    known = engine() is None or '"nvidia"' in (ask("docker", "info", "--format", "{{json .Runtimes}}") or "")
    if not which("nvidia-ctk"):
        return for_gpu("toolkit", "no NVIDIA container toolkit", "sudo scripts/setup-vm installs it")
    if not known and not glob("/etc/cdi/nvidia*") and not glob("/var/run/cdi/nvidia*"):
        remedy = "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"
        return for_gpu("toolkit", "installed, and Docker does not know it", remedy)
    return ok("toolkit", (ask("nvidia-ctk", "--version") or "").partition("\n")[0].rpartition(" ")[2])


def gpu() -> Iterator[Finding]:
    found = first_gpu()
    if not found:
        yield no_gpu()
        return
    which_one = found.name + (f", compute capability {found.capability}" if found.capability else "")
    if machine.accelerator() == "cpu":
        which_one += ": not used, ACCELERATOR=gpu in .env would"
    elif found.gpus > 1:
        which_one += f": the first of {found.gpus}, the one that is used"
    yield ok("gpu", which_one)
    yield ok("driver", found.driver)
    remedy = "close what else uses the GPU: three servers hold the model (not measured yet)"
    memory = ("vram", f"{found.memory_mib} MiB")
    yield ok(*memory) if found.memory_mib >= VRAM_ENOUGH_MIB else warn(*memory, remedy)
    yield triton(found)
    yield toolkit()
    yield from later_losses()


def later_losses() -> Iterator[Finding]:
    """What takes the GPU from a stack that runs."""
    if ask("docker", "info", "--format", "{{.CgroupDriver}}") == "systemd":
        remedy = (
            "restart the stack after one, or set native.cgroupdriver=cgroupfs in /etc/docker/daemon.json"
            " (github.com/NVIDIA/nvidia-container-toolkit/issues/1227)"
        )
        yield warn("reload", "a systemctl daemon-reload can take the GPU from running containers", remedy)
    if 'Unattended-Upgrade "1"' in machine.read("/etc/apt/apt.conf.d/20auto-upgrades"):
        remedy = "while you measure: sudo systemctl disable --now unattended-upgrades"
        yield warn("upgrades", "unattended-upgrades may change the kernel or the driver under a running stack", remedy)


CHECKS = (accelerator, precision, traces, system, container, size, disk, docker, ports, gpu)


def refuse(*names: str) -> None:
    """Raise Refusal for the first failure among these checks."""
    for one in (one for check in CHECKS if check.__name__ in names for one in check()):
        if one.level == FAIL:
            raise machine.Refusal(f"{one.subject} {one.found}: {one.remedy}")


def main() -> int:
    if sys.argv[1:2] == ["--refuse"]:  # for scripts/up
        refuse(*sys.argv[2:])
        return 0
    findings = [one for check in CHECKS for one in check()]
    failed = any(one.level == FAIL for one in findings)
    if "--json" in sys.argv:
        tag = (there := first_gpu()) and newest_tag(there)
        about = {"ok": not failed, "accelerator": machine.accelerator(), "triton_tag": tag}
        print(json.dumps({**about, "findings": [one._asdict() for one in findings]}, ensure_ascii=False))
    else:
        for one in findings:
            print(f"{one.level:<5} {one.subject:<9} {one.found}{f': {one.remedy}' if one.remedy else ''}")
    return int(failed)


if __name__ == "__main__":
    machine.verb(main)
