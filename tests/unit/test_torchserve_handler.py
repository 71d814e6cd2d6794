"""The TorchServe handler, driven as TorchServe's worker drives it: with its context, a batch at a time."""

import base64
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ts.context import Context, RequestProcessor

from servers.torchserve import handler
from servers.torchserve.handler import JpegHandler
from tests.unit.tiny_model import MODEL, build, jpeg

GOOD = jpeg()


class Worker:
    """A worker that has loaded the handler."""

    def __init__(self, artifacts: Path) -> None:
        archive = {"model": {"serializedFile": "model.pt"}}
        self.context = Context(MODEL, str(artifacts / MODEL), archive, 8, None, "1.0")
        self.proof = artifacts / "answered"
        self.handler = JpegHandler()
        self.handler.initialize(self.context)

    def __call__(self, *bodies: bytes) -> list[tuple[int, Any]]:
        """Send these as one batch, without a content type; status and answer of each."""
        self.context.request_processor = [RequestProcessor({}) for _ in bodies]
        answers = self.handler.handle([{"body": bytearray(body)} for body in bodies], self.context)
        return [(self.context.get_response_status(i)[0], json.loads(body)) for i, body in enumerate(answers)]


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


def test_a_bad_image_fails_only_its_own_request(worker: Worker) -> None:
    """Its neighbours in the batch are answered, each with its own photo's answer."""
    photos = [jpeg(seed) for seed in range(3)]
    alone = [body["embedding"] for photo in photos for _, body in worker(photo)]
    batch = worker(photos[0], b"x", photos[1], b"", photos[2])
    assert [status for status, _ in batch] == [200, 400, 200, 400, 200]
    good = [body["embedding"] for status, body in batch if status == 200]
    assert np.allclose(good, alone, atol=1e-6)


@pytest.mark.parametrize("form", ['{{"image": {}}}', '{{"data": {}}}', "{}", '{{"instances": [{{"b64": {}}}]}}'])
def test_json_of_the_usual_clients(worker: Worker, form: str) -> None:
    """The published client sends a bare string; others TorchServe's own forms, of one image."""
    text = json.dumps(base64.b64encode(GOOD).decode())
    ((status, body),) = worker(form.format(text).encode())
    assert (status, body["embedding"]) == (200, worker(GOOD)[0][1]["embedding"])


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"instances": []}', "0 instances: send one"),
        (b'{"instances": [1, 2]}', "2 instances: send one"),
        (b'"?"', "JSON string"),
    ],
)
def test_other_json_is_refused(worker: Worker, body: bytes, says: str) -> None:
    """With what to send."""
    ((status, answer),) = worker(body)
    assert (status, says in answer["message"]) == (400, True), answer


def test_only_an_answer_of_the_model_is_a_proof_of_life(worker: Worker) -> None:
    """Refusing bad images proves nothing about the model."""
    worker.proof.unlink(missing_ok=True)
    worker(b"x")
    assert not worker.proof.exists()
    worker(GOOD)
    assert worker.proof.exists()


def test_a_retired_model_answers_404_and_comes_back(
    worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives its memory back, says so in the marker's time, and is loaded again when the marker goes."""
    monkeypatch.setattr(handler, "RETIRED", tmp_path)
    marker = tmp_path / MODEL
    marker.touch()
    os.utime(marker, (0, 0))
    for status, body in worker(GOOD, GOOD):
        assert (status, body["message"].startswith("model not available")) == (404, True)
    assert marker.stat().st_mtime > 0
    marker.unlink()
    assert worker(GOOD)[0][0] == 200
