"""What the stack costs on this machine, kept in results/<date>/<machine>/budgets.json: scripts/budgets."""

import hashlib
import json
import os
import re
import socket
import subprocess
import time
from datetime import datetime, timezone
from http.client import HTTPConnection
from pathlib import Path

from scripts.host import machine
from scripts.host.facts import hardware
from scripts.host.machine import Refusal, run, say

IDLE_S = 30
CPU_S = 60
ENGINE = "/var/run/docker.sock"
MIB = {"B": 2**-20, "KiB": 2**-10, "MiB": 1, "GiB": 2**10}


def tell(*command: str) -> str:
    """stdout of a program. Raises CalledProcessError."""
    return subprocess.run(command, cwd=machine.ROOT, capture_output=True, text=True, check=True).stdout.strip()


def layers_mb(store: Path) -> int:
    """The unique layers of the stack's own images. The engine keeps a layer's size under its chain id."""
    sizes: dict[str, int] = {}
    for image in set(tell("docker", "compose", "config", "--images").split()):
        chain = ""
        for digest in json.loads(tell("docker", "image", "inspect", "--format", "{{json .RootFS.Layers}}", image)):
            # sha256("<chain id of the layers below> <digest of the layer>")
            chain = f"sha256:{hashlib.sha256(f'{chain} {digest}'.encode()).hexdigest()}" if chain else digest
            sizes[chain] = int((store / chain.removeprefix("sha256:") / "size").read_text())
    return sum(sizes.values()) // 10**6


def memory_mib() -> dict[str, int]:
    """Of every container of the stack, by its name."""
    containers = tell("docker", "compose", "ps", "--quiet").split()
    said = tell("docker", "stats", "--no-stream", "--format", "{{.Name}} {{.MemUsage}}", *containers)
    found = re.findall(r"^(\S+) ([\d.]+)([KMG]?i?B) /", said, re.M)
    return {name: round(float(amount) * MIB[unit]) for name, amount, unit in sorted(found)}


def cpu_ns() -> int:
    """What all containers of the stack have used since each began, health checks too."""
    total = 0
    for container in tell("docker", "compose", "ps", "--quiet").split():
        engine = HTTPConnection("engine")
        engine.sock = socket.socket(socket.AF_UNIX)
        engine.sock.connect(ENGINE)
        engine.request("GET", f"/containers/{container}/stats?stream=false&one-shot=true")
        total += json.load(engine.getresponse())["cpu_stats"]["cpu_usage"]["total_usage"]
        engine.close()
    return total


def idle_cpu_percent() -> float:
    """Of one core, by all containers of the stack together, over CPU_S."""
    used, begin = cpu_ns(), time.monotonic()
    time.sleep(CPU_S)
    return round((cpu_ns() - used) / (time.monotonic() - begin) / 1e7, 1)


def main() -> int:
    if os.geteuid() != 0:
        raise Refusal("the engine's layer sizes need root: run this as root (sudo)")
    store = Path(tell("docker", "info", "--format", "{{.DockerRootDir}}"), "image/overlay2/layerdb/sha256")
    if not store.is_dir():
        why = "Docker 29 can keep images in containerd"
        raise Refusal(f"there are no layer sizes in {store} ({why}): use an engine with the overlay2 driver")
    say("Restarting the stack")
    run("docker", "compose", "down")
    begin = time.monotonic()
    run("docker", "compose", "up", "--detach", "--wait")
    start_s = time.monotonic() - begin
    say(f"Waiting {IDLE_S + CPU_S} s without load")
    time.sleep(IDLE_S)
    cpu, memory, here, now = idle_cpu_percent(), memory_mib(), hardware(), datetime.now(timezone.utc)
    budgets = {
        "schema": 1,
        "kind": "budgets",
        "date": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "commit": tell("git", "rev-parse", "HEAD"),
        "machine": here,
        "engine": tell("docker", "version", "--format", "{{.Server.Version}}"),
        "model": tell("docker", "compose", "exec", "-T", "jpeg-http", "cat", "/tmp/serving"),
        "images_unique_layers_mb": layers_mb(store),
        "start_to_healthy_s": round(start_s, 1),
        "idle_memory_mib": sum(memory.values()),
        "idle_memory_mib_by_container": memory,
        "idle_cpu_percent_of_a_core": cpu,
    }
    name = re.sub("[^a-z0-9]+", "-", "{cpu}-{cores}c-{memory_gib}g".format(**here).lower()).strip("-")
    file = machine.ROOT / "results" / f"{now:%Y-%m-%d}" / name / "budgets.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(budgets, indent=2, ensure_ascii=False) + "\n")
    say(str(file.relative_to(machine.ROOT)))
    print(file.read_text(), end="")
    return 0


if __name__ == "__main__":
    machine.verb(main)
