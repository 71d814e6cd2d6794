"""What scripts/doctor finds, machine by machine: what it would ask of this machine is answered here."""

import json
import os
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from scripts.host import doctor, machine

QUERY = "nvidia-smi --query-gpu=name,driver_version,memory.total"
ENGINE = {
    "docker info --format {{.ServerVersion}}": "28.1.1",
    "docker info --format {{json .Runtimes}}": '{"nvidia":{"path":"nvidia-container-runtime"},"runc":{}}',
    "docker compose version --short": "2.40.3",
    "compose_works": "",
    'echo "$COMPOSE_MIN"': "2.20",
}
READY = ENGINE | {"nvidia-ctk --version": "NVIDIA Container Toolkit CLI version 1.19.0\ncommit: 1"}
NO_CAPABILITIES = {"/proc/self/status": "CapBnd:\t00000000a80425fb\n", "/.dockerenv": ""}
AUTO_UPGRADES = {"/etc/apt/apt.conf.d/20auto-upgrades": 'APT::Periodic::Unattended-Upgrade "1";\n'}
ON_THE_BUS = {"nvidia_on_pci": ""}

Here = Callable[..., "Said"]


def smi(*gpus: str) -> dict[str, str]:
    """nvidia-smi's answer: name, driver, memory, and the compute capability unless the driver is too old to know it."""
    query = f"{QUERY},compute_cap" if gpus[0].count(",") == 3 else QUERY
    return {f"{query} --format=csv": "\n".join(["header", *gpus])}


# As people published it: A100, github.com/coenarrow/remote-physiology; H200 and B200, issues 3196 and 27487 of
# github.com/sgl-project/sglang; Quadro RTX, github.com/UWrc/UWrc.github.io. The other GPUs have NVIDIA's own numbers.
A100 = smi("NVIDIA A100-SXM4-40GB, 575.57.08, 40960 MiB, 8.0")
T4 = smi("Tesla T4, 575.57.08, 15360 MiB, 7.5")


class Said:
    """What it printed, and its exit status."""

    def __init__(self, status: int, out: str) -> None:
        self.status, self.json = status, json.loads(out)
        found = {one["subject"]: one for one in self.json["findings"]}
        self.levels = {subject: one["level"] for subject, one in found.items()}
        self.line = {name: f"{one['level']} {one['found']}: {one['remedy'] or ''}" for name, one in found.items()}


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """Run the doctor where programs and lib.sh give these answers; the rest is a VM with 8 cores and 64 GB."""

    def look(
        *answers: dict[str, str],
        system: str = "debian-13",
        processor: str = "x86_64",
        cores: int = 8,
        memory_mib: int = 64291,
        free_gb: int = 200,
        user: int = 0,
        taken: int = 0,
        programs: Sequence[str] = (),
        files: Mapping[str, str] = {},
        **settings: str,
    ) -> Said:
        said = {"os_id": system}
        for more in answers:
            said |= more
        there = {"/proc/self/status": "CapBnd:\t000001ffffffffff\n", **files}
        installed = {command.partition(" ")[0] for command in said} | set(programs)
        for module, name, answer in (
            (doctor, "ask", lambda *command: said.get(" ".join(command))),
            (doctor, "which", installed.__contains__),
            (doctor, "glob", there.__contains__),
            (machine, "lib", said.get),
            (machine, "read", lambda path: there.get(path, "")),
            (machine, "memory_mib", lambda: memory_mib),
            (machine, "free_gb", lambda _: free_gb),
            (machine, "listens", lambda _, port: port == taken),
            (os, "geteuid", lambda: user),
            (os, "sched_getaffinity", lambda _: range(cores)),
            (platform, "machine", lambda: processor),
            (sys, "argv", ["doctor", "--json"]),
        ):
            monkeypatch.setattr(module, name, answer)
        unset = "ACCELERATOR PRECISION TRITON_TAG RUNPOD_POD_ID VAST_CONTAINERLABEL EDGE_PORT LOCUST_PORT"
        for name in unset.split():
            monkeypatch.delenv(name, raising=False)
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        doctor.engine.cache_clear()
        return Said(doctor.main(), capsys.readouterr().out)

    return look


def test_a_machine_that_has_all(
    here: Here, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line per finding in a fixed order, all ok, and exit status 0; without --json the same as text."""
    said = here(READY, A100, ACCELERATOR="gpu")
    assert (said.status, said.json["ok"], set(said.levels.values())) == (0, True, {"ok"})
    subjects = "system machine cpu memory disk docker compose rights port gpu driver vram triton toolkit"
    assert " ".join(said.levels) == subjects
    assert said.line["toolkit"] == "ok 1.19.0: "
    monkeypatch.setattr(sys, "argv", ["doctor"])
    assert doctor.main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(said.levels) + 1  # two ports
    assert lines[0] == "ok    system    debian-13, x86_64"


@pytest.mark.parametrize("system", doctor.SYSTEMS)
def test_a_bare_machine_is_fit(here: Here, system: str) -> None:
    """Without Docker and without a GPU the remedy is scripts/up, which installs what is missing: no failure."""
    said = here(system=system)
    assert (said.status, said.json["triton_tag"]) == (0, None)
    assert {subject for subject, level in said.levels.items() if level != "ok"} == {"docker", "compose"}
    assert "scripts/up" in said.line["docker"]


@pytest.mark.parametrize(
    ("gpu", "tag", "level"),
    [
        (A100, "26.02-py3", "ok"),
        # Driver 550: by forward compatibility, which only data-center GPUs have.
        (smi(*["NVIDIA H200, 550.144.03, 143771 MiB, 9.0"] * 2), "26.02-py3", "ok"),
        # By CUDA 12's minor-version compatibility.
        (smi(*["NVIDIA GeForce RTX 4090, 535.230.02, 24564 MiB, 8.9"] * 2), "25.06-py3", "warn"),
        (smi("NVIDIA GeForce RTX 4090, 515.65.01, 24564 MiB, 8.9"), None, "fail"),
        (smi("NVIDIA GeForce RTX 4090, 580.159.03, 24564 MiB, 8.9"), "25.08-py3", "ok"),
        (smi("NVIDIA B200, 610.43.02, 183359 MiB, 10.0"), "26.02-py3", "ok"),
        # This driver answers the first query: Field "compute_cap" is not a valid field to query.
        (smi("Quadro RTX 6000, 470.57.02, 24220 MiB"), None, "fail"),
        (smi("NVIDIA GeForce RTX 4090, 570.133.07, 24564 MiB, 8.9"), "25.03-py3", "warn"),
        (smi("NVIDIA GeForce RTX 4090, 565.57.01, 24564 MiB, 8.9"), "24.10-py3", "warn"),
        (smi("NVIDIA RTX A6000, 565.57.01, 24564 MiB, 8.6"), "24.10-py3", "warn"),
        (smi("NVIDIA A10G, 535.183.01, 24564 MiB, 8.6"), "26.02-py3", "ok"),
        (smi("Tesla T4, 570.133.07, 24564 MiB, 7.5"), "26.02-py3", "ok"),
        # Too old for Triton of 2025 on.
        (smi("Tesla V100-SXM2-16GB, 550.54.15, 24564 MiB, 7.0"), "24.10-py3", "fail"),
        (smi("NVIDIA L40S, 560.35.03, 24564 MiB, 8.9"), "25.06-py3", "ok"),
    ],
)
def test_the_triton_tag(here: Here, gpu: dict[str, str], tag: str | None, level: str) -> None:
    """The newest that the driver runs, in the remedy where another is set; none: a newer driver. A warning on a CPU."""
    said = here(READY, gpu, ACCELERATOR="gpu")
    assert (said.json["triton_tag"], said.levels["triton"], said.status) == (tag, level, level == "fail")
    other = tag and tag != "25.06-py3"
    assert (f"TRITON_TAG={tag} into .env" if other else "update the driver") in said.line["triton"] or level == "ok"
    if other:
        assert here(READY, gpu, ACCELERATOR="gpu", TRITON_TAG=tag).levels["triton"] == "ok"
    unused = here(READY, gpu)
    assert (unused.status, unused.levels["triton"]) == (0, "ok" if level == "ok" else "warn")
    assert "not used" in unused.line["gpu"]


@pytest.mark.parametrize(
    ("answers", "options", "subject", "says"),
    [
        # What a GPU needs.
        (ENGINE | ON_THE_BUS, {}, "driver", "fail none, and an NVIDIA GPU is on the bus: install it"),
        (ENGINE | ON_THE_BUS, {"programs": ["nvidia-smi"]}, "driver", "fail nvidia-smi is here and cannot reach"),
        (ENGINE, {}, "gpu", "fail none: rent a machine"),
        (
            ENGINE | ON_THE_BUS | {"mokutil --sb-state": "SecureBoot enabled"},
            {"programs": ["nvidia-smi"]},
            "driver",
            "fail nvidia-smi is here and cannot reach the driver: Secure Boot is on",
        ),
        (READY | A100 | {"docker info --format {{.CgroupDriver}}": "systemd"}, {}, "reload", "warn a systemctl"),
        (READY | A100, {"files": AUTO_UPGRADES}, "upgrades", "warn unattended-upgrades may change"),
        (ENGINE | A100, {}, "toolkit", "fail no NVIDIA container toolkit"),
        (READY | {"docker info --format {{json .Runtimes}}": "{}"} | A100, {}, "toolkit", "fail installed, and"),
        (READY | A100, {"TRITON_TAG": "27.01"}, "triton", "warn whether TRITON_TAG=27.01 fits is not known: "),
        # Containers.
        ({}, {"files": NO_CAPABILITIES}, "machine", "fail a container, docker, not a machine"),
        ({}, {"files": NO_CAPABILITIES, "RUNPOD_POD_ID": "1"}, "machine", "fail a container, docker (a RunPod"),
        ({}, {"files": NO_CAPABILITIES, "VAST_CONTAINERLABEL": "1"}, "machine", "fail a container, docker (a Vast.ai"),
        ({}, {"files": {**NO_CAPABILITIES, "/.dockerenv": "", "/proc/1/cgroup": "/kubepods/1"}}, "machine", "fail"),
        (ENGINE, {"files": NO_CAPABILITIES}, "machine", "ok a container, docker, and Docker answers in it"),
        ({"systemd-detect-virt --container": "lxc"}, {}, "machine", "warn a container, lxc, with CAP_SYS_ADMIN"),
        # The rest.
        ({}, {"cores": 1}, "cpu", "warn 1 core"),
        ({}, {"memory_mib": 1967}, "memory", "fail 1967 MiB"),
        ({}, {"memory_mib": 4896}, "memory", "warn 4896 MiB"),
        ({}, {"free_gb": 14}, "disk", "fail too small: "),
        ({}, {"processor": "aarch64"}, "system", "fail debian-13, aarch64: use an x86-64 machine"),
        ({}, {"system": "fedora-43"}, "system", "fail fedora-43, x86_64: take one of debian-12"),
        (ENGINE, {"system": "fedora-43"}, "system", "ok fedora-43"),
        ({}, {"user": 1000}, "rights", "fail not root, no sudo, no Docker"),
        ({}, {"user": 1000, "programs": ["sudo"]}, "rights", "ok not root, sudo"),
        (ENGINE, {"user": 1000}, "rights", "ok not root, and Docker"),
        ({}, {"programs": ["dockerd"]}, "docker", "warn installed, does not answer"),
        ({name: said for name, said in ENGINE.items() if name != "compose_works"}, {}, "compose", "fail 2.40"),
        ({}, {"ACCELERATOR": "tpu"}, "accelerator", "fail tpu: set ACCELERATOR"),
        ({}, {"PRECISION": "fp8"}, "precision", "fail fp8: set PRECISION to one of fp32 tf32 fp16"),
        ({}, {"PRECISION": "tf32"}, "precision", "fail tf32 without a GPU: leave PRECISION out"),
        (T4, {"PRECISION": "tf32", "ACCELERATOR": "gpu"}, "precision", "fail tf32 on compute capability 7.5: set"),
        ({}, {"OTLP_ENDPOINT": "https://a.b:4318"}, "traces", "fail https://a.b:4318: set OTLP_ENDPOINT to http://HOST"),
        ({}, {"taken": 8089}, "port", "fail 8089 on 127.0.0.1 is taken"),
        ({}, {"BIND_ADDRESS": "10.0.0.5"}, "address", "fail BIND_ADDRESS=10.0.0.5 lets in everybody"),
    ],
)  # fmt: skip
def test_other_findings(here: Here, answers: dict[str, str], options: dict[str, Any], subject: str, says: str) -> None:
    """Each with its remedy; a failure ends in exit status 1. A missing GPU requirement is not a failure with
    ACCELERATOR=cpu."""
    needs_gpu = {"ACCELERATOR": "gpu"} if subject in ("driver", "gpu", "toolkit", "triton") else {}
    said = here(answers, **needs_gpu | options)
    assert said.line[subject].startswith(says)
    assert said.status == (said.levels[subject] == "fail")
    assert said.line[subject].endswith(": ") == (said.levels[subject] == "ok")  # no remedy
    if needs_gpu:
        assert here(answers, **options).status == 0


ENV = """# a comment
ACCELERATOR="gpu"
export MODEL='a "b" \\c'   # why
TRITON_TAG=25.06-py3 # which
EDGE_PORT=1
EDGE_PORT = 18080
CPUS=
RESULTS="a\\"b#c"
"""


@pytest.mark.parametrize("compose", [True, False])
def test_the_settings_of_env(compose: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """.env says the same with quotes, comments and `export`, whether Compose is here to be asked or not."""
    names = ("ACCELERATOR", "MODEL", "TRITON_TAG", "EDGE_PORT", "CPUS", "RESULTS")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".env").write_text(ENV)
    monkeypatch.setattr(machine, "ENV", tmp_path / ".env")
    asked: list[str | None] = []
    ask = machine.ask

    def noted(*command: str, send: str = "") -> str | None:
        asked.append(ask(*command, send=send) if compose else None)
        return asked[-1]

    monkeypatch.setattr(machine, "ask", noted)
    machine.env_file.cache_clear()
    found = [machine.setting(name, "default") for name in names]
    assert found == ["gpu", 'a "b" \\c', "25.06-py3", "18080", "default", 'a"b#c']
    assert (asked != [None]) == compose
    monkeypatch.setenv("ACCELERATOR", "cpu")
    assert machine.setting("ACCELERATOR", "") == "cpu"
    machine.env_file.cache_clear()
