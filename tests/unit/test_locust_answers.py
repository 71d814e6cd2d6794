"""A wrong answer is a failure, however well the call went."""

import json
import struct

import pytest
from fiveway.vision.v1.vision_pb2 import PredictResponse
from torchserve.inference_pb2 import PredictionResponse
from tritonclient.grpc.service_pb2 import ModelInferResponse

from locustfiles import answers
from locustfiles.answers import WrongAnswer
from locustfiles.clients import Answer

VECTOR = [-0.5, 1.5, 2.5]


def kserve_http(images: int, size: int | None = None) -> Answer:
    head = json.dumps({"outputs": [{"name": "embedding", "shape": [images, 3], "datatype": "FP32"}]}).encode()
    body = struct.pack("<f", 0.5) * (images * 3 if size is None else size)
    return Answer(head + body, {"inference-header-content-length": str(len(head))})


def kserve_grpc(images: int) -> Answer:
    message = ModelInferResponse()
    message.outputs.add(name="embedding", datatype="FP32", shape=[images, 3])
    message.raw_output_contents.append(struct.pack("<f", 0.5) * (images * 3))
    return Answer(message.SerializeToString())


def typed_grpc(images: int) -> Answer:
    message = PredictResponse()
    for _ in range(images):
        message.predictions.add().embedding.values.extend(VECTOR)
    return Answer(message.SerializeToString())


def jpeg_json(images: int) -> Answer:
    return Answer(json.dumps({"embeddings": [VECTOR] * images, "model": "tiny", "weights": "real"}).encode())


def typed_json(images: int) -> Answer:
    one = {"embedding": {"values": VECTOR}, "classes": [{"index": 1, "label": "tench", "score": 0.5}]}
    return Answer(json.dumps({"predictions": [one] * images}, indent=1).encode())


def torchserve_grpc(images: int) -> Answer:
    text = {"embedding": VECTOR, "classes": []} if images else {"code": 400, "type": "InvalidInput"}
    return Answer(PredictionResponse(prediction=json.dumps(text).encode()).SerializeToString())


@pytest.mark.parametrize(
    ("check", "answer", "most"),
    [
        (answers.json_vectors, jpeg_json, 3),
        (answers.json_vectors, typed_json, 3),
        (answers.kserve_http, kserve_http, 3),
        (answers.kserve_grpc, kserve_grpc, 3),
        (answers.typed_grpc, typed_grpc, 3),
        (answers.torchserve_grpc, torchserve_grpc, 1),
    ],
    ids=["jpeg-http", "typed-http", "kserve-http", "kserve-grpc", "typed-grpc", "torchserve-grpc"],
)
def test_an_answer_for_every_image(check, answer, most) -> None:  # type: ignore[no-untyped-def]
    """As many embeddings as images pass; one less does not, and none does not."""
    check(answer(most), most)
    with pytest.raises(WrongAnswer, match=f"{most - 1} of {most} images"):
        check(answer(most - 1), most)


@pytest.mark.parametrize("check", [answers.kserve_grpc, answers.typed_grpc, answers.torchserve_grpc])
def test_bytes_that_are_no_message(check: answers.Check) -> None:
    """Something else than the expected message is a wrong answer, not a crash of the user."""
    with pytest.raises(WrongAnswer):
        check(Answer(b"\xff\xff\xff"), 1)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"[]"),
        Answer(b'{"error": "x"}', {"inference-header-content-length": "14"}),
        Answer(b'["outputs"]', {"inference-header-content-length": "11"}),
        kserve_http(1, size=2),
        kserve_http(1, size=0),
    ],
)
def test_kserve_bodies_that_do_not_add_up(answer: Answer) -> None:
    """No header, another JSON, or fewer bytes than the shape says."""
    with pytest.raises(WrongAnswer):
        answers.kserve_http(answer, 1)


def test_empty_embeddings_do_not_count() -> None:
    """An embedding without numbers is not an answer."""
    with pytest.raises(WrongAnswer):
        answers.json_vectors(Answer(b'{"embeddings": [[]]}'), 1)
    empty = PredictResponse()
    empty.predictions.add()
    with pytest.raises(WrongAnswer):
        answers.typed_grpc(Answer(empty.SerializeToString()), 1)
