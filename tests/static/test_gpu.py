"""GPU mode, as far as it can be held without one: what it changes, what it tells Triton, what the page says."""

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from models.builder.currency import Precision
from models.builder.repository import config
from models.builder.spec import MODELS, ImageSpec, Spec
from tests.repository import ROOT, compose

# Everything that ACCELERATOR=gpu changes, as paths into the Compose model.
BUILT = {"build.args.ACCELERATOR", "image", "pull_policy"}
RESERVED = {"deploy.resources.limits.memory", "deploy.resources.limits.pids", "deploy.resources.reservations.devices"}
SLOW = {"environment.DEVICE", "environment.START_GRACE_S", "healthcheck.start_period"}
# Of the default precision.
FP32 = {"environment.NVIDIA_TF32_OVERRIDE"}
DIFFERENT = {
    "jpeg-http": {*BUILT, *RESERVED, *SLOW, *FP32},
    "torchserve": {*BUILT, *RESERVED, *SLOW, *FP32},
    "triton": {
        *RESERVED, *SLOW, *FP32, "build.args.TRITON_TAG", "build.target", "environment.JPEG_DECODER", "image",
        "pull_policy", "shm_size", "ulimits.memlock", "volumes",
    },
}  # fmt: skip

BACKEND = json.loads((ROOT / "tests/static/onnxruntime_keys.json").read_text())
MODELS_OF_PHOTOS = [
    name
    for name in sorted(path.parent.name for path in MODELS.glob("*/model.toml"))
    if isinstance(Spec.load(name), ImageSpec)
]


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Every value that is not a map, by its path."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}" if path else name)
    else:
        yield path, json.dumps(value, sort_keys=True)


def test_the_accelerators_differ_where_they_are_meant_to() -> None:
    """Each service is the same with and without a GPU, but for the list above and the accelerator's name."""
    cpu, gpu = compose("cpu"), compose("gpu")
    assert set(cpu["services"]) == set(gpu["services"])
    for name, service in cpu["services"].items():
        before, after = dict(leaves(service)), dict(leaves(gpu["services"][name]))
        changed = {path for path in before | after if before.get(path) != after.get(path)}
        assert changed == DIFFERENT.get(name, set()) | {"environment.ACCELERATOR"}, name
    assert set(gpu["volumes"]) - set(cpu["volumes"]) == {"engines"}
    assert cpu["networks"] == gpu["networks"]


@pytest.mark.parametrize("name", sorted(DIFFERENT))
def test_what_runs_the_model_gets_a_gpu_or_fails(name: str) -> None:
    """One NVIDIA GPU is reserved, DEVICE asks for it by name, and the image is not the one of the CPU."""
    service = compose("gpu")["services"][name]
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": 1, "capabilities": ["gpu", "compute", "utility", "video"]}
    assert service["environment"]["DEVICE"] == "cuda"
    assert service["image"] == f"fiveway-{name}-gpu"


@pytest.mark.parametrize("precision", get_args(Precision))
def test_one_precision_for_all(precision: Precision) -> None:
    """Every service is told it. NVIDIA's libraries are told in FP32 alone, and only 0: other values are reserved."""
    services = compose("gpu", PRECISION=precision)["services"]
    for name, service in services.items():
        assert service["environment"].get("PRECISION", precision) == precision
        override = "0" if precision == "fp32" and name in DIFFERENT else None
        assert service["environment"].get("NVIDIA_TF32_OVERRIDE") == override, name
    assert {"models", *DIFFERENT} <= {name for name, one in services.items() if "PRECISION" in one["environment"]}


def test_a_first_start_may_build_engines() -> None:
    """Neither Docker nor the health check calls it a failure before half an hour."""
    triton = compose("gpu")["services"]["triton"]
    assert triton["healthcheck"]["start_period"] == "30m0s"
    assert triton["environment"]["START_GRACE_S"] == str(30 * 60)
    assert {mount["target"]: mount.get("read_only", False) for mount in triton["volumes"]} == {
        "/artifacts": True,
        "/engines": False,
    }


@pytest.mark.parametrize("release", BACKEND["releases"])
@pytest.mark.parametrize("model", MODELS_OF_PHOTOS)
@pytest.mark.parametrize("precision", get_args(Precision))
def test_every_tensorrt_key_is_known_to_the_release(precision: Precision, model: str, release: str) -> None:
    """An unknown key or precision is a load error: each that we write is in the backend's own source."""
    text = config(ImageSpec.load(model), model, "real", "gpu", "0" * 64, precision)
    accelerators = text_format.Parse(text, ModelConfig()).optimization.execution_accelerators
    (tensorrt,) = accelerators.gpu_execution_accelerator
    assert set(tensorrt.parameters) <= set(BACKEND["tensorrt_keys"])
    assert tensorrt.parameters["precision_mode"] in BACKEND["releases"][release]["precision_modes"]


def test_one_default_release() -> None:
    """Compose file, Dockerfile and .env.example name the same one, and its source was read."""
    named = {
        *re.findall(r"^ARG TRITON_TAG=(\S+)", (ROOT / "Dockerfile").read_text(), re.M),
        *re.findall(r"^# TRITON_TAG=(\S+)", (ROOT / ".env.example").read_text(), re.M),
        compose("gpu")["services"]["triton"]["build"]["args"]["TRITON_TAG"],
    }
    assert len(named) == 1
    assert named <= set(BACKEND["releases"])
