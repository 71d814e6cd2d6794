"""`encodings`: one array in every form of Seldon's v1 protocol, and one photo's tensor in every form of KServe v2.

An encoder is what a client does before it can send anything: its time is the column "client encode". Seldon's rows ask
its gateways without a model, as the published benchmark did; those of KServe ask the served model on Triton.
"""

import base64
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from google.protobuf.struct_pb2 import ListValue
from numpy.typing import NDArray
from seldon import prediction_pb2
from tensorflow.core.framework import tensor_pb2, tensor_shape_pb2, types_pb2
from tritonclient.grpc.service_pb2 import InferTensorContents, ModelInferRequest, ModelInferResponse

from bench.measure.measured import Cell
from bench.studies.study import HIGHER, LOWER, MEDIAN, RATE, Claim, Study, cross, rows_of
from locustfiles import answers, payloads
from locustfiles.answers import WrongAnswer
from locustfiles.clients import Answer, Payload
from locustfiles.payloads import Images
from locustfiles.routes import ROUTES, Format, Route

MANY, ONE = "100000", "1"
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


def read_raw_tensor(answer: Answer) -> NDArray[np.float32]:
    """The embeddings [N,D] of a KServe v2 answer over gRPC."""
    message = ModelInferResponse.FromString(answer.body)
    return np.frombuffer(message.raw_output_contents[0], "<f4").reshape(message.outputs[0].shape)


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
        spoken = Format("HTTP", encode, check_http, _JSON, max_batch=1, read=read_http)
    else:
        path, direct = "/seldon.protos.Seldon/Predict", "seldon-grpc:50051"
        spoken = Format("gRPC", encode, check_grpc, max_batch=1, read=read_grpc)
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


_METHODS = {"": "predict", RAW: "predict_raw"}
SELDON = {row.name: row for row in (_row(gateway, form, mode) for mode in _METHODS for gateway, form in ENCODERS)}
KSERVE = {
    "onnx-http-json": replace(
        ROUTES["onnx-http"],
        name="onnx-http-json",
        of="onnx-http",
        format=Format("HTTP", kserve_json, check_json_tensor, _JSON, read=read_json_tensor),
    ),
    "onnx-http": ROUTES["onnx-http"],
    "onnx-grpc-typed": replace(
        ROUTES["onnx-grpc"],
        name="onnx-grpc-typed",
        of="onnx-grpc",
        format=Format("gRPC", kserve_typed, answers.kserve_grpc, read=read_raw_tensor),
    ),
    "onnx-grpc": ROUTES["onnx-grpc"],
}

QUICK = (*(name for name in SELDON if RAW not in name), "seldon-http-ndarray-raw", "seldon-grpc-ndarray-raw")


def cells(quick: bool) -> list[Cell]:
    seldon = cross(Cell("", ""), size=(MANY,) if quick else (MANY, ONE), route=QUICK if quick else tuple(SELDON))
    return seldon + cross(Cell("", ""), route=tuple(KSERVE))


_GATEWAYS = {"seldon-http": "REST", "seldon-grpc": "gRPC"}
_PUBLISHED = {
    (f"{gateway}-{row['encoding']}{mode}", row["values"]): float(row["run_ms"])
    for row in rows_of("encodings_mean_ms.csv")
    for gateway, mode in product(_GATEWAYS, _METHODS)
    if (_GATEWAYS[gateway], _METHODS[mode]) == (row["protocol"], row["method"])
}


def published(cell: Mapping[str, Any]) -> Mapping[str, float]:
    """The published mean of a row at a number of values: one core, through a port-forward."""
    found = _PUBLISHED.get((cell["name"], cell["size"]))
    return {} if found is None else {"one core in Kubernetes": found}


def _against(a: str, b: str, size: str) -> str:
    """`5.33 ms against 15.76 ms`"""
    return f"{_PUBLISHED[a, size]:.2f} ms against {_PUBLISHED[b, size]:.2f} ms"


def _pairs() -> dict[tuple[str, str], str]:
    pairs = {
        (f"seldon-grpc-{form}{mode}", f"seldon-http-{form}{mode}"): "protocol" for mode in _METHODS for form in FORMS
    }
    pairs |= {(f"{gateway}-{form}{RAW}", f"{gateway}-{form}"): "mode" for gateway, form in ENCODERS}
    for gateway, mode in product(_GATEWAYS, _METHODS):
        ndarray, tensor, tftensor = (f"{gateway}-{form}{mode}" for form in FORMS)
        pairs |= {(tensor, ndarray): "form", (tftensor, ndarray): "form", (tftensor, tensor): "form"}
    return pairs | {
        ("onnx-http-json", "onnx-http"): "form",
        ("onnx-grpc-typed", "onnx-grpc"): "form",
        ("onnx-grpc", "onnx-http"): "protocol",
        ("onnx-grpc", "onnx-http-json"): "form and protocol",
    }


def _sized(size: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda cell: bool(cell["size"] == size)


_many, _one = _sized(MANY), _sized(ONE)

CLAIMS = (
    Claim(
        "E1",
        "gRPC is faster than REST (100,000 values as tensor or tftensor, building the request not counted)",
        f"tftensor {_against('seldon-grpc-tftensor', 'seldon-http-tftensor', MANY)}, tensor "
        f"{_against('seldon-grpc-tensor', 'seldon-http-tensor', MANY)}",
        [(f"seldon-grpc-{form}{mode}", f"seldon-http-{form}{mode}") for mode in _METHODS for form in FORMS[1:]],
        LOWER,
        where=_many,
    ),
    Claim(
        "E2",
        "gRPC is faster than REST (1 value, decoded)",
        f"ndarray {_against('seldon-grpc-ndarray', 'seldon-http-ndarray', ONE)}, tftensor "
        f"{_against('seldon-grpc-tftensor', 'seldon-http-tftensor', ONE)}",
        [(f"seldon-grpc-{form}", f"seldon-http-{form}") for form in FORMS],
        LOWER,
        where=_one,
    ),
    Claim(
        "E3",
        "tftensor is best for a large batch (100,000 values; building the request not counted)",
        f"REST {_against('seldon-http-tftensor', 'seldon-http-tensor', MANY)} of tensor, gRPC "
        f"{_against('seldon-grpc-tftensor', 'seldon-grpc-tensor', MANY)}",
        [
            (f"{gateway}-tftensor{mode}", f"{gateway}-{form}{mode}")
            for gateway, mode, form in product(_GATEWAYS, _METHODS, FORMS[:2])
        ],
        LOWER,
        where=_many,
    ),
    Claim(
        "E4",
        "ndarray with gRPC is bad for a large batch: 32 times the tensor's time",
        _against("seldon-grpc-ndarray", "seldon-grpc-tensor", MANY),
        [("seldon-grpc-tensor", "seldon-grpc-ndarray")],
        LOWER,
        where=_many,
        size=_PUBLISHED["seldon-grpc-ndarray", MANY] / _PUBLISHED["seldon-grpc-tensor", MANY],
    ),
    Claim(
        "E5",
        "ndarray with gRPC is slower than ndarray with REST (100,000 values, decoded or raw)",
        f"decoded {_against('seldon-grpc-ndarray', 'seldon-http-ndarray', MANY)}, raw "
        f"{_against('seldon-grpc-ndarray-raw', 'seldon-http-ndarray-raw', MANY)}",
        [(f"seldon-grpc-ndarray{mode}", f"seldon-http-ndarray{mode}") for mode in _METHODS],
        HIGHER,
        where=_many,
    ),
    Claim(
        "E6",
        "The simpler tensor and ndarray are better for a small batch (1 value)",
        f"REST {_against('seldon-http-tensor', 'seldon-http-tftensor', ONE)} of tftensor, gRPC "
        f"{_against('seldon-grpc-tensor', 'seldon-grpc-tftensor', ONE)}",
        [(f"{gateway}-tftensor", f"{gateway}-{form}") for gateway, form in product(_GATEWAYS, FORMS[:2])],
        HIGHER,
        where=_one,
    ),
    Claim(
        "E7",
        "predict_raw is faster than predict (100,000 values)",
        f"REST ndarray {_against('seldon-http-ndarray-raw', 'seldon-http-ndarray', MANY)}, gRPC ndarray "
        f"{_against('seldon-grpc-ndarray-raw', 'seldon-grpc-ndarray', MANY)}, but gRPC tensor "
        f"{_against('seldon-grpc-tensor-raw', 'seldon-grpc-tensor', MANY)}",
        [(f"{gateway}-{form}{RAW}", f"{gateway}-{form}") for gateway, form in ENCODERS],
        LOWER,
        where=_many,
    ),
)


def answer(result: Mapping[str, Any]) -> str:
    """Which form to send, by what it costs in all: client encode, the median call and client decode."""
    factors = {cell["id"]: (cell["name"], cell["size"]) for cell in result["cells"]}
    sums = {
        factors[cell["id"]]: cell["encode_ms"] + cell["p50_ms"]["value"] + (cell["decode_ms"] or 0.0)
        for cell in result["analysis"]["cells"]
        if cell["p50_ms"] and not cell["marks"]
    }
    said = []
    for what, names, size in (
        ("an image's tensor to Triton", KSERVE, ""),
        ("100,000 values in Seldon's v1 protocol, decoded,", [name for name in SELDON if RAW not in name], MANY),
    ):
        ranked = sorted((sums[name, size], name) for name in names if (name, size) in sums)
        if len(ranked) > 1:
            (least, best), *others = ranked
            rest = ", ".join(f"{name} {ms:.3g} ms" for ms, name in others)
            if left_out := [name for name in names if (name, size) in factors.values() and (name, size) not in sums]:
                rest += f"; not ranked, because no verdict may rest on it: {', '.join(left_out)}"
            said.append(f"{what} costs least as {best}: {least:.3g} ms to encode, call and decode ({rest})")
    return f"On this machine {'; '.join(said)}." if said else ""


ENCODINGS = Study(
    name="encodings",
    question="In which form should a client send numbers to a model server?",
    source="means in Python Wrapper Benchmarking, GitHub repository SeldonIO/seldon-core, "
    "testing/benchmarking/python/python_serialization.ipynb",
    routes=SELDON | KSERVE,
    cells=cells,
    pairs=_pairs(),
    measures=(MEDIAN, RATE),
    columns=("size",),
    unit="values",
    claims=CLAIMS,
    published=published,
    flaws=(
        (
            "Requests were built outside the clock: raw gRPC with tftensor made 42 calls a second at a mean of 5 ms",
            "the column encode, which is what a client pays before each call",
        ),
        (
            "REST was measured with vegeta and gRPC with ghz, two clients of different cost",
            "one load generator for both, with one connection each; its CPU is in each row",
        ),
        (
            "All numbers were integers, which are short in JSON",
            "the four forms of KServe v2, which carry a real photo's tensor: fractions",
        ),
    ),
    advice=(
        "Send arrays as bytes: the binary extension over HTTP, raw_input_contents over gRPC, tftensor in Seldon's v1.",
        "A form that lists numbers one by one is paid three times: to build it, to carry it and to parse it.",
        "Count what it costs to build the request: no server sees it, and every client pays it.",
    ),
    answer=answer,
    # With one user no call waits for another's work in the load process: its own is what a client pays.
    gate=math.inf,
    seconds=1.9,
    # A photo's tensor in JSON is long to parse: a p50 needs 10 calls in the quick form too.
    least=lambda cell: 0.9 if cell.route == "onnx-http-json" else 0.0,
    warm_s=0.5,
)
