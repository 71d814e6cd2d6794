"""SeldonMessage, as JSON and as protobuf: from a request to an array, to the model, to the answer.

Mode `decoded` is what Seldon's wrapper does for a model's `predict`: the payload becomes an array, and the answer has
the payload's form. Mode `raw` is its `predict_raw`: the model gets the message as it is, and answers with a tftensor.

There is no model. In the benchmark that Seldon published, the model answers the constant 1. Here the answer to a
decoded message is the sum of its values: also one number, and proof that all values arrived. The answer to a raw
message is 1, because its values are not read.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import orjson
from google.protobuf import json_format
from google.protobuf.struct_pb2 import ListValue, Value
from numpy.typing import NDArray
from seldon import prediction_pb2 as pb
from tensorflow.core.framework import types_pb2
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow.core.framework.tensor_shape_pb2 import TensorShapeProto

from gateways.core.errors import ServeError, Status
from gateways.core.messages import parse
from gateways.core.text import parsed_json
from gateways.core.timing import Stages

Array = NDArray[Any]

MAX_BODY = 8 * 1024 * 1024
"""A million FP64. Parsed lists take many times their size in memory, so a larger body could end the container."""

MAX_VALUES = MAX_BODY // 8
"""A tftensor of a few bytes can fill any shape with one value. So arrays are limited to what a body of FP64 could
hold."""

DECODED, RAW = "decoded", "raw"
FORMS = ("ndarray", "tensor", "tftensor")
ONE: Array = np.ones(1)
EXAMPLE = '{"data": {"ndarray": [[1.0, 2.0]]}}'
SEND = "send data.ndarray, data.tensor or data.tftensor"
NOT_NUMBERS = "data holds a value that is not a number: send numbers only"

# TensorFlow's types that are numbers: numpy's type, and the field that holds values one by one.
DTYPES = {
    types_pb2.DT_FLOAT: ("<f4", "float_val"),
    types_pb2.DT_DOUBLE: ("<f8", "double_val"),
    types_pb2.DT_HALF: ("<f2", "half_val"),
    types_pb2.DT_BOOL: ("?", "bool_val"),
    types_pb2.DT_INT8: ("i1", "int_val"),
    types_pb2.DT_INT16: ("<i2", "int_val"),
    types_pb2.DT_INT32: ("<i4", "int_val"),
    types_pb2.DT_INT64: ("<i8", "int64_val"),
    types_pb2.DT_UINT8: ("u1", "int_val"),
    types_pb2.DT_UINT16: ("<u2", "int_val"),
    types_pb2.DT_UINT32: ("<u4", "uint32_val"),
    types_pb2.DT_UINT64: ("<u8", "uint64_val"),
}


Written = tuple[Callable[[bytes], Any], Callable[[Any], tuple[str, Array]], Callable[[str, Array], bytes]]
"""A message encoding: functions that parse a message, read its form and array, and write an answer."""


def answer(written: Written, body: bytes, mode: str | None, stages: Stages) -> bytes:
    """The answer to a request. Raises ServeError."""
    read, decode, encode = written
    if mode not in (None, DECODED, RAW):
        raise _invalid(f"x-mode is {mode!r}: send {DECODED} or {RAW}, or leave it out")
    with stages.stage("parse"):
        message = read(body)
    form, result = "tftensor", ONE
    if mode != RAW:
        with stages.stage("decode"):
            form, array = decode(message)
        with stages.stage("compute"):
            result = model(array)
    with stages.stage("encode"):
        return encode(form, result)


def model(array: Array) -> Array:
    """The sum, as one FP64."""
    return np.array([array.sum(dtype=np.float64)])


def parse_json(body: bytes) -> dict[str, Any]:
    """A SeldonMessage as JSON. Raises ServeError."""
    message = parsed_json(body, EXAMPLE)
    if not isinstance(message, dict):
        raise _invalid(f"the body is not a SeldonMessage: send {EXAMPLE}")
    return message


def decode_json(message: dict[str, Any]) -> tuple[str, Array]:
    """The form of a parsed JSON message, and its array. Raises ServeError."""
    data = message.get("data")
    if data is None:
        others = ("binData", "strData", "jsonData", "customData")
        raise _no_data(next((name for name in others if name in message), None))
    found = [form for form in FORMS if form in data] if isinstance(data, dict) else []
    if len(found) != 1:
        raise _invalid(f"data has {' and '.join(found) or 'no values'}: {SEND}")
    (form,) = found
    values = data[form]
    if form == "ndarray":
        if not isinstance(values, list):
            raise _invalid("data.ndarray is not a list: send a list of numbers, or of equally long lists")
        return form, _numbers(values)
    if not isinstance(values, dict):
        raise _invalid(f"data.{form} is not an object: {SEND}")
    if form == "tensor":
        shape, flat = values.get("shape", []), values.get("values", [])
        if not isinstance(flat, list) or not isinstance(shape, list) or not all(type(size) is int for size in shape):
            raise _invalid('data.tensor is not {"shape": [integers], "values": [numbers]}')
        return form, _shaped(_numbers(flat).astype(np.float64), shape)
    try:
        return form, _from_tftensor(json_format.ParseDict(values, TensorProto()))
    except json_format.ParseError as error:
        raise _invalid(f"data.tftensor is not a TensorProto: {str(error)[:200]}") from None


def encode_json(form: str, array: Array) -> bytes:
    """An answer that holds an FP64 array."""
    values: object = array.tolist()
    if form == "tensor":
        values = {"shape": array.shape, "values": array.ravel().tolist()}
    elif form == "tftensor":
        values = json_format.MessageToDict(_to_tftensor(array))
    return orjson.dumps({"data": {"names": [], form: values}, "meta": {}})


def decode_proto(message: pb.SeldonMessage) -> tuple[str, Array]:
    """The form of a message, and its array. The message is emptied. Raises ServeError."""
    kind, data = message.WhichOneof("data_oneof"), message.data
    if kind != "data":
        raise _no_data(kind)
    match form := data.WhichOneof("data_oneof"):
        case "ndarray":
            return form, _numbers(_plain(data.ndarray))
        case "tensor":
            return form, _from_tensor(data.tensor)
        case "tftensor":
            return form, _from_tftensor(data.tftensor)
    raise _invalid(f"data has no values: {SEND}")


def encode_proto(form: str, array: Array) -> bytes:
    """The same as a serialized SeldonMessage."""
    values: Any
    if form == "ndarray":
        values = ListValue()
        values.extend(array.tolist())
    elif form == "tensor":
        values = pb.Tensor(shape=array.shape, values=array.ravel())
    else:
        values = _to_tftensor(array)
    return pb.SeldonMessage(data=pb.DefaultData(**{form: values}), meta=pb.Meta()).SerializeToString()


JSON: Written = (parse_json, decode_json, encode_json)
PROTO: Written = (partial(parse, pb.SeldonMessage, proto="Seldon's prediction.proto"), decode_proto, encode_proto)


def _from_tensor(tensor: pb.Tensor) -> Array:
    """Once its other fields are cleared, a serialized Tensor ends with its packed values. Reading them there is many
    times faster than one by one."""
    shape, count = list(tensor.shape), len(tensor.values)
    tensor.ClearField("shape")
    tensor.DiscardUnknownFields()
    packed = tensor.SerializeToString()
    return _shaped(np.frombuffer(packed, "<f8", count, len(packed) - 8 * count), shape)


def _from_tftensor(tensor: TensorProto) -> Array:
    """Read as TensorFlow does: either the content in one piece, or a list of values, the last of which fills the rest
    of the shape."""
    if tensor.dtype not in DTYPES:
        name = types_pb2.DataType.Name(tensor.dtype) if tensor.dtype in types_pb2.DataType.values() else tensor.dtype
        raise _invalid(f"data.tftensor.dtype is {name}: send a type of numbers, DT_DOUBLE for one")
    if tensor.tensor_shape.unknown_rank:
        raise _invalid("data.tftensor.tensorShape has an unknown rank: send the whole shape")
    dtype, field = DTYPES[tensor.dtype]
    shape, content = [dim.size for dim in tensor.tensor_shape.dim], tensor.tensor_content
    if content:
        if len(content) % np.dtype(dtype).itemsize:
            raise _invalid(f"data.tftensor.tensorContent has {len(content)} bytes: not a number of {dtype}")
        return _shaped(np.frombuffer(content, dtype), shape)
    count = _count(shape)
    try:
        values = np.array(getattr(tensor, field), "<u2" if field == "half_val" else dtype).view(dtype)
    except OverflowError:
        text = f"data.tftensor.{field} has a value that is not of type {dtype}: send values of the tensor's type"
        raise _invalid(text) from None
    if len(values) < count:
        values = np.pad(values, (0, count - len(values)), "edge") if len(values) else np.zeros(count, dtype)
    return _shaped(values, shape)


def _to_tftensor(array: Array) -> TensorProto:
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in array.shape])
    return TensorProto(dtype=types_pb2.DT_DOUBLE, tensor_shape=shape, double_val=array.ravel())


def _plain(values: ListValue) -> list[Any]:
    return [_value(value) for value in values.values]


def _value(value: Value) -> Any:
    match value.WhichOneof("kind"):
        case "number_value":
            return value.number_value
        case "list_value":
            return _plain(value.list_value)
        case "bool_value":
            return value.bool_value
    raise _invalid(NOT_NUMBERS)


def _numbers(values: list[Any]) -> Array:
    try:
        array = np.array(values)
    except ValueError:
        raise _invalid("data holds lists of different lengths: send equally long lists") from None
    if array.dtype.kind not in "biuf":
        raise _invalid(NOT_NUMBERS)
    _bound(array.size)
    return array


def _shaped(values: Array, shape: list[int]) -> Array:
    count = _count(shape)
    if len(values) != count:
        raise _invalid(
            f"shape {shape} holds {count} values and there are {len(values)}: send as many as the shape says"
        )
    return values.reshape(shape)


def _count(shape: list[int]) -> int:
    if any(size < 0 for size in shape) or len(shape) > 32:
        raise _invalid(f"invalid shape {shape[:32]}: send at most 32 non-negative dimensions")
    return _bound(math.prod(shape))


def _bound(count: int) -> int:
    if count > MAX_VALUES:
        raise ServeError(Status.TOO_LARGE, f"{count:,} values: send at most {MAX_VALUES:,}")
    return count


def _no_data(kind: str | None) -> ServeError:
    if kind is None:
        return _invalid(f"the message has no data: {SEND}")
    return _invalid(f"{kind} holds no array: {SEND}, or anything with x-mode: {RAW}")


def _invalid(message: str) -> ServeError:
    return ServeError(Status.INVALID, message)
