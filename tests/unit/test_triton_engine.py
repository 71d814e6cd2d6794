"""Which execution providers a Triton config gets on which device, what it cannot have; and what `providers` says."""

import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import onnxruntime as ort
import pytest

from servers.triton.backends.onnxruntime import engine
from servers.triton.backends.onnxruntime.signature import ConfigError
from tests.repository import ROOT

CPU, CUDA, OPENVINO, TENSORRT = (f"{name}ExecutionProvider" for name in ("CPU", "CUDA", "OpenVINO", "Tensorrt"))


@pytest.fixture(autouse=True)
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU, TensorRT's wheel, and an ONNX Runtime that was built with all providers."""
    monkeypatch.setattr(ort, "get_available_providers", lambda: [TENSORRT, CUDA, OPENVINO, CPU])
    monkeypatch.setattr(ort, "preload_dlls", lambda directory: None, raising=False)
    monkeypatch.setenv("TRITON_SERVER", "/somewhere")
    monkeypatch.setitem(sys.modules, "tensorrt_libs", ModuleType("tensorrt_libs"))
    monkeypatch.setenv("DEVICE", "cuda")


def config(**parameters: str) -> dict[str, Any]:
    """An accelerated model's, which names an accelerator for either device."""
    accelerators = {
        "cpu_execution_accelerator": [{"name": "openvino"}],
        "gpu_execution_accelerator": [{"name": "tensorrt", "parameters": parameters}],
    }
    return {"optimization": {"execution_accelerators": accelerators}}


def names(of: dict[str, Any]) -> list[str]:
    return [name for name, _ in engine.providers(of)]


@pytest.mark.parametrize(
    ("device", "plain", "accelerated"), [("cpu", [CPU], [OPENVINO, CPU]), ("cuda", [CUDA, CPU], [TENSORRT, CUDA, CPU])]
)
def test_providers_by_device(
    device: str, plain: list[str], accelerated: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other device's accelerator is passed over; what was not built in is named, and nothing falls back."""
    monkeypatch.setenv("DEVICE", device)
    assert names({}) == plain
    assert names(config()) == accelerated
    monkeypatch.setattr(ort, "get_available_providers", lambda: [TENSORRT, CPU])
    with pytest.raises(ConfigError, match=f"ONNX Runtime here has no {accelerated[-2]}"):
        names(config())


def test_parameters_are_those_of_tritons_own_backend(tmp_path: Path) -> None:
    """Precision and workspace have other names in ONNX Runtime, the rest has the same; the cache's folder is made."""
    cache = tmp_path / "engines" / "abc"
    given = {"precision_mode": "FP16", "max_workspace_size_bytes": "1024", "trt_engine_cache_path": str(cache)}
    assert engine.providers(config(**given))[0] == (
        TENSORRT,
        {"trt_fp16_enable": "1", "trt_max_workspace_size": "1024", "trt_engine_cache_path": str(cache)},
    )
    assert cache.is_dir()
    assert engine.providers(config())[0] == (TENSORRT, {"trt_fp16_enable": "0"})
    with pytest.raises(ConfigError, match="precision_mode is INT8: use FP16 or FP32"):
        engine.providers(config(precision_mode="INT8"))


def test_without_tensorrts_libraries_the_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA in TensorRT's place would be measured under a wrong name; the plain model is served all the same."""
    monkeypatch.setitem(sys.modules, "tensorrt_libs", None)
    with pytest.raises(ConfigError, match=r"no TensorRT here \(libnvinfer.so.10 is not found\): install its libraries"):
        engine.providers(config())
    assert names({}) == [CUDA, CPU]


providers_of = runpy.run_path(str(ROOT / "servers/triton/providers"))["providers_of"]
ENGINE = "TensorrtExecutionProvider_TRTKernel_graph_main_graph_1234_{}"


@pytest.mark.parametrize(
    ("kind", "asked", "built", "says"),
    [
        ("KIND_GPU", True, ["0_0_fp16_sm80"], {TENSORRT: 1}),
        ("KIND_GPU", True, ["0_0_fp16_sm80", "0_0_sm80"], {TENSORRT: 1}),
        ("KIND_GPU", True, ["0_0_fp16_sm80", "1_1_fp16_sm80"], {TENSORRT: 2, CUDA: 0}),
        ("KIND_GPU", True, [], {CUDA: 0}),
        ("KIND_GPU", False, ["0_0_sm80"], {CUDA: 0}),
        ("KIND_CPU", True, ["0_0_sm80"], {CPU: 0}),
    ],
)
def test_tensorrt_is_said_only_where_it_built_engines(
    tmp_path: Path, kind: str, asked: bool, built: list[str], says: dict[str, int]
) -> None:
    """Asked for and not used it would be a wrong label; on a CPU instance it is neither. Several pieces mean that CUDA
    runs what is between them; the same piece in two precisions is one."""
    for piece in built:
        (tmp_path / f"{ENGINE.format(piece)}.engine").touch()
    tensorrt = {"name": "tensorrt", "parameters": {"trt_engine_cache_path": str(tmp_path)}}
    accelerators = {"execution_accelerators": {"gpu_execution_accelerator": [tensorrt] if asked else []}}
    assert dict(providers_of({"instance_group": [{"kind": kind}], "optimization": accelerators})) == says
