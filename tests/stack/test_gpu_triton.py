"""What ACCELERATOR=gpu makes of Triton, on the real server without a GPU: configs, warm-up, the start script.

The light image takes the part of NVIDIA's. Only what names the GPU is made up: the `nvidia-smi` that the script asks.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from chaos.docker import docker, wait_until
from models.builder.export import triton_jpeg
from models.builder.repository import WARM_BATCHES, config
from models.builder.spec import ImageSpec
from tests.clients import files, tensor
from tests.stack.onnx_models import Node, Tensors, write
from tests.stack.test_triton_backend import IMAGE, address, serving

SPEC = ImageSpec.load("efficientnet_lite0")
CHECKSUM = "c" * 64
CONFIGS = {SPEC.name: "", f"{SPEC.name}_trt": CHECKSUM}
SMI = "#!/bin/sh\necho 'NVIDIA Test 1 (16 GB), 575.00'\n"
SERVER = "/opt/pytriton/tritonserver"
# What NVIDIA's image has by itself.
OWN = [f"--backend-directory={SERVER}/backends", "--backend-config=python,stub-timeout-seconds=120"]


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


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of a container that was started as in GPU mode, and answers."""
    folder = tmp_path_factory.mktemp("gpu")
    make_volumes(folder)
    environment = {
        "DEVICE": "cuda", "TRITON_TAG": "24.10-py3", "MODEL_REPOSITORY": "/repository", "ENGINES": "/tmp/engines",
        "JPEG_DECODER": "dali", "PATH": f"/smi:{SERVER}/bin:/usr/local/bin:/usr/bin:/bin",
    }  # fmt: skip
    options = [f"--env={key}={value}" for key, value in environment.items()]
    volumes = {"/repository": folder / "repository", "/smi": folder / "smi"}
    with serving(volumes, *options, command=OWN) as name:
        wait_until(lambda: client(name).is_server_live(), "the server answers", seconds=90)
        yield name


def client(name: str) -> tritonclient.grpc.InferenceServerClient:
    return tritonclient.grpc.InferenceServerClient(address(name, 8001))


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
    wanted = "/tmp/engines/NVIDIA-Test-1-16-GB-575.00-24.10-py3"
    assert docker("exec", triton, "readlink", "/tmp/tensorrt").strip() == wanted


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


def test_without_a_gpu_it_does_not_start() -> None:
    """CUDA was asked for: the CPU in its place would be measured under a wrong name."""
    command = ["docker", "run", "--rm", "--env=DEVICE=cuda", "--env=MODEL_REPOSITORY=/tmp", IMAGE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("triton: DEVICE is cuda and there is no GPU here: check that")
    assert done.stderr.count("\n") == 1
