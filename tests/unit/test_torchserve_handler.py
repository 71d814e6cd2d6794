"""The TorchServe handler, driven through TorchServe's own worker code: loader, service, context."""

import base64
import inspect
import json
import logging
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ts.service import Service

from gateways.core import manifest as manifests
from servers.torchserve import handler
from servers.torchserve.handler import JpegHandler
from tests.unit.tiny_model import MODEL, build, huge_header, jpeg, png

GOOD = jpeg()


@dataclass
class Reply:
    """One request's part of a batch answer, as the Java side reads it."""

    status: int
    phrase: str
    headers: dict[str, str]
    body: Any


class _Metrics:
    """The worker's metrics, which nobody reads."""

    request_ids: dict[int, str]

    def add_time(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A worker that has loaded the handler."""
    artifacts = tmp_path_factory.mktemp("artifacts")
    build(artifacts)
    level = logging.getLogger().level
    with pytest.MonkeyPatch.context() as patch:
        load = manifests.Manifest.load
        patch.setattr(manifests.Manifest, "load", lambda _, model: load(artifacts, model))
        patch.setattr(handler, "ANSWERED", artifacts / "answered")
        jpeg_handler = JpegHandler()
        archive = {"model": {"serializedFile": "model.pt"}}
        service = Service(MODEL, str(artifacts / MODEL), archive, jpeg_handler.handle, None, 8, True, _Metrics())
        service.set_cl_socket(None)
        jpeg_handler.initialize(service.context)
        yield service
    logging.getLogger().setLevel(level)


def predict(service: Service, *requests: tuple[bytes, str | None], name: str = "body") -> list[Reply]:
    """Send (body, content type) pairs as one batch; the message to the Java side is parsed back."""
    batch = [
        {
            "requestId": bytearray(f"request {i}".encode()),
            "headers": [] if kind is None else [{"name": b"Content-Type", "value": kind.encode()}],
            "parameters": [{"name": name, "contentType": kind or "", "value": bytearray(body)}],
        }
        for i, (body, kind) in enumerate(requests)
    ]
    return list(_parse(bytes(service.predict(batch)), len(requests)))


def _parse(message: bytes, count: int) -> Iterator[Reply]:
    """The batch answer of TorchServe's worker protocol."""
    at = 0

    def integer() -> int:
        nonlocal at
        at += 4
        return int(struct.unpack_from("!i", message, at - 4)[0])

    def text() -> str:
        nonlocal at
        length = integer()
        at += length
        return message[at - length : at].decode()

    assert (integer(), text()) == (200, "Prediction success")
    for i in range(count):
        assert text() == f"request {i}"
        assert text() == "application/json"
        status, phrase = integer(), text()
        headers = {text(): text() for _ in range(integer())}
        yield Reply(status, phrase, headers, json.loads(text()))
    assert integer() == -1


def base64_json(data: bytes) -> bytes:
    return json.dumps({"image": base64.b64encode(data).decode()}).encode()


def test_the_module_defines_one_class() -> None:
    """TorchServe refuses a handler module with two."""
    defined = [c for _, c in inspect.getmembers(handler, inspect.isclass) if c.__module__ == handler.__name__]
    assert defined == [JpegHandler]


def test_raw_and_base64_give_the_same_answer(service: Service) -> None:
    """Over HTTP (`body`, with a type) and over gRPC (`data`, without one)."""
    replies = [
        *predict(service, (GOOD, "image/jpeg"), (GOOD, None), (base64_json(GOOD), "application/json; charset=utf-8")),
        *predict(service, (GOOD, None), (base64_json(GOOD), None), name="data"),
    ]
    for reply in replies:
        assert (reply.status, reply.phrase) == (200, "OK")
        assert (reply.body["model"], reply.body["weights"]) == (MODEL, "random")
        assert np.allclose(reply.body["embedding"], replies[0].body["embedding"], atol=1e-6)
        assert [c["index"] for c in reply.body["classes"]] == [c["index"] for c in replies[0].body["classes"]]
        assert set(reply.body["classes"][0]) == {"index", "label", "score"}


def test_a_bad_image_fails_only_its_own_request(service: Service) -> None:
    """Its neighbours in the batch are answered, each with its own photo's answer."""
    photos = [jpeg(seed) for seed in range(3)]
    alone = [predict(service, (photo, None))[0].body["embedding"] for photo in photos]
    batch = predict(service, (photos[0], None), (b"x", None), (photos[1], None), (b"", None), (photos[2], None))
    assert [reply.status for reply in batch] == [200, 400, 200, 400, 200]
    good = [reply.body["embedding"] for reply in batch if reply.status == 200]
    assert np.allclose(good, alone, atol=1e-6)


BAD: dict[str, tuple[bytes, str | None, int, str]] = {
    "empty": (b"", None, 400, "image is empty: send JPEG bytes"),
    "not an image": (b"hello", "image/jpeg", 400, "image is not a JPEG"),
    "PNG": (png(), "image/jpeg", 400, "image is not a JPEG"),
    "truncated": (GOOD[: len(GOOD) // 2], None, 400, "image is truncated"),
    "huge header": (huge_header(GOOD), None, 400, "65500 x 65500 pixels"),
    "21 MiB": (GOOD + bytes(21 * 1024 * 1024), None, 413, "at most 20 MiB"),
    "other type": (png(), "image/png", 415, "content-type is image/png: send image/jpeg"),
    "bad JSON": (b'{"image": ', "application/json", 400, "the body is not JSON"),
    "bad JSON without a type": (b"{", None, 400, "the body is not JSON"),
    "a list": (b"[1]", "application/json", 400, 'the field "image" is missing'),
    "missing field": (b'{"images": []}', "application/json", 400, 'the field "image" is missing'),
    "a number": (b'{"image": 3}', "application/json", 400, "not a string"),
    "bad base64": (b'{"image": "%%%"}', "application/json", 400, "is not base64"),
}


@pytest.mark.parametrize(("body", "kind", "status", "text"), BAD.values(), ids=BAD.keys())
def test_bad_input_gets_a_4xx_that_says_what_to_do(
    service: Service, body: bytes, kind: str | None, status: int, text: str
) -> None:
    """The status goes to HTTP clients; the code in the JSON is all that a gRPC client can see."""
    (reply,) = predict(service, (body, kind))
    assert (reply.status, reply.body["code"], reply.body["type"]) == (status, status, "InvalidInput")
    assert text in reply.body["message"]
    assert "total;dur=" in reply.headers["server-timing"]


def test_a_request_without_the_key_says_which_key(service: Service) -> None:
    """A form field or gRPC input of another name."""
    (reply,) = predict(service, (GOOD, None), name="photo")
    assert reply.status == 400
    assert 'under the key "data"' in reply.body["message"]


def test_every_answer_is_timed(service: Service) -> None:
    """Server-Timing per request of the batch."""
    for reply in predict(service, (GOOD, None), (jpeg(1), None)):
        stages = re.findall(r"(\w+);dur=\d+\.\d{3}", reply.headers["server-timing"])
        assert stages == ["preprocess", "compute", "encode", "total"]


def test_only_an_answer_of_the_model_is_a_proof_of_life(service: Service) -> None:
    """Refusing bad images proves nothing about the model."""
    proof: Path = handler.ANSWERED
    proof.unlink(missing_ok=True)
    predict(service, (b"x", None))
    assert not proof.exists()
    predict(service, (GOOD, None))
    assert proof.exists()


def test_the_health_check_reads_the_file_that_the_handler_touches() -> None:
    """Two modules, one path: the check is too short-lived to import the handler."""
    from servers.torchserve import health

    assert f'ANSWERED = Path("{health.ANSWERED}")' in inspect.getsource(handler)


def test_a_retired_model_answers_404_and_comes_back(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives its memory back, says so in the marker's time, and is loaded again when the marker goes."""
    monkeypatch.setattr(handler, "RETIRED", tmp_path)
    marker = tmp_path / MODEL
    marker.touch()
    os.utime(marker, (0, 0))
    for reply in predict(service, (GOOD, None), (GOOD, None)):
        assert reply.status == 404
        assert reply.body["message"].startswith("model not available")
    assert marker.stat().st_mtime > 0
    marker.unlink()
    assert predict(service, (GOOD, None))[0].status == 200
