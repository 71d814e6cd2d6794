"""What `providers` says of NVIDIA's backend, which counts nothing: read from its config and the engine cache."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.repository import ROOT

provider_of = runpy.run_path(str(ROOT / "servers/triton/providers"))["provider_of"]


@pytest.mark.parametrize(
    ("kind", "asked", "built", "says"),
    [
        ("KIND_GPU", True, 2, ("TensorrtExecutionProvider", 2)),
        ("KIND_GPU", True, 0, ("CUDAExecutionProvider", 0)),
        ("KIND_GPU", False, 0, ("CUDAExecutionProvider", 0)),
        ("KIND_CPU", True, 2, ("CPUExecutionProvider", 0)),
    ],
)
def test_tensorrt_is_said_only_where_it_built_engines(
    tmp_path: Path, kind: str, asked: bool, built: int, says: Any
) -> None:
    """Asked for and not used it would be a wrong label; on a CPU instance it is neither."""
    for number in range(built):
        (tmp_path / f"{number}.engine").touch()
    tensorrt = {"name": "tensorrt", "parameters": {"trt_engine_cache_path": str(tmp_path)}}
    accelerators = {"execution_accelerators": {"gpu_execution_accelerator": [tensorrt] if asked else []}}
    assert provider_of({"instance_group": [{"kind": kind}], "optimization": accelerators}) == says
