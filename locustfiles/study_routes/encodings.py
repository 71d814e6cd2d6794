"""The rows of study `encodings`: an array in the forms of Seldon's v1 protocol, a photo's tensor in those of KServe v2.

Seldon's rows ask its gateways without a model, as the published benchmark did; those of KServe ask the served model on
Triton.
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import product, starmap
from typing import Any

import numpy as np
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import ListValue
from numpy.typing import NDArray
from seldon.prediction_pb2 import DefaultData, SeldonMessage, Tensor
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto
from tensorflow.core.framework.types_pb2 import DT_DOUBLE
from tritonclient.grpc.service_pb2 import InferTensorContents, ModelInferRequest

from locustfiles import answers, payloads
from locustfiles.answers import WrongAnswer
from locustfiles.clients import Answer, Payload
from locustfiles.payloads import Images
from locustfiles.routes import ROUTES, Format, Route, by_name

MANY = "100000"
FORMS = ("ndarray", "tensor", "tftensor")
GATEWAYS = REST, GRPC = "seldon-http", "seldon-grpc"
RAW = "-raw"
"""Ends the name of a row that asks `predict_raw`: the gateway parses the message, and makes no array of it."""
MODES = ("", RAW)
_JSON = {"content-type": "application/json"}


@cache
def values(count: str) -> NDArray[np.float64]:
    """One row of so many consecutive integers, as in the published benchmark."""
    return np.arange(int(count), dtype="<f8").reshape(1, -1)


def seldon_json(form: str, images: Images) -> Payload:
    """A tftensor in protobuf's JSON form: a name for the type, strings for the sizes, base64 for the content."""
    array = values(images.size)
    data: Any
    if form == "ndarray":
        data = array.tolist()
    elif form == "tensor":
        data = {"shape": array.shape, "values": array.ravel().tolist()}
    else:
        dims = [{"size": str(size)} for size in array.shape]
        content = base64.b64encode(array.tobytes()).decode()
        data = {"dtype": "DT_DOUBLE", "tensorShape": {"dim": dims}, "tensorContent": content}
    return _json({"data": {form: data}})


def seldon_proto(form: str, images: Images) -> Payload:
    array = values(images.size)
    data: Any
    if form == "ndarray":
        data = ListValue()
        for row in array:
            data.add_list().extend(row.tolist())
    elif form == "tensor":
        data = Tensor(shape=array.shape, values=array.ravel())
    else:
        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in array.shape])
        data = TensorProto(dtype=DT_DOUBLE, tensor_shape=shape, tensor_content=array.tobytes())
    return Payload(SeldonMessage(data=DefaultData(**{form: data})).SerializeToString(), 1)


def from_json(body: bytes) -> SeldonMessage:
    return json_format.Parse(body, SeldonMessage())


def read_seldon(parse: Callable[[bytes], SeldonMessage], answer: Answer) -> NDArray[np.float64]:
    """The small array of FP64 of an answer, in the form of its request. Raises WrongAnswer."""
    try:
        data = parse(answer.body).data
        match data.WhichOneof("data_oneof"):
            case "ndarray":
                return np.array([value.number_value for value in data.ndarray.values])
            case "tensor":
                return np.array(data.tensor.values).reshape(data.tensor.shape)
        return np.array(data.tftensor.double_val).reshape([dim.size for dim in data.tftensor.tensor_shape.dim])
    except (json_format.ParseError, DecodeError, ValueError) as error:
        raise WrongAnswer("not a SeldonMessage with an array") from error


def check_seldon(parse: Callable[[bytes], SeldonMessage], answer: Answer, _: int) -> None:
    shape = read_seldon(parse, answer).shape
    if shape != (1,):
        raise WrongAnswer(f"an array of shape {shape} where one number is the answer")


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


def _json(message: Mapping[str, Any]) -> Payload:
    return Payload(json.dumps(message, separators=(",", ":")).encode(), 1)


def _row(mode: str, gateway: str, form: str) -> Route:
    parse: Callable[[bytes], SeldonMessage]
    if gateway == REST:
        path, direct = "/api/v1.0/predictions", "seldon-http:8000"
        protocol, encode, parse, headers = "HTTP", seldon_json, from_json, _JSON
    else:
        path, direct = "/seldon.protos.Seldon/Predict", "seldon-grpc:50051"
        protocol, encode, parse, headers = "gRPC", seldon_proto, SeldonMessage.FromString, {}
    check, read = partial(check_seldon, parse), partial(read_seldon, parse)
    return Route(
        f"{gateway}-{form}{mode}",
        path,
        direct,
        Format(protocol, partial(encode, form), check, read, headers, max_batch=1),
        headers={"x-mode": "raw"} if mode else {},
        of=gateway,
        # Raw, the gateway looks at no value: it answers 1.
        asks="one" if mode else "sum",
    )


SELDON = by_name(*starmap(_row, product(MODES, GATEWAYS, FORMS)))
_PLAIN = Format("HTTP", kserve_json, answers.kserve_http, read_json_tensor, _JSON)
_TYPED = Format("gRPC", kserve_typed, answers.kserve_grpc, answers.read_kserve_grpc)
KSERVE = by_name(
    ROUTES["onnx-http"].asked_as("json", _PLAIN),
    ROUTES["onnx-http"],
    ROUTES["onnx-grpc"].asked_as("typed", _TYPED),
    ROUTES["onnx-grpc"],
)
ROWS: Mapping[str, Route] = {**SELDON, **KSERVE}
