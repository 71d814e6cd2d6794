"""The rows of study `torchserve`: base64 is what our handler takes. Their answers: test_locust_answers.py."""

import base64
import json
from pathlib import Path

from torchserve.inference_pb2 import PredictionsRequest

from locustfiles import payloads
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
