"""Compares an ONNX graph's inputs and outputs with the model's config.pbtxt.

Configs are Triton's own, as dicts (config.pbtxt in JSON form). Dims are as in the graph: the batch dimension included,
-1 where variable.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Config = dict[str, Any]

# max_batch_size of a model that can batch and does not say: the default of Triton's own onnxruntime backend.
DEFAULT_MAX_BATCH_SIZE = 4

_SAME = ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "string")
DATA_TYPES = {f"tensor({name})": f"TYPE_{name.upper()}" for name in _SAME} | {
    "tensor(float16)": "TYPE_FP16",
    "tensor(float)": "TYPE_FP32",
    "tensor(double)": "TYPE_FP64",
}
"""What ONNX Runtime and Triton call the same type."""


class ConfigError(Exception):
    """The model cannot be served as configured. The message is for whoever wrote the config or exported the graph."""


@dataclass(frozen=True)
class Tensor:
    """One input or output of a graph. `dims` is () for a scalar, and where the graph does not say the rank."""

    name: str
    data_type: str
    dims: tuple[int, ...]

    @classmethod
    def of(cls, name: str, onnx_type: str, shape: Sequence[int | str | None]) -> "Tensor":
        """From what an ONNX Runtime session says. Raises ConfigError for a type that Triton does not have."""
        if onnx_type not in DATA_TYPES:
            raise ConfigError(
                f"'{name}' is a {onnx_type}, which this backend cannot carry: export one of {', '.join(DATA_TYPES)}"
            )
        dims = tuple(dim if isinstance(dim, int) and dim >= 0 else -1 for dim in shape)
        return cls(name, DATA_TYPES[onnx_type], dims)


@dataclass(frozen=True)
class Signature:
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    # Inputs that have a default value in the graph: a config may leave them out.
    defaulted: tuple[Tensor, ...] = ()


def is_complete(config: Config) -> bool:
    """Whether the config names inputs and outputs. Triton's own backend then completes nothing, and neither do we."""
    return bool((config["input"] or config["batch_input"]) and config["output"])


def complete(config: Config, graph: Signature) -> None:
    """Fill in what the config leaves out, as Triton's own onnxruntime backend does: tensors, batch size, scheduler."""
    can_batch = all(tensor.dims and tensor.dims[0] == -1 for tensor in graph.inputs + graph.outputs)
    if not can_batch and config["max_batch_size"]:
        raise ConfigError(
            f"max_batch_size is {config['max_batch_size']}, but the graph cannot batch: "
            "every input and output must have a variable first dimension. Export it so, or set max_batch_size: 0"
        )
    if can_batch and not config["max_batch_size"]:
        config["max_batch_size"] = DEFAULT_MAX_BATCH_SIZE
    if config["max_batch_size"] > 1 and not {"dynamic_batching", "sequence_batching"} & set(config):
        config["dynamic_batching"] = {}
    batching = config["max_batch_size"] > 0
    config["input"] = config["input"] or [_described(tensor, batching) for tensor in graph.inputs]
    config["output"] = config["output"] or [_described(tensor, batching) for tensor in graph.outputs]


def _described(tensor: Tensor, batching: bool) -> Config:
    dims = tensor.dims[1:] if batching else tensor.dims
    described: Config = {"name": tensor.name, "data_type": tensor.data_type, "dims": list(dims) or [1]}
    # A config cannot say "scalar": it says one element, and with batching how to reshape that to none.
    return described | ({"reshape": {"shape": []}} if batching and not dims else {})


def check(config: Config, graph: Signature) -> None:
    """Raise ConfigError if the config asks for something that the graph lacks or this backend cannot do."""
    sequence = config.get("sequence_batching", {})
    ragged = [tensor for tensor in config["input"] if tensor["allow_ragged_batch"]]
    for what, where, instead in (
        (config["batch_input"], "batch_input", "compute it in the graph"),
        (config["batch_output"], "batch_output", "compute it in the graph"),
        (sequence.get("state"), "sequence_batching.state", "pass the state as an input and an output"),
        (ragged, "allow_ragged_batch", "pad the input, or turn batching off"),
    ):
        if what:
            raise ConfigError(f"{where} is not supported by this CPU backend: {instead}")

    batching = config["max_batch_size"] > 0
    inputs = {tensor.name: tensor for tensor in graph.inputs + graph.defaulted}
    _compare(config["input"], inputs, "input", batching)
    _compare(config["output"], {tensor.name: tensor for tensor in graph.outputs}, "output", batching)
    given = {tensor["name"] for tensor in config["input"] + sequence.get("control_input", [])}
    missing = [tensor.name for tensor in graph.inputs if tensor.name not in given]
    if missing:
        raise ConfigError(f"the graph also needs the input(s) {_names(missing)}: add them to config.pbtxt")


def _compare(configured: list[Config], graph: dict[str, Tensor], kind: str, batching: bool) -> None:
    for entry in configured:
        name = entry["name"]
        if name not in graph:
            raise ConfigError(f"unexpected {kind} '{name}' in config.pbtxt: the graph has {_names(graph)}")
        tensor = graph[name]
        if entry["data_type"] != tensor.data_type:
            raise ConfigError(
                f"{kind} '{name}' is {entry['data_type']} in config.pbtxt and {tensor.data_type} in the graph"
            )
        dims = served_dims(entry, batching)
        # () may mean that the graph does not say: then the first inference tells.
        if tensor.dims and not _compatible(dims, tensor.dims):
            first = " (the first is the batch, from max_batch_size > 0)" if batching else ""
            raise ConfigError(
                f"{kind} '{name}' has dims {list(dims)}{first} in config.pbtxt "
                f"and {list(tensor.dims)} in the graph (-1 = variable)"
            )


def served_dims(entry: Config, batching: bool) -> tuple[int, ...]:
    """The dims that the backend sees for one input or output of the config: after `reshape`, batch included."""
    dims = entry["reshape"]["shape"] if "reshape" in entry else entry["dims"]
    return ((-1,) if batching else ()) + tuple(int(dim) for dim in dims)


def _compatible(configured: tuple[int, ...], graph: tuple[int, ...]) -> bool:
    """Equal, or one of the two leaves the dimension open."""
    if len(configured) != len(graph):
        return False
    # Not the batch dimension: a graph that fixes it cannot take what the batcher makes.
    pairs = zip(configured, graph, strict=True)
    return all(a == b or b == -1 or (a == -1 and position > 0) for position, (a, b) in enumerate(pairs))


def _names(names: Any) -> str:
    return ", ".join(f"'{name}'" for name in names)
