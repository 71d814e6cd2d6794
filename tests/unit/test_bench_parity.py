"""Do routes that agree pass, and is every kind of disagreement seen?

In a process of its own, because the load's clients patch it: `python test_bench_parity.py HOST [ROUTE=ANSWER ...]`
prints what parity says of all routes. With ANSWERs, the routes are played in that process; without, HOST is asked.
"""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from tests.repository import ROOT
from tests.unit.tiny_artifacts import declare, tiny

SERVERS = Path(__file__).with_name("locust_servers.py")
PHOTOS = ROOT / "models" / "photos"
NAMES = sorted(path.stem for path in PHOTOS.glob("*_224x224.jpg"))
WIDTH = 16
BATCH = 6

Verdicts = dict[str, dict[str, Any]]


def embedding(photo: int) -> "np.ndarray[Any, Any]":
    """[WIDTH], another one for each photo."""
    return np.random.default_rng(photo).normal(size=WIDTH).astype(np.float32)


def vectors(answer: str, photos: Sequence[int]) -> "np.ndarray[Any, Any]":
    """What a route says of photos, [N, WIDTH], in the way that the test asks for."""
    right = np.stack([embedding(photo) for photo in photos])
    if answer == "noise":
        return right + np.float32(0.1) * np.random.default_rng(99).normal(size=right.shape).astype(np.float32)
    if answer == "rounded":
        return right.astype(np.float16).astype(np.float32) * 3
    if answer == "reversed":
        return right[::-1]
    if answer == "narrow":
        return right[:, :5]
    if answer == "short":
        return right[: len(right) // 2]
    return {"zeros": right * 0, "nan": right * np.nan}.get(answer, right)


def play(answers: dict[str, str]) -> None:
    """Put clients in place that answer at once."""
    from bench.measure import parity
    from locustfiles.clients import Answer, CallError, Client, Payload
    from locustfiles.routes import Route
    from locustfiles.settings import Settings

    jpegs = {(PHOTOS / f"{name}.jpg").read_bytes(): i for i, name in enumerate(NAMES)}

    class Played:
        def __init__(self, answer: str, tensors: bool) -> None:
            self.answer, self.tensors = answer, tensors

        def send(self, payload: Payload) -> Answer:
            if self.answer == "down":
                raise CallError("UNAVAILABLE: nobody\n is there")
            if self.answer == "garbage":
                return Answer(b'{"embeddings": [["x"], 1]}')
            if self.tensors:
                length = int(payload.headers["inference-header-content-length"])
                tensor = np.frombuffer(payload.body[length:], np.float32).reshape(payload.images, -1)
                found = vectors(self.answer, [int(row[0]) for row in tensor])
                about = {"name": "embedding", "datatype": "FP32", "shape": found.shape}
                about["parameters"] = {"binary_data_size": found.nbytes}
                head = json.dumps({"outputs": [about]}).encode()
                return Answer(head + found.tobytes(), {"inference-header-content-length": str(len(head))})
            photos = [jpegs[base64.b64decode(text)] for text in json.loads(payload.body)["images"]]
            return Answer(json.dumps({"embeddings": vectors(self.answer, photos).tolist()}).encode())

        def close(self) -> None:
            pass

    def connect(route: Route, chosen: Settings) -> Client:
        return Played(answers[route.name], route.name.endswith("onnx-http"))

    mock.patch.object(parity, "connect", connect).start()


def main() -> None:
    import locust  # noqa: F401  patches the standard library: first

    from bench.measure import parity
    from bench.measure.measured import Cell
    from locustfiles.routes import ROUTES

    host, *given = sys.argv[1:]
    answers = dict(one.split("=") for one in given)
    if answers:
        play(answers)
    cells = [
        Cell(name, name, batch=batch)
        for name in answers or ROUTES
        for batch in (1, BATCH)
        if batch <= ROUTES[name].format.max_batch
    ]
    print(json.dumps(parity.check(cells, host)))


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tensors that say which photo they are of."""
    return tiny(tmp_path_factory.mktemp("artifacts"), side=2, size="224x224")


def parity(artifacts: Path, host: str, *answers: str) -> Verdicts:
    path = os.pathsep.join((str(ROOT), str(ROOT / "proto" / "gen")))
    environment = {**os.environ, "PYTHONPATH": path, "ARTIFACTS": str(artifacts)}
    command = [sys.executable, __file__, host, *answers]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    found: Verdicts = json.loads(done.stdout)
    return found


def assert_told(verdict: dict[str, Any], *words: str) -> None:
    """One line with these words."""
    assert "\n" not in verdict["why"]
    for word in words:
        assert word in verdict["why"]


@pytest.mark.parametrize(
    ("answer", "agrees"), [("right", True), ("rounded", True), ("noise", False), ("reversed", False)]
)
def test_answers_are_held_against_the_jpeg_route(artifacts: Path, answer: str, agrees: bool) -> None:
    """Rounding and length do not matter; another direction does, and so does another order in a batch."""
    found = parity(artifacts, "http://played:1", f"onnx-http={answer}", "jpeg-http=right")
    assert found["jpeg-http"]["agrees"] is True
    assert found["jpeg-http"]["cosine"] == pytest.approx(1)
    assert found["onnx-http"]["agrees"] is agrees
    assert (found["onnx-http"]["cosine"] >= 0.999) is agrees
    assert_told(found["onnx-http"], "to jpeg-http", "" if agrees else "below 0.999")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("down", "UNAVAILABLE: nobody is there"),
        ("garbage", ""),
        ("short", "0 of 1 images"),
        ("narrow", "another model"),
        ("zeros", "zeros or NaN"),
        ("nan", "zeros or NaN"),
    ],
)
def test_what_is_no_answer_does_not_agree(artifacts: Path, answer: str, words: str) -> None:
    """Without a cosine, and with the reason; the other routes are judged all the same."""
    found = parity(artifacts, "http://played:1", "jpeg-http=right", f"onnx-http={answer}", "typed-http=right")
    assert (found["onnx-http"]["agrees"], found["onnx-http"]["cosine"]) == (False, None)
    assert_told(found["onnx-http"], words)
    assert found["typed-http"]["agrees"]


def test_a_reference_that_is_down(artifacts: Path) -> None:
    """The next route that answers takes its place."""
    found = parity(artifacts, "http://played:1", "jpeg-http=down", "onnx-http=right", "typed-http=right")
    assert [verdict["agrees"] for verdict in found.values()] == [False, True, True]
    assert_told(found["onnx-http"], "to typed-http")
    found = parity(artifacts, "http://played:1", "jpeg-http=down", "onnx-http=right")
    assert_told(found["onnx-http"], "to onnx-http")


def test_inputs_that_are_missing(tmp_path: Path) -> None:
    """A model that was never built has no tensors: said, with what to do."""
    declare(tmp_path, "unknown")
    found = parity(tmp_path, "http://played:1", "jpeg-http=right", "onnx-http=right")
    assert found["jpeg-http"]["agrees"]
    assert found["onnx-http"]["cosine"] is None
    assert_told(found["onnx-http"], "docker compose up models")


@pytest.fixture
def ports(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """Servers that speak every format: their HTTP and their gRPC port."""
    path = os.pathsep.join((str(ROOT), str(ROOT / "proto" / "gen")))
    with subprocess.Popen(
        [sys.executable, SERVERS, "0", request.param],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        assert process.stdout
        http_port, grpc_port = process.stdout.readline().split()
        yield http_port, grpc_port
        process.terminate()


@pytest.mark.parametrize("ports", ["good"], indirect=True)
def test_every_format_over_its_own_client(artifacts: Path, ports: tuple[str, str]) -> None:
    """The answers of all HTTP routes, then of all gRPC routes, are read; those of the other protocol are failures."""
    over_http = parity(artifacts, f"http://127.0.0.1:{ports[0]}")
    over_grpc = parity(artifacts, f"http://127.0.0.1:{ports[1]}")
    for name, verdict in over_http.items():
        right, wrong = (verdict, over_grpc[name]) if not name.endswith("-grpc") else (over_grpc[name], verdict)
        assert (right["agrees"], right["cosine"]) == (True, pytest.approx(1))
        assert (wrong["agrees"], wrong["cosine"]) == (False, None)
        assert_told(wrong)


@pytest.mark.parametrize("ports", ["errors"], indirect=True)
def test_servers_that_refuse(artifacts: Path, ports: tuple[str, str]) -> None:
    """No route agrees when none answers."""
    for port in ports:
        for verdict in parity(artifacts, f"http://127.0.0.1:{port}").values():
            assert (verdict["agrees"], verdict["cosine"]) == (False, None)
            assert verdict["why"]


if __name__ == "__main__":
    main()
