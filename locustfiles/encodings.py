"""One array in every form of two protocols: Seldon v1, and KServe v2 as Triton speaks it today.

An encoder is what a client does before it can send anything, so its time is part of what a call costs. Seldon's
`tensor` is always FP64, and its `ndarray` and all JSON hold decimal numbers; the other forms keep the array's own type.
"""

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from google.protobuf.struct_pb2 import ListValue
from numpy.typing import NDArray
from seldon import prediction_pb2
from tensorflow.core.framework import tensor_pb2, tensor_shape_pb2, types_pb2
from tritonclient.grpc.service_pb2 import InferTensorContents, ModelInferRequest

from locustfiles.clients import Payload

Floats = NDArray[np.float64] | NDArray[np.float32]
Encoder = Callable[[Floats], Payload]

RAW: Mapping[str, str] = {"x-mode": "raw"}
"""What makes a Seldon gateway leave the message as it is."""

# By the size of a value: KServe's name, TensorFlow's type, and the field of InferTensorContents.
NAMES = {8: ("FP64", types_pb2.DT_DOUBLE, "fp64_contents"), 4: ("FP32", types_pb2.DT_FLOAT, "fp32_contents")}
_JSON = {"content-type": "application/json"}


def values(count: int, dtype: str = "<f8") -> Floats:
    """One row of `count` consecutive integers, as in the benchmark that Seldon published."""
    return np.arange(count, dtype=dtype).reshape(1, count)


def seldon_http_ndarray(array: Floats) -> Payload:
    return _json({"data": {"ndarray": array.tolist()}})


def seldon_http_tensor(array: Floats) -> Payload:
    return _json({"data": {"tensor": {"shape": array.shape, "values": array.ravel().tolist()}}})


def seldon_http_tftensor(array: Floats) -> Payload:
    """As protobuf's JSON has it: a name for the type, strings for the sizes, base64 for the content."""
    dims = [{"size": str(size)} for size in array.shape]
    content = base64.b64encode(array.tobytes()).decode()
    dtype = types_pb2.DataType.Name(NAMES[array.itemsize][1])
    return _json({"data": {"tftensor": {"dtype": dtype, "tensorShape": {"dim": dims}, "tensorContent": content}}})


def seldon_grpc_ndarray(array: Floats) -> Payload:
    rows = ListValue()
    for row in array:
        rows.add_list().extend(row.tolist())
    return _seldon(prediction_pb2.DefaultData(ndarray=rows))


def seldon_grpc_tensor(array: Floats) -> Payload:
    return _seldon(prediction_pb2.DefaultData(tensor=prediction_pb2.Tensor(shape=array.shape, values=array.ravel())))


def seldon_grpc_tftensor(array: Floats) -> Payload:
    dims = [tensor_shape_pb2.TensorShapeProto.Dim(size=size) for size in array.shape]
    tensor = tensor_pb2.TensorProto(
        dtype=NAMES[array.itemsize][1],
        tensor_shape=tensor_shape_pb2.TensorShapeProto(dim=dims),
        tensor_content=array.tobytes(),
    )
    return _seldon(prediction_pb2.DefaultData(tftensor=tensor))


SELDON: Mapping[tuple[str, str], Encoder] = {
    ("seldon-http", "ndarray"): seldon_http_ndarray,
    ("seldon-http", "tensor"): seldon_http_tensor,
    ("seldon-http", "tftensor"): seldon_http_tftensor,
    ("seldon-grpc", "ndarray"): seldon_grpc_ndarray,
    ("seldon-grpc", "tensor"): seldon_grpc_tensor,
    ("seldon-grpc", "tftensor"): seldon_grpc_tftensor,
}
"""By route and form."""


def kserve_http_json(array: Floats, model: str, tensor: str) -> Payload:
    """`model` is named in the path, not here; `tensor` is the name of its input.

    Triton's parser may read a fraction one unit off in its last place; integers, as in `values`, arrive as they are.
    """
    return _json({"inputs": [_about(array, tensor) | {"data": array.ravel().tolist()}]})


def kserve_http_binary(array: Floats, model: str, tensor: str) -> Payload:
    """The binary extension: a JSON header, then the bytes; the answer in bytes as well."""
    raw = array.tobytes()
    about = _about(array, tensor) | {"parameters": {"binary_data_size": len(raw)}}
    header = json.dumps({"inputs": [about], "parameters": {"binary_data_output": True}}).encode()
    return Payload(header + raw, 1, {"inference-header-content-length": str(len(header))})


def kserve_grpc_typed(array: Floats, model: str, tensor: str) -> Payload:
    """Typed contents: a list of numbers in the message."""
    request = ModelInferRequest(model_name=model)
    contents = InferTensorContents(**{NAMES[array.itemsize][2]: array.ravel()})
    request.inputs.add(**_about(array, tensor), contents=contents)
    return Payload(request.SerializeToString(), 1)


def kserve_grpc_raw(array: Floats, model: str, tensor: str) -> Payload:
    """Raw contents: the array's bytes beside the message's list of inputs."""
    request = ModelInferRequest(model_name=model, raw_input_contents=[array.tobytes()])
    request.inputs.add(**_about(array, tensor))
    return Payload(request.SerializeToString(), 1)


KSERVE: Mapping[tuple[str, str], Callable[[Floats, str, str], Payload]] = {
    ("onnx-http", "JSON"): kserve_http_json,
    ("onnx-http", "binary"): kserve_http_binary,
    ("onnx-grpc", "typed contents"): kserve_grpc_typed,
    ("onnx-grpc", "raw contents"): kserve_grpc_raw,
}
"""By route and form."""


def _about(array: Floats, tensor: str) -> dict[str, Any]:
    return {"name": tensor, "datatype": NAMES[array.itemsize][0], "shape": array.shape}


def _json(message: Mapping[str, Any]) -> Payload:
    return Payload(json.dumps(message, separators=(",", ":")).encode(), 1, _JSON)


def _seldon(data: prediction_pb2.DefaultData) -> Payload:
    return Payload(prediction_pb2.SeldonMessage(data=data).SerializeToString(), 1)
