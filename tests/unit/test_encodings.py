"""The payloads of the `encodings` study: every form says the same values."""

import json

import numpy as np
import pytest
from seldon import prediction_pb2
from tritonclient.grpc.service_pb2 import ModelInferRequest

from gateways.seldon import payload
from locustfiles.clients import Payload
from locustfiles.encodings import KSERVE, SELDON, Floats, values

SIZES = pytest.mark.parametrize("count", [1, 100_000])
DTYPES = pytest.mark.parametrize("dtype", ["<f8", "<f4"])


def seldon(route: str, body: bytes) -> tuple[str, Floats]:
    if route == "seldon-http":
        return payload.decode_json(json.loads(body))
    return payload.decode_proto(prediction_pb2.SeldonMessage.FromString(body))


def kserve(form: str, sent: Payload) -> tuple[str, tuple[int, ...], Floats]:
    """The datatype, shape and values of a request, read by the rules of KServe v2."""
    if form in ("JSON", "binary"):
        length = int(sent.headers.get("inference-header-content-length", len(sent.body)))
        (about,) = json.loads(sent.body[:length])["inputs"]
        dtype = {"FP64": "<f8", "FP32": "<f4"}[about["datatype"]]
        flat = np.frombuffer(sent.body[length:], dtype) if form == "binary" else np.array(about["data"], dtype)
        if form == "binary":
            assert about["parameters"]["binary_data_size"] == flat.nbytes
        return about["datatype"], tuple(about["shape"]), flat
    message = ModelInferRequest.FromString(sent.body)
    assert message.model_name == "m"
    (one,) = message.inputs
    assert one.name == "x"
    dtype, field = {"FP64": ("<f8", "fp64_contents"), "FP32": ("<f4", "fp32_contents")}[one.datatype]
    typed = np.array(getattr(one.contents, field), dtype)
    raw = np.frombuffer(b"".join(message.raw_input_contents), dtype)
    assert 0 in (typed.size, raw.size), "one of the two"
    return one.datatype, tuple(one.shape), typed if form == "typed contents" else raw


@SIZES
@DTYPES
@pytest.mark.parametrize(("route", "form"), SELDON)
def test_seldon_forms_hold_the_same_values(route: str, form: str, count: int, dtype: str) -> None:
    """Whatever the form, the array that comes out has the values and the shape that went in."""
    array = values(count, dtype) / 3
    found, decoded = seldon(route, SELDON[route, form](array).body)
    assert found == form
    assert decoded.shape == (1, count)
    assert np.array_equal(decoded, array)
    assert decoded.dtype == (dtype if form == "tftensor" else "<f8")


@SIZES
@DTYPES
@pytest.mark.parametrize(("route", "form"), KSERVE)
def test_kserve_forms_hold_the_same_values(route: str, form: str, count: int, dtype: str) -> None:
    """JSON, binary extension, typed contents and raw contents say the same, in the array's own type."""
    array = values(count, dtype) / 3
    datatype, shape, decoded = kserve(form, KSERVE[route, form](array, "m", "x"))
    assert (datatype, shape) == ("FP64" if dtype == "<f8" else "FP32", (1, count))
    assert np.array_equal(decoded, array.ravel())


def test_the_values_are_those_of_the_published_benchmark() -> None:
    """Consecutive integers from 0, in one row."""
    assert values(3).tolist() == [[0, 1, 2]]
