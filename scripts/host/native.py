"""scripts/native: the JPEG server and the light Triton as plain processes, then the 5-way comparison over their
routes."""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from scripts.host import doctor, machine
from scripts.host.facts import facts
from scripts.host.machine import ROOT, Refusal, Usage, ask, run, say, setting

ROUTES = ("jpeg-http", "onnx-http", "onnx-grpc", "trt-http", "trt-grpc")
# Options of `scripts/bench fiveway` that go on to it, and those that are answered here.
PASSED = (
    "--quick", "--batches", "--concurrency", "--photo", "--policy", "--client", "--rate", "--method",
    "--price-per-hour", "--distance", "--blocks", "--seconds", "--seed",
)  # fmt: skip
ANSWERED = ("--target", "--host", "--results")
NATIVE = ROOT / "out" / "native"
LOGS = NATIVE / "logs"
GLIBC = (2, 35)
DISK_GB = 12  # both environments, uv's copy of their wheels, the artefacts (docs/gpu.md), with room to spare
SHM_MB = 200
START_S = 1800  # TensorRT builds its engines before Triton opens its ports
DEVICES = {"cpu": "cpu", "gpu": "cuda"}


class Arguments(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Usage(message)


def arguments(given: Sequence[str]) -> tuple[bool, list[str], list[str]]:
    """(dry run, routes, options of the bench). Raises Usage."""
    parser = Arguments(allow_abbrev=False)
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--routes", default=",".join(ROUTES))
    ours, options = parser.parse_known_args(given)
    for name in (word.partition("=")[0] for word in options if word.startswith("-")):
        if name in ANSWERED:
            raise Usage(f"{name} is not for scripts/native: it calls the servers; RESULTS says where results go")
        if name not in PASSED:
            raise Usage(f"unknown option {name}: choose from --dry-run --routes {' '.join(PASSED)}")
    routes = ours.routes.split(",")
    if unknown := [route for route in routes if route not in ROUTES]:
        raise Usage(f"{unknown[0]} does not run without Docker: choose from {' '.join(ROUTES)}")
    return ours.dry_run, routes, options


def check(ports: Sequence[int]) -> str:
    """The device. Missing requirements are reported before anything is downloaded. Raises Refusal."""
    accelerator = machine.accelerator()
    if accelerator not in DEVICES:
        raise Refusal(f"ACCELERATOR is {accelerator}: set cpu or gpu")
    doctor.refuse("precision")
    if platform.machine() != "x86_64":
        raise Refusal(f"this is {platform.machine()}: Triton's build on PyPI is for x86-64 only")
    glibc = platform.libc_ver()[1] or "0"
    if tuple(map(int, glibc.split("."))) < GLIBC:
        raise Refusal(f"glibc here is {glibc}: Triton's build needs 2.35 or newer (Debian 12, Ubuntu 22.04)")
    if setting("MODEL_REPOSITORY", "/dev/null") != "/dev/null":
        raise Refusal("MODEL_REPOSITORY is for the stack: unset it, and choose a MODEL")
    gpu = ask("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    if accelerator == "gpu" and not gpu:
        raise Refusal("ACCELERATOR is gpu and nvidia-smi shows no GPU: rent one with a GPU, or set ACCELERATOR=cpu")
    if accelerator == "cpu" and gpu is not None:
        say("There is a GPU, and ACCELERATOR=cpu: ACCELERATOR=gpu would measure it")
    free = machine.free_gb(ROOT)
    if not NATIVE.exists() and free < DISK_GB:
        raise Refusal(f"{free} GB are free here: about {DISK_GB} are needed")
    shm = shutil.disk_usage("/dev/shm").free >> 20 if Path("/dev/shm").is_dir() else 0
    if shm < SHM_MB:
        say(f"/dev/shm has {shm} MB: large batches may fail, the image has 256 (docker run --shm-size)")
    for port in ports:
        if machine.listens("127.0.0.1", port):
            free_it = "end what listens there, or set NATIVE_PORT to the first of four free ones"
            raise Refusal(f"port {port} is taken: {free_it}")
    return DEVICES[accelerator]


def find_uv() -> str:
    """uv, which fetches a Python where the system has none that fits; installed here where it is not on the PATH."""
    if found := shutil.which("uv"):
        return found
    folder = NATIVE / "uv"
    if not (folder / "bin/uv").exists():
        if ask(sys.executable, "-m", "venv", str(folder)) is None:
            raise Refusal("python3 -m venv does not work: apt-get install python3-venv, or put uv on the PATH")
        lock = "requirements/native-uv.txt"
        run(str(folder / "bin/python"), "-m", "pip", "install", "--no-deps", "--require-hashes", "-r", lock)
    return str(folder / "bin/uv")


def environment(uv: str, name: str, pythons: str, lock: str) -> Path:
    """A virtual environment of a lock, made anew when the lock has changed. Raises Refusal."""
    folder, source = NATIVE / name, (ROOT / lock).read_bytes()
    done, wanted = folder / "lock", hashlib.sha256(source).hexdigest()
    if done.exists() and done.read_text() == wanted:
        return folder
    say(f"Installing {lock} (gigabytes, the first time)")
    made = subprocess.run([uv, "venv", "--quiet", "--clear", "--python", pythons, folder], cwd=ROOT, check=False)
    if made.returncode != 0:
        remedy = "install one (apt-get install python3.12 libpython3.12 where the system has it)"
        raise Refusal(f"no Python {pythons} here, and uv could not fetch one from GitHub: {remedy}")
    # Compiled here, so that not every process does it again.
    how = ("--quiet", "--no-deps", "--require-hashes", "--compile-bytecode", "--python", str(folder / "bin/python"))
    run(uv, "pip", "install", *how, "-r", lock)
    if name == "triton":
        lay_out(folder)
    done.write_text(wanted)
    return folder


def lay_out(folder: Path) -> None:
    """As servers/triton/layout in the image: this Python's stub, its library where the server looks, our backend."""
    about = "sysconfig.get_path('purelib'), '%d.%d' % sys.version_info[:2], sys.base_prefix, sep='\\n'"
    said = ask(str(folder / "bin/python"), "-c", f"import sys, sysconfig; print({about})")
    site, version, prefix = (said or "").splitlines()
    library = next(Path(prefix, "lib").rglob(f"libpython{version}.so.1.0"), None)
    if not library:
        raise Refusal(f"libpython{version}.so.1.0 is not here: apt-get install libpython{version}, then run this again")
    server = Path(site, "pytriton/tritonserver")
    shutil.copy(server / "python_backend_stubs" / version / "triton_python_backend_stub", server / "backends/python")
    Path(site, "fiveway.pth").write_text(f"{ROOT}\n")  # the stub ignores PYTHONPATH
    for link, target in (
        (Path(site, "nvidia_pytriton.libs", library.name), library),
        (server / "backends/onnxruntime", ROOT / "servers/triton/backends/onnxruntime"),
        (folder / "server", server),
    ):
        link.unlink(missing_ok=True)
        link.symlink_to(target)


@contextmanager
def server(name: str, command: Sequence[str | Path], **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, so that Ctrl-C ends the run first, which keeps what it has."""
    with (LOGS / f"{name}.log").open("wb") as log:
        here = os.environ | variables
        process = subprocess.Popen(command, cwd=ROOT, env=here, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def wait_for(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until it listens, has ended, or takes too long. Later each route is asked whether it answers."""
    end = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < end and not machine.listens("127.0.0.1", port):
        time.sleep(1)


def cause(route: str, model: str, ended: bool) -> str:
    """Why a route's server or model does not run, from the server's log; else empty."""
    name = "jpeg-http" if route == "jpeg-http" else "triton"
    log = machine.read(str(LOGS / f"{name}.log"))
    if ended:
        return "".join(log.splitlines()[-1:])
    asked = f"{model}_trt" if route.startswith("trt-") else model
    found = re.search(rf"failed to load '{re.escape(asked)}' version 1: (.*)", log) if name == "triton" else None
    return re.sub(r".*(CUDA failure)", r"\1", found[1].partition("\\n")[0]) if found else ""


def measure(python: Path, options: Sequence[str]) -> int:
    """Run the bench, and pass a signal on: it keeps what it has, and ends."""
    bench = subprocess.Popen([python, "-m", "bench", "fiveway", *options], cwd=ROOT)
    signal.signal(signal.SIGINT, lambda *_: None)  # a terminal has sent it to the bench too
    signal.signal(signal.SIGTERM, lambda *_: bench.send_signal(signal.SIGINT))
    return bench.wait()


def main() -> int:
    dry, routes, options = arguments(sys.argv[1:])
    first = int(os.environ.get("NATIVE_PORT", "18000"))
    http, grpc, metrics, jpeg = ports = range(first, first + 4)
    device = check(ports)
    say("Not measured: torchserve-*, typed-* and everything through the edge: they need Docker")
    say(f"Device {device}, ports {first} to {jpeg}. In out/native: Triton for Python 3.11 or 3.12,")
    say("the JPEG server, the builder and the bench for 3.12 or 3.13")
    if dry:
        return 0
    for folder in (LOGS, NATIVE / "artifacts", NATIVE / "tmp"):
        folder.mkdir(parents=True, exist_ok=True)
    os.environ |= {
        "TMPDIR": str(NATIVE / "tmp"),
        "MPLCONFIGDIR": str(NATIVE / "tmp"),
        "UV_CACHE_DIR": str(NATIVE / "cache"),
        "UV_PYTHON_INSTALL_DIR": str(NATIVE / "python"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "ARTIFACTS": str(NATIVE / "artifacts"),
        "ACCELERATOR": machine.accelerator(),
        "DEVICE": device,
        "PRECISION": setting("PRECISION", "fp32"),
    }
    os.environ.pop("NVIDIA_TF32_OVERRIDE", None)
    if os.environ["PRECISION"] == "fp32":  # as compose/precision
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
    if device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # Triton takes a GPU wherever it sees one
    uv = find_uv()
    lock = "requirements/native-triton.txt" if device == "cuda" else "requirements/triton.txt"
    triton = environment(uv, "triton", ">=3.11,<3.13", lock)
    python = environment(uv, "rest", ">=3.12,<3.14", "requirements/native.txt") / "bin/python"
    os.environ["PYTHONPATH"] = f"{ROOT}:{ROOT}/proto/gen"
    say("Building the model")
    if subprocess.run([python, "-m", "models.builder", "build"], cwd=ROOT, check=False).returncode != 0:
        raise Refusal("the model could not be built: see above")
    model = os.environ["MODEL"] = json.loads((NATIVE / "artifacts/serving.json").read_text())["model"]
    addresses = {"triton:8000": http, "triton:8001": grpc, "triton:8002": metrics, "jpeg-http:8000": jpeg}
    os.environ["DIRECT_ADDRESSES"] = " ".join(f"{name}=127.0.0.1:{port}" for name, port in addresses.items())
    say("Starting Triton and the JPEG server")
    listen: list[str | Path] = []
    for what, port in (("http", http), ("grpc", grpc), ("metrics", metrics)):
        listen += [f"--{what}-address=127.0.0.1", f"--{what}-port={port}"]
    # The stub finds its Python by the PATH.
    beside = {"PATH": f"{triton}/bin:{os.environ['PATH']}", "TRITON_SERVER": str(triton / "server")}
    # As in the image: no threads but COMPUTE_THREADS, and an allocator that large batches do not make page-fault.
    lean = {
        "OMP_NUM_THREADS": "1",
        "GOMP_SPINCOUNT": "10000",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": "8000000000",
        "MALLOC_TOP_PAD_": "268435456",
        "LISTEN": f"127.0.0.1:{jpeg}",
    }
    with (
        server("triton", ["servers/triton/serve", *listen], **beside) as one,
        server("jpeg-http", [python, "-m", "gateways.jpeg_http"], **lean) as two,
    ):
        wait_for(one, grpc)
        wait_for(two, jpeg)
        smoke = [str(python), "-m", "locustfiles.smoke", "--target", "direct", "--wait", "5", *routes]
        done = subprocess.run(smoke, cwd=ROOT, capture_output=True, text=True, check=False)
        print("".join(f"  {line}\n" for line in done.stdout.splitlines()), end="", flush=True)
        failed = dict(re.findall(r"^([\w-]+) failed: (.*)$", done.stderr, re.M))
        for route, why in failed.items():
            ended = (two if route == "jpeg-http" else one).poll() is not None
            failed[route] = f"Not measured: {route}: {cause(route, model, ended) or why}"
            say(failed[route])
        running = [route for route in routes if route not in failed]
        if not running:
            raise Refusal("no route answers: see out/native/logs")
        os.environ["FIVEWAY_HOST"] = json.dumps(facts())
        results = os.path.relpath(machine.results(), ROOT)
        status = measure(python, [*options, "--target", "direct", "--routes", ",".join(running), "--results", results])
        for said in failed.values():
            say(said)
    return status


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    try:
        machine.verb(main)
    except KeyboardInterrupt:
        sys.exit(130)
