"""Swapping what is served under load: a request is answered, or told that the model is not available.

The chain: the model that is served -> another image model (slow) -> a tiny repository that has nothing to do with
images -> the two examples that take no photos (slow) -> back.
densenet161 is the second image model: its build takes half the time and space of openclip_vit_b32's.
"""

import re
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from fiveway.vision.v1 import vision_pb2 as typed
from fiveway.vision.v1 import vision_pb2_grpc as typed_grpc
from torchserve import inference_pb2 as torchserve
from torchserve import inference_pb2_grpc as torchserve_grpc
from tritonclient.utils import InferenceServerException

from gateways.core.serving import Serving
from tests.clients import ARTIFACTS, EDGE, MODEL, TIMEOUT_S, b64, channel, error_text, post_json, request
from tests.conftest import all_healthy
from tests.docker import docker, wait_until
from tests.repository import ROOT
from tests.stack.onnx_models import make_broken, make_repository

SWAP_S = 1200
OTHER = "densenet161"
TENSORS = "arithmetic"
NOT_FOUND = ("404", "NOT_FOUND")
NOT_AVAILABLE = re.compile(r"model not available|unknown model|Model not found|Model version: null does not exist")

# Between two calls of a caller: eleven that never wait would take the cores from the swap.
PAUSE_S = 0.5

pytestmark = pytest.mark.timeout(2 * SWAP_S)

Ask = Callable[[str, bytes], str]


@pytest.fixture(scope="module", autouse=True)
def _served_again() -> Iterator[None]:
    """Whatever happens here, the other tests find the model that they began with."""
    wait_until(all_healthy, "everything healthy", seconds=90)
    yield
    swap(MODEL)
    wait_until(all_healthy, "everything healthy", seconds=90)


def swap(*arguments: object, fails: bool = False) -> str:
    """Run scripts/swap to its end; what it said."""
    command = [str(ROOT / "scripts/swap"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SWAP_S, check=False)
    assert (done.returncode == 1) is fails, done.stdout + done.stderr
    return done.stderr if fails else done.stdout


def served() -> str:
    """The model that is served now."""
    return Serving.load(ARTIFACTS).model


def refused(status: object, text: object) -> str:
    """A failure as `status: text`, in one form for all protocols."""
    return f"{str(status).removeprefix('StatusCode.')}: {text}"


def http(path: str, photo: bytes) -> str:
    reply = request("POST", path, photo, content_type="image/jpeg")
    return "answered" if reply.status == 200 else refused(reply.status, error_text(reply.body))


def typed_http(_: str, photo: bytes) -> str:
    reply = post_json("/v1/predict", {"images": [b64(photo)]})
    return "answered" if reply.status == 200 else refused(reply.status, error_text(reply.body))


def over_grpc(call: Callable[[grpc.Channel], Any]) -> str:
    with channel() as open_channel:
        try:
            call(open_channel)
        except grpc.RpcError as error:
            return refused(error.code(), error.details())
    return "answered"


def typed_call(_: str, photo: bytes) -> str:
    message = typed.PredictRequest(images=[photo])
    return over_grpc(lambda opened: typed_grpc.VisionServiceStub(opened).Predict(message, timeout=TIMEOUT_S))


def torchserve_call(model: str, photo: bytes) -> str:
    message = torchserve.PredictionsRequest(model_name=model, input={"data": photo})
    return over_grpc(
        lambda opened: torchserve_grpc.InferenceAPIsServiceStub(opened).Predictions(message, timeout=TIMEOUT_S)
    )


def kserve(library: Any, model: str, photo: bytes = b"", **options: Any) -> str:
    """Zeros of the model's own names, types and shapes, as any client that knows only its metadata would send.

    With a photo that one, to a model that takes it.
    """
    more = {"network_timeout": TIMEOUT_S} if library is tritonclient.http else {}
    with library.InferenceServerClient(EDGE, **more) as client:
        try:
            if photo:
                tensor = library.InferInput("jpeg", [1, 1], "BYTES")
                tensor.set_data_from_numpy(np.array([[photo]], object))
            else:
                tensor = library.InferInput("image", [1, 3, 224, 224], "FP32")
                tensor.set_data_from_numpy(np.zeros((1, 3, 224, 224), np.float32))
            client.infer(model, [tensor], **options)
        except InferenceServerException as error:
            return refused(error.status(), error.message())
    return "answered"


ROUTES: dict[str, Ask] = {
    "jpeg-http": lambda _, photo: http("/embed", photo),
    "onnx-http": lambda model, _: kserve(tritonclient.http, model),
    "onnx-grpc": lambda model, _: kserve(tritonclient.grpc, model, client_timeout=TIMEOUT_S),
    "trt-http": lambda model, _: kserve(tritonclient.http, f"{model}_trt"),
    "trt-grpc": lambda model, _: kserve(
        tritonclient.grpc, f"{model}_trt", client_timeout=TIMEOUT_S, headers={"x-route": "trt-grpc"}
    ),
    "onnx-jpeg-http": lambda model, photo: kserve(tritonclient.http, f"{model}_jpeg", photo),
    "onnx-jpeg-grpc": lambda model, photo: kserve(
        tritonclient.grpc, f"{model}_jpeg", photo, client_timeout=TIMEOUT_S, headers={"x-route": "onnx-jpeg-grpc"}
    ),
    "torchserve-http": lambda model, photo: http(f"/predictions/{model}", photo),
    "torchserve-grpc": torchserve_call,
    "typed-grpc": typed_call,
    "typed-http": typed_http,
}


@contextmanager
def load(model: str, photo: bytes) -> Iterator[dict[str, Counter[str]]]:
    """One caller per route that goes on asking for `model`; what each heard."""
    heard: dict[str, Counter[str]] = {route: Counter() for route in ROUTES}
    end = threading.Event()

    def call(route: str) -> None:
        while not end.wait(PAUSE_S):
            try:
                heard[route][ROUTES[route](model, photo)] += 1
            except Exception as error:
                heard[route][repr(error)] += 1

    callers = [threading.Thread(target=call, args=(route,)) for route in ROUTES]
    for caller in callers:
        caller.start()
    try:
        yield heard
    finally:
        end.set()
        for caller in callers:
            caller.join()


def only_answers_or_not_available(heard: dict[str, Counter[str]]) -> None:
    """Nothing else was said, and every route was asked."""
    for route, counts in heard.items():
        assert counts, route
        for text in counts:
            status, _, words = text.partition(": ")
            clear = status in NOT_FOUND and NOT_AVAILABLE.search(words)
            assert text == "answered" or clear, f"{route}: {counts}"


def not_available(route: str, model: str, photo: bytes) -> bool:
    status, _, words = ROUTES[route](model, photo).partition(": ")
    return status in NOT_FOUND and bool(NOT_AVAILABLE.search(words))


@pytest.mark.slow
def test_to_another_image_model(photo: bytes) -> None:
    """Every route answers it afterwards, under its own name, and the old name is not available any more."""
    with load(MODEL, photo) as heard:
        assert f"{OTHER} is served" in swap(OTHER)
    only_answers_or_not_available(heard)
    for route in ("jpeg-http", "typed-grpc", "typed-http"):  # they name no model: not one request failed
        assert list(heard[route]) == ["answered"]
    for route, ask in ROUTES.items():
        assert ask(OTHER, photo) == "answered", route
    assert request("POST", "/embed", photo, content_type="image/jpeg").json()["model"] == OTHER
    assert post_json("/v1/predict", {"images": [b64(photo)]}).json()["model"] == OTHER
    for route in ROUTES.keys() - {"jpeg-http", "typed-grpc", "typed-http"}:
        assert not_available(route, MODEL, photo), route


def test_to_a_repository_that_is_not_about_images(photo: bytes, tmp_path: Path) -> None:
    """The KServe routes answer its tensors; a photo route says that the model takes none, and how to ask it."""
    old = served()
    make_repository(tmp_path)
    assert "holds several models" in swap(tmp_path, fails=True)
    with load(old, photo) as heard:
        assert f"{TENSORS} is served" in swap(tmp_path, "--model", TENSORS)
    only_answers_or_not_available(heard)
    wait_until(all_healthy, "everything healthy without an image model", seconds=60)
    for library in (tritonclient.http, tritonclient.grpc):
        with library.InferenceServerClient(EDGE) as client:
            tensors = [library.InferInput(name, [1, 3], "FP32") for name in "ab"]
            for tensor in tensors:
                tensor.set_data_from_numpy(np.array([[1, 2, 3]], np.float32))
            assert client.infer(TENSORS, tensors).as_numpy("sum").tolist() == [[2, 4, 6]]
    for route in ROUTES:
        assert not_available(route, old, photo), route
    for route in ("jpeg-http", "typed-grpc", "typed-http"):
        assert f"/v2/models/{TENSORS}/infer" in ROUTES[route]("", photo)


@pytest.mark.slow
def test_what_cannot_be_served_leaves_the_old_model(tmp_path: Path) -> None:
    """Exit 1 with the reason, in Triton's words where only Triton can see it."""
    old, broken, hollow = served(), tmp_path / "broken", tmp_path / "hollow"
    make_broken(tmp_path / "all")
    broken.mkdir()
    (tmp_path / "all" / "corrupt").rename(broken / "corrupt")
    (hollow / "nothing" / "1").mkdir(parents=True)
    for arguments, says in (
        ((broken,), "Protobuf parsing failed"),
        ((hollow,), "nothing is no model: it has neither a config.pbtxt nor a file"),
        ((tmp_path / "absent",), "is no folder"),
        (("resnet",), "no such model"),
    ):
        told = swap(*arguments, fails=True)
        assert says in told
        with tritonclient.http.InferenceServerClient(EDGE) as client:
            assert client.is_model_ready(old)
            assert not client.is_model_ready("corrupt")


@pytest.mark.slow
@pytest.mark.parametrize("example", ["magika", "silero_vad"])
def test_to_an_example_that_takes_no_photos(example: str) -> None:
    """The load asks it by its metadata alone, whatever its inputs are, and says which routes make no sense for it."""
    assert f"{example} is served" in swap(example)
    ask = ("compose", "run", "--rm", "--no-deps", "-T", "locust-worker", "python", "-m", "locustfiles.smoke")
    said = docker(*ask)
    for route in ROUTES:
        fits = route in ("onnx-http", "onnx-grpc")
        assert f"{route} {'ok' if fits else f'not for {example}'}" in said


def test_and_back(photo: bytes) -> None:
    """A retired model serves again; once more is nothing to do."""
    with load(MODEL, photo) as heard:
        swap(MODEL)
    only_answers_or_not_available(heard)
    for route, ask in ROUTES.items():
        assert ask(MODEL, photo) == "answered", route
    assert "already" in swap(MODEL)
