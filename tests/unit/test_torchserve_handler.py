"""The TorchServe handler, driven as TorchServe's worker drives it: with its context, a batch at a time."""

import base64
import json
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from ts.context import Context, RequestProcessor

from servers.torchserve import handler
from servers.torchserve.handler import JpegHandler
from tests.unit.tiny_model import MODEL, build, jpeg, png

GOOD = jpeg()


class Reply(NamedTuple):
    """One request's part of a batch answer."""

    status: int
    body: Any
    headers: dict[str, str]


class Worker:
    """A worker that has loaded the handler."""

    def __init__(self, artifacts: Path) -> None:
        archive = {"model": {"serializedFile": "model.pt"}}
        self.context = Context(MODEL, str(artifacts / MODEL), archive, 8, None, "1.0")
        self.proof = artifacts / "answered"
        self.handler = JpegHandler()
        self.handler.initialize(self.context)

    def __call__(self, *requests: tuple[bytes, str | None], name: str = "body") -> list[Reply]:
        """Send (body, content type) pairs as one batch, under the key of HTTP (`body`) or of gRPC (`data`)."""
        headers = [{} if kind is None else {"Content-Type": kind} for _, kind in requests]
        self.context.request_processor = [RequestProcessor(one) for one in headers]
        bodies = self.handler.handle([{name: bytearray(body)} for body, _ in requests], self.context)
        said = self.context.get_response_status, self.context.get_response_headers
        return [Reply(said[0](i)[0], json.loads(body), said[1](i)) for i, body in enumerate(bodies)]


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    artifacts = tmp_path_factory.mktemp("artifacts")
    build(artifacts)
    level = logging.getLogger().level
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handler, "ARTIFACTS", artifacts)
        patch.setattr(handler, "ANSWERED", artifacts / "answered")
        yield Worker(artifacts)
    logging.getLogger().setLevel(level)


def base64_json(data: bytes) -> bytes:
    return json.dumps({"image": base64.b64encode(data).decode()}).encode()


@pytest.mark.parametrize(
    ("kind", "key"), [("application/json; charset=utf-8", "body"), (None, "data")], ids=["HTTP", "gRPC"]
)
def test_base64_is_told_apart_and_the_answer_is_timed(worker: Worker, kind: str | None, key: str) -> None:
    """By its type, or by its first byte where there is no type. Values: tests/golden."""
    (reply,) = worker((base64_json(GOOD), kind), name=key)
    assert (reply.status, reply.body["model"], reply.body["weights"]) == (200, MODEL, "random")
    assert set(reply.body["classes"][0]) == {"index", "label", "score"}
    stages = re.findall(r"(\w+);dur=\d+\.\d{3}", reply.headers["server-timing"])
    assert stages == ["preprocess", "compute", "encode", "total"]


def test_a_bad_image_fails_only_its_own_request(worker: Worker) -> None:
    """Its neighbours in the batch are answered, each with its own photo's answer."""
    photos = [jpeg(seed) for seed in range(3)]
    alone = [worker((photo, None))[0].body["embedding"] for photo in photos]
    batch = worker((photos[0], None), (b"x", None), (photos[1], None), (b"", None), (photos[2], None))
    assert [reply.status for reply in batch] == [200, 400, 200, 400, 200]
    good = [reply.body["embedding"] for reply in batch if reply.status == 200]
    assert np.allclose(good, alone, atol=1e-6)


@pytest.mark.parametrize(
    ("body", "kind", "key", "status", "keyword"),
    [
        (png(), "image/png", "body", 415, "image/png"),
        (b"{", None, "data", 400, "not JSON"),
        (b"[1]", "application/json", "body", 400, '"image" is missing'),
    ],
)
def test_bad_input_gets_a_4xx_that_says_what_to_do(
    worker: Worker, body: bytes, kind: str | None, key: str, status: int, keyword: str
) -> None:
    """The status goes to HTTP clients; the code in the JSON is all that a gRPC client can see."""
    (reply,) = worker((body, kind), name=key)
    assert (reply.status, reply.body["code"], reply.body["type"]) == (status, status, "InvalidInput")
    assert keyword in reply.body["message"]
    assert "total;dur=" in reply.headers["server-timing"]


def test_only_an_answer_of_the_model_is_a_proof_of_life(worker: Worker) -> None:
    """Refusing bad images proves nothing about the model."""
    worker.proof.unlink(missing_ok=True)
    worker((b"x", None))
    assert not worker.proof.exists()
    worker((GOOD, None))
    assert worker.proof.exists()


def test_a_retired_model_answers_404_and_comes_back(
    worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives its memory back, says so in the marker's time, and is loaded again when the marker goes."""
    monkeypatch.setattr(handler, "RETIRED", tmp_path)
    marker = tmp_path / MODEL
    marker.touch()
    os.utime(marker, (0, 0))
    for reply in worker((GOOD, None), (GOOD, None)):
        assert reply.status == 404
        assert reply.body["message"].startswith("model not available")
    assert marker.stat().st_mtime > 0
    marker.unlink()
    assert worker((GOOD, None))[0].status == 200
