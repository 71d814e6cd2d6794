"""The rows of study `encodings`: an array in the forms of Seldon's v1 protocol, a photo's tensor in those of KServe v2.

Seldon's rows ask its gateways without a model, as the published benchmark did; those of KServe ask the served model on
Triton.
"""

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import ListValue
from numpy.typing import NDArray
from seldon import prediction_pb2
from tensorflow.core.framework import tensor_pb2, tensor_shape_pb2, types_pb2
from tritonclient.grpc.service_pb2 import InferTensorContents, ModelInferRequest

from locustfiles import answers, payloads
from locustfiles.answers import WrongAnswer
from locustfiles.clients import Answer, Payload
from locustfiles.payloads import Images
from locustfiles.routes import ROUTES, Format, Route

MANY = "100000"
FORMS = ("ndarray", "tensor", "tftensor")
_JSON = {"content-type": "application/json"}


@cache
def values(count: str) -> NDArray[np.float64]:
    """One row of so many consecutive integers, as in the published benchmark."""
    return np.arange(int(count), dtype="<f8").reshape(1, -1)


def http_ndarray(images: Images) -> Payload:
    return _json({"data": {"ndarray": values(images.size).tolist()}})


def http_tensor(images: Images) -> Payload:
    array = values(images.size)
    return _json({"data": {"tensor": {"shape": array.shape, "values": array.ravel().tolist()}}})


def http_tftensor(images: Images) -> Payload:
    """As protobuf's JSON has it: a name for the type, strings for the sizes, base64 for the content."""
    array = values(images.size)
    dims = [{"size": str(size)} for size in array.shape]
    content = base64.b64encode(array.tobytes()).decode()
    return _json({"data": {"tftensor": {"dtype": "DT_DOUBLE", "tensorShape": {"dim": dims}, "tensorContent": content}}})


def grpc_ndarray(images: Images) -> Payload:
    rows = ListValue()
    for row in values(images.size):
        rows.add_list().extend(row.tolist())
    return _seldon(prediction_pb2.DefaultData(ndarray=rows))


def grpc_tensor(images: Images) -> Payload:
    array = values(images.size)
    return _seldon(prediction_pb2.DefaultData(tensor=prediction_pb2.Tensor(shape=array.shape, values=array.ravel())))


def grpc_tftensor(images: Images) -> Payload:
    array = values(images.size)
    dims = [tensor_shape_pb2.TensorShapeProto.Dim(size=size) for size in array.shape]
    tensor = tensor_pb2.TensorProto(
        dtype=types_pb2.DT_DOUBLE,
        tensor_shape=tensor_shape_pb2.TensorShapeProto(dim=dims),
        tensor_content=array.tobytes(),
    )
    return _seldon(prediction_pb2.DefaultData(tftensor=tensor))


ENCODERS: Mapping[tuple[str, str], payloads.Encoder] = {
    ("seldon-http", "ndarray"): http_ndarray,
    ("seldon-http", "tensor"): http_tensor,
    ("seldon-http", "tftensor"): http_tftensor,
    ("seldon-grpc", "ndarray"): grpc_ndarray,
    ("seldon-grpc", "tensor"): grpc_tensor,
    ("seldon-grpc", "tftensor"): grpc_tftensor,
}
"""By gateway and form."""


def read_http(answer: Answer) -> NDArray[np.float64]:
    """The array of a SeldonMessage in JSON. Raises WrongAnswer."""
    try:
        return _array(json_format.Parse(answer.body, prediction_pb2.SeldonMessage()).data)
    except (json_format.ParseError, ValueError) as error:
        raise WrongAnswer("not a SeldonMessage with an array") from error


def read_grpc(answer: Answer) -> NDArray[np.float64]:
    """The array of a SeldonMessage. Raises WrongAnswer."""
    try:
        return _array(prediction_pb2.SeldonMessage.FromString(answer.body).data)
    except (DecodeError, ValueError) as error:
        raise WrongAnswer("not a SeldonMessage with an array") from error


def _array(data: prediction_pb2.DefaultData) -> NDArray[np.float64]:
    """Of an answer: a small array of FP64, in the form of its request."""
    form = data.WhichOneof("data_oneof")
    if form == "ndarray":
        return np.array([value.number_value for value in data.ndarray.values])
    if form == "tensor":
        return np.array(data.tensor.values).reshape(data.tensor.shape)
    return np.array(data.tftensor.double_val).reshape([dim.size for dim in data.tftensor.tensor_shape.dim])


def check_http(answer: Answer, _: int) -> None:
    _expect_one(read_http(answer))


def check_grpc(answer: Answer, _: int) -> None:
    _expect_one(read_grpc(answer))


def _expect_one(array: NDArray[np.float64]) -> None:
    if array.shape != (1,):
        raise WrongAnswer(f"an array of shape {array.shape} where one number is the answer")


def kserve_json(images: Images) -> Payload:
    """KServe v2 as it is without extensions: the tensor's numbers in JSON, and the embedding's in the answer.

    Triton's parser may read a fraction one unit off in its last place.
    """
    batch = payloads.tensor(images)
    about = {"name": "image", "datatype": "FP32", "shape": batch.shape, "data": batch.ravel().tolist()}
    return replace(_json({"inputs": [about], "outputs": [{"name": "embedding"}]}), images=len(batch))


def kserve_typed(images: Images) -> Payload:
    """KServe v2 over gRPC with typed contents: a list of numbers in the message. Triton answers in raw contents."""
    batch = payloads.tensor(images)
    request = ModelInferRequest(model_name=images.served)
    contents = InferTensorContents(fp32_contents=batch.ravel())
    request.inputs.add(name="image", datatype="FP32", shape=batch.shape, contents=contents)
    request.outputs.add(name="embedding")
    return Payload(request.SerializeToString(), len(batch))


def read_json_tensor(answer: Answer) -> NDArray[np.float32]:
    """The embeddings [N,D] of a KServe v2 answer in JSON. Raises ValueError, LookupError or TypeError."""
    (output,) = json.loads(answer.body)["outputs"]
    return np.array(output["data"], "<f4").reshape(output["shape"])


def check_json_tensor(answer: Answer, images: int) -> None:
    """As many numbers as the shape says, a row per image."""
    try:
        (output,) = json.loads(answer.body)["outputs"]
        shape, count = output["shape"], len(output["data"])
    except (ValueError, LookupError, TypeError) as error:
        raise WrongAnswer("not a KServe v2 answer with one output in JSON") from error
    if shape[:1] != [images] or not count or count != math.prod(shape):
        raise WrongAnswer(f"{count} numbers of shape {shape} for {images} images")


def _json(message: Mapping[str, Any]) -> Payload:
    return Payload(json.dumps(message, separators=(",", ":")).encode(), 1)


def _seldon(data: prediction_pb2.DefaultData) -> Payload:
    return Payload(prediction_pb2.SeldonMessage(data=data).SerializeToString(), 1)


RAW = "-raw"
"""Ends the name of a row that asks `predict_raw`: the gateway parses the message, and makes no array of it."""


def _row(gateway: str, form: str, mode: str) -> Route:
    encode = ENCODERS[gateway, form]
    if gateway == "seldon-http":
        path, direct = "/api/v1.0/predictions", "seldon-http:8000"
        spoken = Format("HTTP", encode, check_http, read_http, _JSON, max_batch=1)
    else:
        path, direct = "/seldon.protos.Seldon/Predict", "seldon-grpc:50051"
        spoken = Format("gRPC", encode, check_grpc, read_grpc, max_batch=1)
    return Route(
        f"{gateway}-{form}{mode}",
        path,
        direct,
        spoken,
        headers={"x-mode": "raw"} if mode else {},
        of=gateway,
        # Raw, the gateway looks at no value: it answers 1.
        asks="one" if mode else "sum",
        modelless=True,
    )


METHODS = {"": "predict", RAW: "predict_raw"}
SELDON = {row.name: row for row in (_row(gateway, form, mode) for mode in METHODS for gateway, form in ENCODERS)}
KSERVE = {
    "onnx-http-json": replace(
        ROUTES["onnx-http"],
        name="onnx-http-json",
        of="onnx-http",
        format=Format("HTTP", kserve_json, check_json_tensor, read_json_tensor, _JSON),
    ),
    "onnx-http": ROUTES["onnx-http"],
    "onnx-grpc-typed": replace(
        ROUTES["onnx-grpc"],
        name="onnx-grpc-typed",
        of="onnx-grpc",
        format=Format("gRPC", kserve_typed, answers.kserve_grpc, answers.read_kserve_grpc),
    ),
    "onnx-grpc": ROUTES["onnx-grpc"],
}
ROWS: Mapping[str, Route] = SELDON | KSERVE
