"""One ONNX Runtime session, made as a Triton model config asks for it."""

import ctypes
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from gateways.core.threads import compute_threads, own_cores
from servers.triton.backends.onnxruntime.signature import Config, ConfigError, Signature, Tensor, served_dims

ERROR, FATAL = 3, 4

TENSORRT = "libnvinfer.so.10"

# optimization.graph.level, with the values of Triton's own backend.
GRAPH_LEVELS = {
    -1: ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    0: ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
    1: ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    2: ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
}


def model_path(named: Path) -> Path:
    """The ONNX file that default_model_filename names; where that is a folder, the model.onnx in it."""
    path = named / "model.onnx" if named.is_dir() else named
    if not path.is_file():
        raise ConfigError(f"there is no {path}: put the ONNX file there, or name it in default_model_filename")
    return path


def read_signature(path: Path) -> Signature:
    """The inputs and outputs of a graph, without optimising it."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = ERROR
    return _signature(ort.InferenceSession(path, options, providers=["CPUExecutionProvider"]))


class Engine:
    """A session on the execution providers that the config declares for the device."""

    def __init__(self, path: Path, config: Config) -> None:
        """Raises ConfigError for a config that cannot be honoured, ONNX Runtime's own errors for a broken file."""
        options = session_options(config)
        # Which provider takes which nodes. A profile of the first inference says it too, but then ONNX Runtime 1.24.1
        # loses half a kilobyte in every later one.
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        asked = providers(config)
        # No fallback: a model that says OpenVINO and runs on another provider would be measured under a wrong name.
        with own_cores():  # OpenVINO starts more threads than compute, and binds those that do by itself
            self._session = ort.InferenceSession(path, options, providers=asked, enable_fallback=0)
        missing = {name for name, _ in asked} - set(self._session.get_providers())
        if missing:
            raise ConfigError(f"ONNX Runtime could not set up {', '.join(sorted(missing))}")
        self._run_options = ort.RunOptions()
        # The caller gets the error; the log needs no copy.
        self._run_options.log_severity_level = FATAL
        shrinkage = "memory.enable_memory_arena_shrinkage"
        if (value := _parameter(config, shrinkage)) is not None:
            self._run_options.add_run_config_entry(shrinkage, value)
        self.signature = _signature(self._session)
        self._first = {tensor.name: _filled(tensor, config) for tensor in self.signature.inputs}

    def run(self, outputs: Sequence[str], feeds: Mapping[str, NDArray[np.generic]]) -> list[NDArray[np.generic]]:
        """One inference; the outputs in the order of their names."""
        answer: list[NDArray[np.generic]] = self._session.run(list(outputs), dict(feeds), self._run_options)
        return answer

    def first_inference(self) -> Mapping[str, int]:
        """Run the model once and count the graph nodes that each execution provider has. Its inputs are zeros with
        variable dims 1, unless the config has their dims, or a value in a parameter `load.<input>`.

        A provider that takes a whole subgraph has it as one node; the CPU's are counted before some of them are joined.
        Raises what the inference raises.
        """
        try:
            self.run([tensor.name for tensor in self.signature.outputs], self._first)
        finally:
            _return_memory()
        return Counter(sorted(part.ep_name for part in self._session.get_provider_graph_assignment_info()))


def on_cuda() -> bool:
    """Whether this is the light server on a GPU, which it is outside of its image alone (scripts/native, `serve`)."""
    return os.environ.get("DEVICE") == "cuda" and "TRITON_SERVER" in os.environ


def providers(config: Config) -> list[tuple[str, dict[str, str]]]:
    """The execution providers for the device, best first; the accelerators of the other device are ignored."""
    device, known = ("gpu", "tensorrt") if on_cuda() else ("cpu", "openvino")
    declared = config.get("optimization", {}).get("execution_accelerators", {})
    accelerators = declared.get(f"{device}_execution_accelerator", [])
    if unknown := {accelerator["name"] for accelerator in accelerators} - {known}:
        raise ConfigError(f"unknown {device}_execution_accelerator '{min(unknown)}': this image has '{known}'")
    chosen = [*_tensorrt(accelerators), ("CUDAExecutionProvider", {})] if on_cuda() else _openvino(accelerators, config)
    if absent := {name for name, _ in chosen} - set(ort.get_available_providers()):
        raise ConfigError(f"ONNX Runtime here has no {', '.join(sorted(absent))}")
    if on_cuda():
        ort.preload_dlls(directory="")  # CUDA's libraries, from the wheels beside this one
    return [*chosen, ("CPUExecutionProvider", {})]


def _openvino(accelerators: Sequence[Config], config: Config) -> list[tuple[str, dict[str, str]]]:
    # FP32: where the CPU has bf16 units OpenVINO would use them, and the answer would depend on the machine.
    options = {"device_type": "CPU", "precision": "FP32", "num_of_threads": str(threads(config))}
    return [("OpenVINOExecutionProvider", options)] * len(accelerators)


def _tensorrt(accelerators: Sequence[Config]) -> list[tuple[str, dict[str, str]]]:
    """TensorRT where the config asks for it. Raises ConfigError without its libraries: CUDA would be a wrong label."""
    if accelerators:
        try:
            import_module("tensorrt_libs")  # the wheel's; it loads what lies in it
        except ImportError:
            try:
                ctypes.CDLL(TENSORRT)
            except OSError as error:
                raise ConfigError(f"no TensorRT here ({TENSORRT} is not found): install its libraries") from error
    options = [_tensorrt_options(accelerator.get("parameters", {})) for accelerator in accelerators]
    return [("TensorrtExecutionProvider", one) for one in options]


def _tensorrt_options(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters of Triton's own backend as ONNX Runtime's options, which have the same names but for these two."""
    options = dict(parameters)
    precision = options.pop("precision_mode", "FP32")
    if precision not in ("FP16", "FP32"):
        raise ConfigError(f"precision_mode is {precision}: use FP16 or FP32")
    if size := options.pop("max_workspace_size_bytes", ""):
        options["trt_max_workspace_size"] = size
    if cache := options.get("trt_engine_cache_path"):
        Path(cache).mkdir(parents=True, exist_ok=True)
    return options | {"trt_fp16_enable": str(int(precision == "FP16"))}


def session_options(config: Config) -> ort.SessionOptions:
    """Session options from the config's parameters, under the names of Triton's own onnxruntime backend."""
    options = ort.SessionOptions()
    options.log_severity_level = ERROR
    options.intra_op_num_threads = threads(config)
    options.inter_op_num_threads = _integer(config, "inter_op_thread_count")
    # A spinning thread takes the core that the other servers of this machine need.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    options.enable_cpu_mem_arena = _switch(config, "enable_mem_arena")
    options.enable_mem_pattern = _switch(config, "enable_mem_pattern")

    level = int(config.get("optimization", {}).get("graph", {}).get("level", 0))
    if level not in GRAPH_LEVELS:
        known = "-1 (basic), 1 (extended), 2 (none), or leave it out (all)"
        raise ConfigError(f"optimization.graph.level is {level}: use {known}")
    options.graph_optimization_level = GRAPH_LEVELS[level]

    mode = _integer(config, "execution_mode")
    if mode not in (0, 1):
        raise ConfigError(f"parameter execution_mode is {mode}: use 0 (sequential) or 1 (parallel)")
    options.execution_mode = ort.ExecutionMode.ORT_PARALLEL if mode else ort.ExecutionMode.ORT_SEQUENTIAL

    own_allocator = "session.use_device_allocator_for_initializers"
    if (value := _parameter(config, own_allocator)) is not None:
        options.add_session_config_entry(own_allocator, value)
    for library in config.get("model_operations", {}).get("op_library_filename", []):
        options.register_custom_ops_library(library)
    return options


def threads(config: Config) -> int:
    """intra_op_thread_count, by default the number that every engine of the stack has."""
    return _integer(config, "intra_op_thread_count") or compute_threads()


def _return_memory() -> None:
    """Give what loading freed back to the system: glibc keeps it (1.1 of 1.9 GB with OpenVINO and a 350 MB model)."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)


def _signature(session: ort.InferenceSession) -> Signature:
    sides = session.get_inputs(), session.get_outputs(), session.get_overridable_initializers()
    return Signature(*(tuple(Tensor.of(arg.name, arg.type, arg.shape) for arg in args) for args in sides))


def _filled(tensor: Tensor, config: Config) -> NDArray[np.generic]:
    said = [served_dims(one, config["max_batch_size"] > 0) for one in config["input"] if one["name"] == tensor.name]
    dims = said[0] if said and len(said[0]) == len(tensor.dims) else tensor.dims
    shape = tuple(max(1, a, b) for a, b in zip(dims, tensor.dims, strict=True))
    if tensor.data_type == "TYPE_STRING":
        return np.full(shape, "", dtype=object)
    value = float(_parameter(config, f"load.{tensor.name}") or 0)
    return np.full(shape, value).astype(tensor.data_type.removeprefix("TYPE_").lower().replace("fp", "float"))


def _parameter(config: Config, name: str) -> str | None:
    value = config.get("parameters", {}).get(name)
    return None if value is None else str(value["string_value"])


def _integer(config: Config, name: str) -> int:
    """A parameter that is 0 unless set."""
    value = _parameter(config, name)
    try:
        return 0 if value is None else int(value)
    except ValueError:
        raise ConfigError(f"parameter {name} is '{value}': use a whole number") from None


def _switch(config: Config, name: str) -> bool:
    """A parameter that is on unless switched off."""
    value = (_parameter(config, name) or "1").lower()
    if value not in ("0", "1", "false", "true"):
        raise ConfigError(f"parameter {name} is '{value}': use 0 or 1")
    return value in ("1", "true")
