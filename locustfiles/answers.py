"""Checks that an answer has an embedding for every image, cheaply enough to run after each call, outside of its clock.
Values are not compared here: before anything is measured the bench checks that the routes agree. It compares what the
readers (read_*) return: [N, D], a row of numbers per image. They raise ValueError, LookupError or TypeError.
"""

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
from fiveway.vision.v1.vision_pb2 import PredictResponse
from google.protobuf.message import DecodeError, Message
from numpy.typing import NDArray
from torchserve.inference_pb2 import PredictionResponse
from tritonclient.grpc.service_pb2 import ModelInferResponse

from locustfiles.clients import Answer
from locustfiles.payloads import BYTES, TYPES, RawTensor, elements

FP32_BYTES = 4

# An array that begins with a number: in our JSON answers each is an embedding. Parsing 32 x 1,280 numbers would delay
# the other users of the process by milliseconds, so only brackets are counted.
_VECTOR = re.compile(rb"\[\s*-?\d")

Check = Callable[[Answer, int], None]
"""(answer, images sent): raises WrongAnswer."""


class WrongAnswer(Exception):
    """The call succeeded, but the answer does not have an embedding for each image."""


def json_vectors(answer: Answer, images: int) -> None:
    """JSON of the JPEG server, of TorchServe and of the transcoded typed proto."""
    expect(len(_VECTOR.findall(answer.body)), images)


def torchserve_grpc(answer: Answer, images: int) -> None:
    """TorchServe's JSON inside its generic message. An error comes with status OK, and without an embedding."""
    json_vectors(Answer(parsed(PredictionResponse, answer.body).prediction), images)


def typed_grpc(answer: Answer, images: int) -> None:
    """Our typed message: a non-empty embedding per image."""
    message = parsed(PredictResponse, answer.body)
    expect(sum(bool(prediction.embedding.values) for prediction in message.predictions), images)


def _kserve(protocol: str, answer: Answer, images: int) -> None:
    """KServe v2 with one FP32 output."""
    outputs = kserve_outputs(protocol, answer)
    if len(outputs) != 1:
        raise WrongAnswer(f"{len(outputs)} outputs, one was asked for")
    _, _, shape, raw = outputs[0]
    expect(shape[0] if len(shape) == 2 else 0, images)
    if not raw or len(raw) != math.prod(shape) * FP32_BYTES:
        raise WrongAnswer(f"{len(raw)} bytes for an embedding of shape {list(shape)}")


kserve_http, kserve_grpc = partial(_kserve, "HTTP"), partial(_kserve, "gRPC")


def kserve_outputs(protocol: str, answer: Answer) -> list[RawTensor]:
    """Every output of a KServe v2 answer, in its order: over HTTP by the binary tensor extension, behind a JSON header,
    over gRPC in `raw_output_contents`. Raises WrongAnswer."""
    try:
        if protocol == "gRPC":
            message = parsed(ModelInferResponse, answer.body)
            raws: Iterable[bytes] = message.raw_output_contents
            about = [(one.name, one.datatype, list(one.shape)) for one in message.outputs]
        elif "inference-header-content-length" not in answer.headers:
            said = json.loads(answer.body)["outputs"]
            return [RawTensor(one["name"], one["datatype"], list(one["shape"]), _raw(one)) for one in said]
        else:
            length = int(answer.headers["inference-header-content-length"])
            said = json.loads(answer.body[:length])["outputs"]
            ends = itertools.accumulate((int(one["parameters"]["binary_data_size"]) for one in said), initial=length)
            raws = [answer.body[start:end] for start, end in itertools.pairwise(ends)]
            about = [(one["name"], one["datatype"], list(one["shape"])) for one in said]
        return [RawTensor(*one, raw) for one, raw in zip(about, raws, strict=True)]
    except (ValueError, LookupError, TypeError) as error:
        raise WrongAnswer("not a KServe v2 answer with raw outputs") from error


def _raw(output: Mapping[str, Any]) -> bytes:
    """The bytes of an output whose numbers are JSON."""
    data = np.array(output["data"]).ravel()
    if output["datatype"] == BYTES:
        return elements(str(value).encode() for value in data)
    return data.astype(TYPES[output["datatype"]]).tobytes()


def read_json(answer: Answer) -> Any:
    """The rows of numbers in JSON of the JPEG server, of TorchServe and of the transcoded typed proto."""
    message = json.loads(answer.body)
    if "embeddings" in message:
        return message["embeddings"]
    if "predictions" in message:
        return [prediction["embedding"]["values"] for prediction in message["predictions"]]
    return [message["embedding"]]


def read_torchserve_grpc(answer: Answer) -> Any:
    return read_json(Answer(PredictionResponse.FromString(answer.body).prediction))


def read_typed_grpc(answer: Answer) -> Any:
    return [prediction.embedding.values for prediction in PredictResponse.FromString(answer.body).predictions]


def read_kserve_http(answer: Answer) -> NDArray[np.float32]:
    length = int(answer.headers["inference-header-content-length"])
    (output,) = json.loads(answer.body[:length])["outputs"]
    return np.frombuffer(answer.body, "<f4", offset=length).reshape(output["shape"])


def read_kserve_grpc(answer: Answer) -> NDArray[np.float32]:
    message = ModelInferResponse.FromString(answer.body)
    return np.frombuffer(message.raw_output_contents[0], "<f4").reshape(message.outputs[0].shape)


def parsed[M: Message](kind: type[M], body: bytes) -> M:
    """The message that these bytes are. Raises WrongAnswer."""
    try:
        return kind.FromString(body)
    except DecodeError as error:
        raise WrongAnswer(f"not a {kind.DESCRIPTOR.name}") from error


def expect(answered: float, asked: int, said: str = "an embedding for {:g} of {} images") -> None:
    """Raises WrongAnswer, which says so, unless as many were answered as were asked for."""
    if answered != asked:
        raise WrongAnswer(said.format(answered, asked))
