"""A wrong answer is a failure, however well the call went. That images are counted is held by test_locust_runs.py."""

import pytest
from fiveway.vision.v1.vision_pb2 import Prediction, PredictResponse

from locustfiles import answers
from locustfiles.answers import WrongAnswer
from locustfiles.clients import Answer
from tests.unit.locust_servers import embedding, kserve

EMPTY = PredictResponse(predictions=[Prediction()])


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
