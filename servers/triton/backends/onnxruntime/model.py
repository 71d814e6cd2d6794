"""Triton's `onnxruntime` backend, in Python: serves on a CPU what the C++ backend of the same name serves.

Without Docker it serves on CUDA too (scripts/native).

Triton runs this module in one stub process per model instance (its "Python-based backend"). A model repository needs
nothing special: `backend: "onnxruntime"`, `platform: "onnxruntime_onnx"`, or a model.onnx without any config.

    execute(requests)  ->  feeds per request        bad input      -> INVALID_ARG for that request alone
                       ->  groups of equal shapes   one run each   -> a failing group runs again, one by one
                       ->  rows per request         only the outputs that the request asks for
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils
from numpy.typing import NDArray

from servers.triton.backends.onnxruntime import signature
from servers.triton.backends.onnxruntime.signature import Config

# The start of the text of every error of this backend. The health check recognises by it that the process is alive.
PREFIX = "onnxruntime: "

Array = NDArray[np.generic]
Feeds = Mapping[str, Array]


class TritonPythonModel:
    """One model instance. Triton calls the methods by these names."""

    @staticmethod
    def auto_complete_config(model: Any) -> Any:
        """Complete a config that names no inputs or no outputs. Runs in a process of its own, before any instance."""
        config = model._model_config  # the official setters refuse `reshape`, which a scalar needs
        if not signature.is_complete(config):
            # ONNX Runtime costs 0.3 s of start per model: only where it is needed.
            from servers.triton.backends.onnxruntime import engine

            signature.complete(config, engine.read_signature(engine.model_path(_path_from_command_line())))
        return model

    def initialize(self, args: dict[str, str]) -> None:
        """Load the model. Raises, and Triton says "failed to load" with that text, when it cannot be served."""
        from servers.triton.backends.onnxruntime import engine

        _self_test()
        config: Config = json.loads(args["model_config"])
        if args["model_instance_kind"] != "CPU" and not engine.on_cuda():
            raise signature.ConfigError("this image has no GPU: leave out instance_group.kind, or say KIND_CPU")
        folder = Path(args["model_repository"]) / args["model_version"]
        self._engine = engine.Engine(engine.model_path(folder / config["default_model_filename"]), config)
        signature.check(config, self._engine.signature)

        self._batching = config["max_batch_size"] > 0
        self._strings = {t.name for t in self._engine.signature.inputs if t.data_type == "TYPE_STRING"}
        # A config cannot say "scalar": it says dims [1].
        self._scalars = {t.name for t in self._engine.signature.inputs if not t.dims} if not self._batching else set()
        self._gauges = [*self._export_providers(args), *self._export_threads(args, engine.threads(config))]

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """Answer every request, in order. Never raises: an exception here would fail all of them."""
        answers: dict[int, Any] = {}
        feeds: dict[int, Feeds] = {}
        for position, request in enumerate(requests):
            try:
                feeds[position] = self._feeds(request)
            except ValueError as error:
                answers[position] = _refusal(error)
        for group in self._groups(feeds):
            asked = [(feeds[position], requests[position].requested_output_names()) for position in group]
            answers.update(zip(group, self._answer(asked), strict=True))
        return [answers[position] for position in range(len(requests))]

    def _groups(self, feeds: Mapping[int, Feeds]) -> list[list[int]]:
        """The requests (by position) that may share a run: same inputs, same shapes beyond the batch dimension."""
        alike: dict[object, list[int]] = defaultdict(list)
        for position, tensors in feeds.items():
            shapes = tuple(sorted((name, tensor.shape[1:]) for name, tensor in tensors.items()))
            alike[shapes if self._batching else position].append(position)
        return list(alike.values())

    def _feeds(self, request: Any) -> Feeds:
        """A request's inputs as the graph takes them. Raises ValueError for text that is not UTF-8."""
        feeds = {}
        for tensor in request.inputs():
            name, array = tensor.name(), tensor.as_numpy()
            if name in self._strings:
                array = _text(name, array)
            feeds[name] = array.reshape(()) if name in self._scalars and array.shape == (1,) else array
        return feeds

    def _answer(self, asked: Sequence[tuple[Feeds, set[str]]]) -> list[Any]:
        """Run requests of equal shapes as one batch. If that fails each runs alone, so only the faulty one is
        refused."""
        feeds = [tensors for tensors, _ in asked]
        names = sorted(set().union(*(wanted for _, wanted in asked)))
        try:
            # A single request passes as it is, without a copy.
            joined = feeds[0] if len(feeds) == 1 else {n: np.concatenate([one[n] for one in feeds]) for n in feeds[0]}
            sizes = [next(iter(one.values())).shape[0] if one else 0 for one in feeds] if self._batching else []
            outputs = zip(names, self._engine.run(names, joined), strict=True)
            rows = {name: self._rows(name, output, sizes) for name, output in outputs}
        except Exception as error:
            return [_refusal(error)] if len(asked) == 1 else [self._answer([one])[0] for one in asked]
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor(name, rows[name][index]) for name in sorted(wanted)])
            for index, (_, wanted) in enumerate(asked)
        ]

    def _rows(self, name: str, output: Array, sizes: Sequence[int]) -> list[Array]:
        """Each request's rows of an output, by their batch sizes."""
        if not self._batching:
            return [output.reshape(1) if output.ndim == 0 else output]
        if output.ndim == 0 or output.shape[0] != sum(sizes):
            raise RuntimeError(
                f"output '{name}' has shape {list(output.shape)} for a batch of {sum(sizes)}: its first dimension must "
                "be the batch. Export the graph so, or set max_batch_size: 0 in config.pbtxt"
            )
        return np.split(output, np.cumsum(sizes)[:-1])

    def _export_providers(self, args: dict[str, str]) -> list[Any]:
        """Write to the log and the metrics which execution provider runs the graph, once it has run."""
        model, version = args["model_name"], args["model_version"]
        try:
            nodes = self._engine.first_inference()
        except Exception as error:  # some graphs do not take zeros of size 1: the model is served anyway
            print(f"onnxruntime: {model} version {version}: execution providers not measured: {error}", flush=True)
            return []
        listed = ", ".join(f"{provider} ({count} node{'s' * (count > 1)})" for provider, count in nodes.items())
        print(f"onnxruntime: {model} version {version} runs on {listed or 'no node at all'}", flush=True)
        about = "Graph nodes that each ONNX Runtime execution provider has"
        labelled = [({"model": model, "version": version, "provider": one}, count) for one, count in nodes.items()]
        return _gauge("fiveway_execution_provider_nodes", about, labelled)

    def _export_threads(self, args: dict[str, str], threads: int) -> list[Any]:
        """Write to the metrics how many threads compute a batch, where a CPU does."""
        if args["model_instance_kind"] != "CPU":
            return []
        labels = {"model": args["model_name"], "version": args["model_version"]}
        return _gauge("fiveway_compute_threads", "Threads that compute one batch", [(labels, threads)])


def _gauge(name: str, about: str, values: Sequence[tuple[dict[str, str], int]]) -> list[Any]:
    """A metric with these labels and values, in parts that must be held: Triton drops what nothing holds."""
    family = pb_utils.MetricFamily(name=name, description=about, kind=pb_utils.MetricFamily.GAUGE)
    held = [family]
    for labels, value in values:
        held.append(family.Metric(labels=labels))
        held[-1].set(value)
    return held


def _self_test() -> None:
    """Send values through the stub's tensors and back, and refuse to serve when they change on the way.

    With numpy 2 this stub answers 200 with wrong values: every input element equals the first, outputs are empty.
    """
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    back = pb_utils.Tensor.from_dlpack("self-test", pb_utils.Tensor("self-test", values).to_dlpack()).as_numpy()
    if not np.array_equal(values, back):
        raise RuntimeError(
            f"self-test failed: tensors change on their way through the stub (numpy {np.__version__}): use numpy 1.26"
        )


def _path_from_command_line() -> Path:
    """The model file of an auto-complete process: its config does not carry it, its command line does."""
    return Path(Path("/proc/self/cmdline").read_text().split("\0")[1])


def _text(name: str, array: NDArray[np.object_]) -> Array:
    """BYTES elements as str, which is what ONNX Runtime's Python API takes as text."""
    try:
        return np.vectorize(bytes.decode, otypes=[object])(array)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"input '{name}' holds an element that is not UTF-8 text ({error}): ONNX strings are UTF-8"
        ) from None


def _refusal(error: Exception) -> Any:
    """The response for a request that failed: INVALID_ARG where the input is at fault, else INTERNAL."""
    # ONNX Runtime's InvalidArgument: a shape or an index that the graph cannot take.
    input_at_fault = isinstance(error, ValueError) or type(error).__name__ == "InvalidArgument"
    code = pb_utils.TritonError.INVALID_ARG if input_at_fault else pb_utils.TritonError.INTERNAL
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(f"{PREFIX}{error}", code))
