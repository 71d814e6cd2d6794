"""What ACCELERATOR=gpu makes of Triton, on the real server without a GPU: configs, warm-up, the start script.

The light image takes the part of NVIDIA's. Only what names the GPU is made up: the `nvidia-smi` that the script asks.
Slow: the same of the image `triton-gpu`, built on a stand-in for NVIDIA's (Dockerfile), in the service that Compose
renders for a GPU, but for the request of the device and the room to lock memory.
"""

import json
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from chaos.docker import docker, inspect, wait_until
from gateways.core.serving import ARTIFACTS, Serving
from models.builder import profile
from models.builder.export import triton_jpeg
from models.builder.repository import MAX_BATCH, WARM_BATCHES, config, image_shape
from models.builder.spec import ImageSpec
from tests.clients import MODEL, files, tensor
from tests.repository import compose
from tests.stack.onnx_models import Node, Tensors, write
from tests.stack.test_triton_backend import IMAGE, serving

SPEC = ImageSpec.load("efficientnet_lite0")
CHECKSUM = "c" * 64
CONFIGS = {SPEC.name: "", f"{SPEC.name}_trt": CHECKSUM}
SMI = "#!/bin/sh\necho 'NVIDIA Test 1 (16 GB), 575.00'\n"
SERVER = "/opt/pytriton/tritonserver"
# What NVIDIA's image has by itself.
OWN = [f"--backend-directory={SERVER}/backends", "--backend-config=python,stub-timeout-seconds=120"]
STAND_IN = "fiveway-triton-gpu-test"


def make_volumes(folder: Path) -> None:
    """The repository as the models service writes it for a GPU, and the program that the start script asks."""
    # The model's input and outputs, and next to no computing between them.
    image: Tensors = {"image": ("FP32", ["n", 3, 224, 224])}
    outputs: Tensors = {name: ("FP32", ["n", width]) for name, width in SPEC.outputs.items()}
    nodes: list[Node] = [("ReduceMean", ["image", "axes"], "mean", {"keepdims": 0})]
    nodes += [("MatMul", ["mean", f"w_{name}"], name, {}) for name in outputs]
    constants = {f"w_{name}": np.full((3, width), width, np.float32) for name, width in SPEC.outputs.items()}
    for name, checksum in CONFIGS.items():
        text = config(SPEC, name, "real", "gpu", checksum)
        write(folder / "repository" / name, nodes, image, outputs, {"axes": np.array([2, 3]), **constants}, text)
        (folder / "repository" / name / "labels.txt").write_text("label\n" * SPEC.classes)
    triton_jpeg(SPEC, folder / "repository")
    (folder / "smi").mkdir()
    (folder / "smi" / "nvidia-smi").write_text(SMI)
    (folder / "smi" / "nvidia-smi").chmod(0o755)


@contextmanager
def light(folder: Path) -> Iterator[str]:
    """The name of a container of the light image that was started as in GPU mode."""
    environment = {
        "DEVICE": "cuda", "TRITON_TAG": "24.10-py3", "MODEL_REPOSITORY": "/repository", "ENGINES": "/tmp/engines",
        "JPEG_DECODER": "dali", "PATH": f"/smi:{SERVER}/bin:/usr/local/bin:/usr/bin:/bin",
    }  # fmt: skip
    options = [f"--env={key}={value}" for key, value in environment.items()]
    volumes = {"/repository": folder / "repository", "/smi": folder / "smi"}
    with serving(volumes, *options, command=OWN) as name:
        wait_until(lambda: client(name).is_server_live(), "the server answers", seconds=90)
        yield name


@contextmanager
def as_composed(folder: Path) -> Iterator[str]:
    """The name of the container that Compose starts with ACCELERATOR=gpu, healthy; in a project of its own."""
    model = compose("gpu")
    service = model["services"]["triton"] | {"image": STAND_IN, "pull_policy": "never"}
    for needless in ("build", "depends_on"):
        del service[needless]
    # memlock, as the device: an engine that is itself in a container may not lift it.
    service["ulimits"] = {name: limit for name, limit in service["ulimits"].items() if name != "memlock"}
    service["deploy"] = {"resources": {"limits": service["deploy"]["resources"]["limits"]}}
    project = f"test-triton-gpu-{uuid.uuid4().hex[:8]}"
    wiring = {"networks": {"inside": {"internal": True}}, "volumes": {"artifacts": {}, "engines": {}}}
    file = folder / "compose.json"
    file.write_text(json.dumps({"services": {"triton": service}, "configs": model["configs"], **wiring}))
    models = tuple(path.name for path in (folder / "repository").iterdir())
    Serving(SPEC.name, f"{SPEC.name}_trt", images=True, models=models).write(folder)
    ours = ("compose", f"--project-name={project}", f"--file={file}")
    try:
        docker(*ours, "create")
        # The service has the artefacts read-only, so another container writes them.
        writer = docker("create", f"--volume={project}_artifacts:/artifacts", STAND_IN).strip()
        docker("cp", f"{folder}/.", f"{writer}:/artifacts")
        docker("rm", writer)
        docker(*ours, "up", "--detach", "--wait", timeout=300)
        yield docker(*ours, "ps", "--quiet").strip()
    finally:
        print(docker(*ours, "logs", "--no-log-prefix"))
        docker(*ours, "down", "--volumes")


Start = Callable[[Path], AbstractContextManager[str]]


@pytest.fixture(scope="module", params=[light, pytest.param(as_composed, marks=pytest.mark.slow)])
def start(request: pytest.FixtureRequest) -> Start:
    found: Start = request.param
    return found


@pytest.fixture(scope="module")
def triton(start: Start, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A container that was started as in GPU mode, and answers."""
    folder = tmp_path_factory.mktemp("gpu")
    make_volumes(folder)
    with start(folder) as name:
        yield name


def client(name: str) -> tritonclient.grpc.InferenceServerClient:
    networks = inspect(name)[0]["NetworkSettings"]["Networks"].values()
    (address,) = (network["IPAddress"] for network in networks)
    return tritonclient.grpc.InferenceServerClient(f"{address}:8001")


@pytest.mark.parametrize("model", CONFIGS)
def test_triton_reads_what_the_models_service_wrote(triton: str, model: str) -> None:
    """The server's own parser takes every line, and finds in it what ours does."""
    assert client(triton).is_model_ready(model)
    wrote = text_format.Parse(config(SPEC, model, "real", "gpu", CONFIGS[model]), ModelConfig())
    read = client(triton).get_model_config(model).config
    for field in ("input", "output", "max_batch_size", "model_warmup", "parameters"):
        assert getattr(read, field) == getattr(wrote, field), field
    assert read.optimization.execution_accelerators == wrote.optimization.execution_accelerators


@pytest.mark.parametrize("model", CONFIGS)
def test_ready_means_that_every_batch_has_run(triton: str, model: str) -> None:
    """The server's statistics show one run of each size before anybody asked it anything."""
    (statistics,) = client(triton).get_inference_statistics(model).model_stats
    assert sorted(row.batch_size for row in statistics.batch_stats) == sorted(WARM_BATCHES)


def test_engines_have_a_folder_per_gpu_driver_and_release(triton: str) -> None:
    """It lies where config.pbtxt says; its name is what an engine depends on, in letters that a path likes."""
    wanted = 'echo "${ENGINES:-/engines}/NVIDIA-Test-1-16-GB-575.00-$TRITON_TAG"'
    assert docker("exec", triton, "readlink", "/tmp/tensorrt") == docker("exec", triton, "sh", "-c", wanted)
    assert docker("exec", triton, "stat", "--format=%u", "/tmp/tensorrt/").strip() == "65532"


def test_the_log_says_how_the_start_went(triton: str) -> None:
    """Lines while it loads, and one when it serves."""
    wait_until(lambda: "every model is loaded after" in docker("logs", triton), "the last line", seconds=30)
    log = docker("logs", triton)
    assert "triton: loading models and building engines: 0 s, 0 engines in the cache (0 MB)" in log
    assert "0 engines found, 0 built" in log


def test_without_dali_pillow_decodes_and_it_is_said(triton: str, photo: bytes) -> None:
    """In the log, and by `providers`, which the manifest of a result is made from. (With it: test_triton_dali.py.)"""
    answer = client(triton).infer(f"{SPEC.name}_jpeg", [tensor(tritonclient.grpc, "jpeg", files([photo]))])
    assert answer.as_numpy("embedding").shape == (1, SPEC.outputs["embedding"])
    says = f"{SPEC.name}_preprocess: Pillow decodes on the CPU, for DALI does not: ModuleNotFoundError"
    assert says in docker("logs", triton)
    rows = {tuple(line.split()) for line in docker("exec", triton, "providers").splitlines()}
    assert (f"{SPEC.name}_preprocess", "1", "Pillow", "1") in rows
    # As with NVIDIA's own backend, which counts nothing: an ensemble and its first step have no execution provider.
    ask = "import runpy; print(*(row[0] for row in runpy.run_path('/usr/local/bin/providers')['configured']()))"
    assert set(docker("exec", triton, "python3", "-c", ask).split()) == set(CONFIGS)


@pytest.mark.slow
@pytest.mark.parametrize("start", [as_composed], indirect=True)
def test_the_gpu_image_runs_as_our_user_on_files_that_it_cannot_change(triton: str) -> None:
    """NVIDIA's entrypoint comes first and leaves: the server is a child of init. Nothing in the image is the user's."""
    assert docker("logs", triton).startswith("NVIDIA entrypoint: stand-in\n")
    processes = [line.split(maxsplit=2) for line in docker("top", triton, "-eo", "pid,uid,args").splitlines()[1:]]
    assert {user for _, user, _ in processes} == {"65532"}
    assert not [command for _, _, command in processes if command.startswith("/bin/bash /opt/nvidia")]
    assert inspect(triton)[0]["State"]["Health"]["Status"] == "healthy"
    writable = "find /app /opt /usr ( -user 65532 -o -perm -o=w ) ! -type l"
    assert docker("exec", triton, *writable.split()) == ""


def test_a_profile_of_the_batch_covers_the_served_model(tmp_path: Path) -> None:
    """docs/gpu.md says of which models that was seen."""
    path = ARTIFACTS / MODEL / "repository" / MODEL / "1" / "model.onnx"
    shapes = {"image": [MAX_BATCH, *image_shape(ImageSpec.load(MODEL))]}
    assert profile.unknown(path, shapes, tmp_path) == []


def test_without_a_gpu_it_does_not_start() -> None:
    """CUDA was asked for: the CPU in its place would be measured under a wrong name."""
    command = ["docker", "run", "--rm", "--env=DEVICE=cuda", "--env=MODEL_REPOSITORY=/tmp", IMAGE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("triton: DEVICE is cuda and there is no GPU here: check that")
    assert done.stderr.count("\n") == 1
