"""A wrong answer is a failure, however well the call went."""

import json
from collections.abc import Callable

import pytest
from fiveway.vision.v1.vision_pb2 import PredictResponse
from torchserve.inference_pb2 import PredictionResponse

from locustfiles import answers
from locustfiles.answers import WrongAnswer
from locustfiles.clients import Answer
from tests.unit.locust_servers import VECTOR, embedding, kserve, typed


def as_json(images: int) -> Answer:
    return Answer(json.dumps({"embeddings": [[-0.5, 1]] * images}).encode())


def typed_json(images: int) -> Answer:
    one = {"embedding": {"values": VECTOR}, "classes": [{"index": 1, "label": "tench", "score": 0.5}]}
    return Answer(json.dumps({"predictions": [one] * images}, indent=1).encode())


def torchserve_grpc(images: int) -> Answer:
    text = {"embedding": VECTOR, "classes": []} if images else {"code": 400, "type": "InvalidInput"}
    return Answer(PredictionResponse(prediction=json.dumps(text).encode()).SerializeToString())


@pytest.mark.parametrize(
    ("check", "answer", "most"),
    [
        (answers.json_vectors, as_json, 3),
        (answers.json_vectors, typed_json, 3),
        (answers.kserve_http, lambda images: Answer(*kserve("HTTP", embedding=embedding(images))), 3),
        (answers.kserve_grpc, lambda images: Answer(*kserve("gRPC", embedding=embedding(images))), 3),
        (answers.typed_grpc, lambda images: Answer(typed(images)), 3),
        (answers.torchserve_grpc, torchserve_grpc, 1),
    ],
    ids=["jpeg-http", "typed-http", "kserve-http", "kserve-grpc", "typed-grpc", "torchserve-grpc"],
)
def test_an_answer_for_every_image(check: answers.Check, answer: Callable[[int], Answer], most: int) -> None:
    """As many embeddings as images pass; one less does not, and none does not."""
    check(answer(most), most)
    with pytest.raises(WrongAnswer, match=f"{most - 1} of {most} images"):
        check(answer(most - 1), most)


EMPTY = PredictResponse()
EMPTY.predictions.add()


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        (answers.kserve_grpc, Answer(b"\xff\xff\xff")),
        (answers.typed_grpc, Answer(b"\xff\xff\xff")),
        (answers.torchserve_grpc, Answer(b"\xff\xff\xff")),
        (answers.kserve_http, Answer(b"[]")),
        (answers.kserve_http, Answer(b'{"error": "x"}', {"inference-header-content-length": "14"})),
        (answers.kserve_http, Answer(b'["outputs"]', {"inference-header-content-length": "11"})),
        (answers.kserve_http, Answer(*kserve("HTTP", one=("FP32", [1, 3], bytes(8))))),
        (answers.kserve_http, Answer(*kserve("HTTP", one=("FP32", [1, 3], b"")))),
        (answers.kserve_grpc, Answer(*kserve("gRPC", one=embedding(1), other=embedding(1)))),
        (answers.json_vectors, Answer(b'{"embeddings": [[]]}')),
        (answers.typed_grpc, Answer(EMPTY.SerializeToString())),
    ],
)
def test_what_is_no_embedding_of_an_image(check: answers.Check, answer: Answer) -> None:
    """Bytes that are no message, no header, another JSON, fewer bytes than the shape says, an output too many, no
    numbers: a wrong answer, not a crash of the user."""
    with pytest.raises(WrongAnswer):
        check(answer, 1)
