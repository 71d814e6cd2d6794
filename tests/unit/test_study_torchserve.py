"""The rows of study `torchserve`: base64 is what our handler takes, and answers are read alike."""

import base64
import json
from pathlib import Path

import pytest
from torchserve.inference_pb2 import PredictionResponse, PredictionsRequest

from locustfiles import payloads
from locustfiles.answers import WrongAnswer
from locustfiles.clients import Answer
from locustfiles.payloads import Images
from locustfiles.study_routes import WAYS
from servers.torchserve.handler import jpeg_of

IMAGES = Images(payloads.photos("360x640")[:1], Path(), "tiny")
JPEG = payloads.jpeg(IMAGES).body


def test_base64_arrives_as_the_photo() -> None:
    """Over HTTP by its content type, over gRPC in the map of bytes by its first byte: the handler finds the JPEG."""
    row = WAYS["torchserve-http-base64"].format
    assert jpeg_of({"body": row.encode(IMAGES).body}, row.headers["content-type"]) == JPEG
    message = PredictionsRequest.FromString(WAYS["torchserve-grpc-base64"].format.encode(IMAGES).body)
    assert message.model_name == "tiny"
    assert jpeg_of(message.input, "") == JPEG
    assert base64.b64decode(json.loads(message.input["data"])["image"]) == JPEG


@pytest.mark.parametrize("row", ["torchserve-http-base64", "torchserve-grpc-base64"])
def test_an_answer_is_checked_and_read(row: str) -> None:
    """One embedding; an error's JSON is a wrong answer, whatever its status."""

    def answer(body: bytes) -> Answer:
        return Answer(PredictionResponse(prediction=body).SerializeToString() if "grpc" in row else body)

    form = WAYS[row].format
    good = answer(b'{"embedding":[0.5,-1.25],"classes":[{"index":1}]}')
    form.check(good, 1)
    assert form.read(good) == [[0.5, -1.25]]
    with pytest.raises(WrongAnswer):
        form.check(answer(b'{"code":400,"type":"InvalidInput","message":"no JPEG"}'), 1)
