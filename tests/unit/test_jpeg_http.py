"""The JPEG server over real sockets: answers, limits, errors, documentation, health."""

import base64
import http.client
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from chaos.docker import wait_until
from gateways.core import following
from gateways.core import serving as core_serving
from gateways.core.errors import INTERNAL_MESSAGE
from gateways.core.following import Followed
from gateways.core.threads import compute_threads
from gateways.jpeg_http import app as application
from gateways.jpeg_http import schema
from gateways.jpeg_http.app import create_app
from gateways.jpeg_http.served import Served
from gateways.upstreams.torch import TorchPredictor
from gateways.web import admission
from tests.unit.counts import counts
from tests.unit.http_server import JSON, Answer, ask, http_server
from tests.unit.tiny_model import MODEL, build, gated, jpeg
from tests.unit.upstream_servers import SIDE, Kind, serving

JPEG, FORM = "image/jpeg", "multipart/form-data; boundary=B"
GOOD = jpeg()


@dataclass
class Client:
    """A server on a port of its own."""

    port: int
    followed: Followed[Served]

    @property
    def predictor(self) -> TorchPredictor:
        return self.followed.now.predictor

    def __call__(self, method: str, path: str, body: Any = None, kind: str | None = None) -> Answer:
        return ask(self.port, method, path, body, kind)

    def embedded(self, photo: bytes = GOOD) -> Answer:
        return self("POST", "/embed", photo, JPEG)


@contextmanager
def running(artifacts: Path, kind: Kind = "classifier") -> Iterator[Client]:
    build(artifacts, kind)
    serving().write(artifacts)
    followed = Followed(artifacts, partial(Served, artifacts))
    with http_server(create_app(followed)) as port:
        yield Client(port, followed)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COMPUTE_THREADS", "2")
        with running(tmp_path_factory.mktemp("classifier")) as client:
            yield client


def images(*data: bytes) -> bytes:
    return json.dumps({"images": [base64.b64encode(one).decode() for one in data]}).encode()


def form(*data: bytes, filename: str = '; filename="a.jpg"') -> bytes:
    head = f'--B\r\nContent-Disposition: form-data; name="images"{filename}\r\n\r\n'.encode()
    return b"".join(head + one + b"\r\n" for one in data) + b"--B--\r\n"


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize(
    ("path", "body", "kind"),
    [
        ("/embed/base64", images(GOOD), "application/json; charset=utf-8"),
        ("/embed", form(GOOD), FORM),
        ("/classify/base64", images(GOOD), JSON),
        ("/classify", GOOD, JPEG),
    ],
)
def test_answers_are_as_the_page_documents_them(client: Client, path: str, body: bytes, kind: str) -> None:
    """Under the name of what is served; classes best first, with labels. tests/golden knows the values."""
    answer = client("POST", path, body, kind)
    stages = re.findall(r"(\w+);dur=\d+\.\d{3}", answer.headers["server-timing"])
    assert stages == ["queue", "preprocess", "compute", "encode", "total"]
    if path.startswith("/embed"):
        document = schema.Embeddings.model_validate(answer.json)
        assert (document.model, document.weights, len(document.embeddings)) == (MODEL, "random", 1)
    else:
        (classes,) = schema.Classes.model_validate(answer.json).classes
        assert classes == sorted(classes, key=lambda c: -c.score)
        assert [found.label for found in classes] == [f"label {found.index}" for found in classes]


def test_what_is_served_is_as_the_page_documents_it(client: Client) -> None:
    """What a client needs to make the tensor itself, and what computes here."""
    document = schema.Served.model_validate(client("GET", "/served").json)
    assert (document.model, document.accelerated) == (MODEL, f"{MODEL}_trt")
    assert document.photos
    assert (document.photos.kind, document.photos.device) == ("classifier", "cpu")
    assert document.photos.threads == compute_threads()
    assert document.photos.labels[3] == "label 3"
    assert document.photos.preprocess.crop == SIDE


def test_an_embedding_model_says_that_it_has_no_classes(tmp_path: Path) -> None:
    """404 that names the path to use, before the body is read."""
    with running(tmp_path, "embedding") as embedder:
        embedder("POST", "/classify", b"", JSON).refuses(404, "use /embed")
        assert embedder.embedded().status == 200


# ---------------------------------------------------------------- bad input

BAD: dict[str, tuple[bytes, str | None, int, str]] = {
    # name: body, content type, status, part of the message
    "no type": (GOOD, None, 415, "missing"),
    "no boundary": (form(GOOD), "multipart/form-data", 400, "boundary"),
    "garbage": (b"garbage", FORM, 400, "cannot be read"),
    "truncated": (form(GOOD)[:-20], FORM, 400, "truncated"),
    "text part": (form(b"x", filename=""), FORM, 400, "text part"),
}


@pytest.mark.parametrize(("body", "kind", "status", "keyword"), BAD.values(), ids=BAD.keys())
def test_what_no_client_sends_through_the_edge(
    client: Client, body: bytes, kind: str | None, status: int, keyword: str
) -> None:
    """A 4xx that says what to do, and is timed; the next good request works. The rest: tests/stack/bad_input.py."""
    answer = client("POST", "/embed", body, kind)
    answer.refuses(status, keyword)
    assert "total;dur=" in answer.headers["server-timing"]
    assert client.embedded().status == 200


def test_too_many_bytes_at_once_are_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """429 while the bodies of all requests together pass the bound; what was held is free again afterwards."""
    monkeypatch.setattr(admission, "MAX_HELD", len(GOOD) - 1)
    refused = client.embedded()
    refused.refuses(429, "again")
    assert refused.headers["retry-after"] == "1"
    monkeypatch.setattr(admission, "MAX_HELD", len(GOOD))
    assert [client.embedded().status for _ in range(3)] == [200] * 3


def test_a_bug_in_the_model_never_shows_its_text(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 with the fixed message, timed like every answer; the model's thread lives on."""
    with monkeypatch.context() as patch:
        patch.setattr(client.predictor, "_model", Mock(side_effect=KeyError("/secret/path")))
        answer = client.embedded()
    assert answer.error == (500, "INTERNAL", INTERNAL_MESSAGE)
    assert "total;dur=" in answer.headers["server-timing"]
    assert client.embedded().status == 200


# ---------------------------------------------------------------- documentation, health, cancellation


def test_openapi_documents_bodies_answers_and_errors(client: Client) -> None:
    """Every path; both body types; every error."""
    paths = client("GET", "/openapi.json").json["paths"]
    assert paths.pop("/served")["get"]["responses"]["200"]
    assert set(paths) == {"/embed", "/embed/base64", "/classify", "/classify/base64"}
    assert set(paths["/embed"]["post"]["requestBody"]["content"]) == {"image/jpeg", "multipart/form-data"}
    for path in paths.values():
        assert set(path["post"]["responses"]) == {"200", "400", "404", "413", "415", "429", "504"}


def test_health_is_an_inference_or_a_recent_answer(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """200 while the model answers; 503 as soon as its last answer is old and it answers no more."""
    monkeypatch.setattr(application, "HEALTH_FRESH_S", 0.0)
    before = client.predictor.last_answer
    assert client("GET", "/health").status == 200
    assert client.predictor.last_answer > before
    monkeypatch.setattr(application, "HEALTH_TIMEOUT_S", 0.2)
    with gated(client.predictor):
        client("GET", "/health").refuses(503, "the model does not answer")
        monkeypatch.setattr(application, "HEALTH_FRESH_S", 60.0)
        assert client("GET", "/health").status == 200


def test_a_client_that_leaves_drops_its_work(client: Client) -> None:
    """The call behind a closed connection is cancelled, while the model is still at work; no metric calls it an error
    of the server."""
    before = counts()
    connection = http.client.HTTPConnection("127.0.0.1", client.port)
    with gated(client.predictor) as gate:
        connection.request("POST", "/embed", GOOD, {"content-type": JPEG})
        assert gate.entered.wait(60)
        assert client.predictor._line.images == client.followed.now.pending == 1
        connection.close()
        wait_until(lambda: client.predictor._line.images == 0, "it is cancelled", seconds=20)
        wait_until(lambda: (counts() - before)["CANCELLED"] == 1, "it is counted", seconds=20)
    assert not (counts() - before)["INTERNAL"]


# ---------------------------------------------------------------- metrics


def test_each_request_is_counted_once_by_its_outcome(client: Client) -> None:
    """With its stages, and how many photos were answered together."""
    before = counts()
    client.embedded()
    client("POST", "/classify", form(GOOD, GOOD), FORM)
    client("POST", "/embed", b"not a photo", JPEG)
    client("POST", "/embed", GOOD)
    client("GET", "/served")
    assert counts() - before == {"OK": 2, "INVALID": 1, "UNSUPPORTED_MEDIA": 1, "compute": 2, "batches": 3, "images": 3}


# ---------------------------------------------------------------- following what is served


def test_it_follows_what_is_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request at work ends on the old model, the next is answered by the new one, and `model` is true in both."""
    monkeypatch.setattr(following, "POLL_S", 0.02)
    monkeypatch.setattr(core_serving, "FOLLOWED", tmp_path / "followed")
    build(tmp_path, "embedding", "other")
    with running(tmp_path) as client:
        with ThreadPoolExecutor(1) as pool, gated(client.predictor) as gate:
            early = pool.submit(client, "POST", "/classify", GOOD, JPEG)
            assert gate.entered.wait(60)
            serving("other").write(tmp_path)
            # Until then its probe may wait for the held model.
            wait_until(lambda: client("GET", "/health").json.get("model") == "other", "it follows", seconds=60)
            assert client.embedded().json["model"] == "other"
            assert (tmp_path / "followed").read_text() == MODEL  # the old one is still at work
            gate.open()
            assert early.result().json["model"] == MODEL
        wait_until(lambda: (tmp_path / "followed").read_text() == "other", "the old model is gone", seconds=60)
