"""A wrong answer is a failure, however well the call went."""

from collections.abc import Callable
from typing import Any

import pytest
from fiveway.vision.v1.vision_pb2 import PredictResponse

from locustfiles import answers
from locustfiles.answers import WrongAnswer
from locustfiles.clients import Answer
from tests.unit import locust_servers as servers
from tests.unit.locust_servers import embedding, kserve


@pytest.mark.parametrize(
    ("check", "answer", "most"),
    [
        (answers.json_vectors, servers.jpeg_http, 3),
        (answers.json_vectors, servers.typed_http, 3),
        (answers.json_vectors, servers.torchserve_http, 1),
        (answers.kserve_http, lambda images: kserve("HTTP", embedding=embedding(images)), 3),
        (answers.kserve_grpc, lambda images: kserve("gRPC", embedding=embedding(images)), 3),
        (answers.typed_grpc, servers.typed_grpc, 3),
        (answers.torchserve_grpc, servers.torchserve_grpc, 1),
    ],
)
def test_an_answer_for_every_image(check: answers.Check, answer: Callable[[int], Any], most: int) -> None:
    """As many embeddings as images pass; one less does not, and none does not."""
    made = [Answer(*found) if isinstance(found, tuple) else Answer(found) for found in map(answer, (most, most - 1))]
    check(made[0], most)
    with pytest.raises(WrongAnswer, match=f"{most - 1} of {most} images"):
        check(made[1], most)


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
