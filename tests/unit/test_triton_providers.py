"""What `providers` says of NVIDIA's backend, which counts nothing: read from its config and the engine cache."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.repository import ROOT

provider_of = runpy.run_path(str(ROOT / "servers/triton/providers"))["provider_of"]


def of(kind: str, cache: Path | None = None) -> Any:
    tensorrt = {"name": "tensorrt", "parameters": {"trt_engine_cache_path": str(cache)}}
    accelerators = {"execution_accelerators": {"gpu_execution_accelerator": [tensorrt] if cache else []}}
    return provider_of({"instance_group": [{"kind": kind}], "optimization": accelerators})


@pytest.mark.parametrize(
    ("kind", "built", "says"),
    [
        ("KIND_GPU", 2, ("TensorrtExecutionProvider", 2)),
        ("KIND_GPU", 0, ("CUDAExecutionProvider", 0)),
        ("KIND_CPU", 2, ("CPUExecutionProvider", 0)),
    ],
)
def test_tensorrt_is_said_only_where_it_built_engines(tmp_path: Path, kind: str, built: int, says: Any) -> None:
    """Asked for and not used it would be a wrong label; on a CPU instance it is neither."""
    for number in range(built):
        (tmp_path / f"{number}.engine").touch()
    assert of(kind, tmp_path) == says


def test_a_plain_model_on_a_gpu_is_cudas() -> None:
    assert of("KIND_GPU") == ("CUDAExecutionProvider", 0)
