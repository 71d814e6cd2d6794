"""Swapping what is served under load: a request is answered, or told that the model is not available.

The chain: the model that is served -> another image model (slow) -> a tiny repository that has nothing to do with
images -> the two examples that take no photos (slow) -> back.
densenet161 is the second image model: its build takes half the time and space of openclip_vit_b32's.
"""

import asyncio
import os
import re
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from chaos.docker import docker, wait_until
from gateways.core.serving import ARTIFACTS, Serving
from tests import clients
from tests.browser import open_page
from tests.clients import EDGE, MODEL, ROUTES, b64, client_of, post_json, request, tensor
from tests.conftest import all_healthy
from tests.repository import ROOT
from tests.stack.onnx_models import make_broken, make_repository

SWAP_S = 1200
OTHER = "densenet161"
TENSORS = "arithmetic"
NOT_AVAILABLE = re.compile(
    "(404|NOT_FOUND): .*(model not available|unknown model|Model not found|Model version: null does not exist)", re.S
)
# They name no model.
NAMELESS = ("jpeg-http", "typed-grpc", "typed-http")

# Between two calls of a caller: eleven that never wait would take the cores from the swap.
PAUSE_S = 0.5

pytestmark = pytest.mark.timeout(2 * SWAP_S)


@pytest.fixture(scope="module", autouse=True)
def _served_again() -> Iterator[None]:
    """Whatever happens here, the other tests find the model that they began with."""
    wait_until(all_healthy, "everything healthy", seconds=90)
    yield
    clients.MODEL = MODEL
    swap(MODEL)
    wait_until(all_healthy, "everything healthy", seconds=90)


def swap(*arguments: object, fails: bool = False) -> str:
    """Run scripts/swap to its end; what it said."""
    command = [str(ROOT / "scripts/swap"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SWAP_S, check=False)
    assert (done.returncode == 1) is fails, done.stdout + done.stderr
    return done.stderr if fails else done.stdout


def ask(route: str, model: str, photo: bytes) -> str:
    """`answered`, or why not as `status: text`, whatever the protocol; routes that name a model ask for this one."""
    clients.MODEL = model  # in every thread the same at a time
    try:
        client_of(route)([photo])
    except grpc.RpcError as error:
        return f"{error.code().name}: {error.details()}"
    except InferenceServerException as error:
        return f"{str(error.status()).removeprefix('StatusCode.')}: {error.message()}"
    except AssertionError as error:  # of an HTTP status that is not 200
        return str(error)
    return "answered"


@contextmanager
def load(model: str, photo: bytes) -> Iterator[dict[str, Counter[str]]]:
    """One caller per route that goes on asking for `model`; each hears an answer, or that it is not available."""
    heard: dict[str, Counter[str]] = {route: Counter() for route in ROUTES}
    end = threading.Event()

    def call(route: str) -> None:
        while not end.wait(PAUSE_S):
            try:
                heard[route][ask(route, model, photo)] += 1
            except Exception as error:
                heard[route][repr(error)] += 1

    with ThreadPoolExecutor(len(ROUTES)) as callers:
        for route in ROUTES:
            callers.submit(call, route)
        try:
            yield heard
        finally:
            end.set()
    for route, counts in heard.items():
        assert counts, route
        assert all(text == "answered" or NOT_AVAILABLE.match(text) for text in counts), f"{route}: {counts}"


@pytest.mark.slow
def test_to_another_image_model(photo: bytes) -> None:
    """Every route answers it afterwards, under its own name, and the old name is not available any more."""
    with load(MODEL, photo) as heard:
        assert f"{OTHER} is served" in swap(OTHER)
    for route in NAMELESS:  # not one request failed
        assert list(heard[route]) == ["answered"]
    for route in ROUTES:
        assert ask(route, OTHER, photo) == "answered", route
    assert request("POST", "/embed", photo, content_type="image/jpeg").json()["model"] == OTHER
    assert post_json("/v1/predict", {"images": [b64(photo)]}).json()["model"] == OTHER
    for route in set(ROUTES) - set(NAMELESS):
        assert NOT_AVAILABLE.match(ask(route, MODEL, photo)), route


def test_to_a_repository_that_is_not_about_images(photo: bytes, tmp_path: Path) -> None:
    """The KServe routes answer its tensors; a photo route says that the model takes none, and how to ask it."""
    old = Serving.load(ARTIFACTS).model
    make_repository(tmp_path)
    assert "holds several models" in swap(tmp_path, fails=True)
    with load(old, photo):
        assert f"{TENSORS} is served" in swap(tmp_path, "--model", TENSORS)
    wait_until(all_healthy, "everything healthy without an image model", seconds=60)
    for library in (tritonclient.http, tritonclient.grpc):
        with library.InferenceServerClient(EDGE) as client:
            tensors = [tensor(library, name, np.array([[1, 2, 3]], np.float32)) for name in "ab"]
            assert client.infer(TENSORS, tensors).as_numpy("sum").tolist() == [[2, 4, 6]]
    for route in ROUTES:
        assert NOT_AVAILABLE.match(ask(route, old, photo)), route
    for route in NAMELESS:
        assert f"/v2/models/{TENSORS}/infer" in ask(route, old, photo)
    said = asyncio.run(front_page())
    assert f"{TENSORS} takes no photos" in said
    assert "torchserve-http" not in said
    assert said.count("not healthy") == 0


async def front_page() -> str:
    """What the front page of the port says, once it knows how its two routes are."""
    async with open_page(f"http://{EDGE}/") as page:
        await page.wait_for("document.querySelectorAll('.state.healthy, .state.unhealthy').length === 2")
        return str(await page.evaluate("document.body.innerText"))


@pytest.mark.slow
def test_what_cannot_be_served_leaves_the_old_model(tmp_path: Path) -> None:
    """Exit 1 with the reason, in Triton's words where only Triton can see it."""
    old, broken, hollow = Serving.load(ARTIFACTS).model, tmp_path / "broken", tmp_path / "hollow"
    make_broken(tmp_path / "all")
    broken.mkdir()
    (tmp_path / "all" / "corrupt").rename(broken / "corrupt")
    (hollow / "nothing" / "1").mkdir(parents=True)
    for arguments, says in (
        ((broken,), "Protobuf parsing failed"),
        ((hollow,), "nothing is not a model: it has neither a config.pbtxt nor a file"),
        ((tmp_path / "absent",), "is not a folder"),
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
    with load(MODEL, photo):
        swap(MODEL)
    for route in ROUTES:
        assert ask(route, MODEL, photo) == "answered", route
    assert "already" in swap(MODEL)


@pytest.mark.slow
def test_a_swap_that_is_killed_changes_nothing(photo: bytes, tmp_path: Path) -> None:
    """kill -9 while the new model loads beside the old one: the old one answers, and the next swap works."""
    make_repository(tmp_path)
    command = [str(ROOT / "scripts/swap"), str(tmp_path), "--model", TENSORS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as killed:
        assert killed.stdout
        assert any("Loading" in line for line in killed.stdout)
        os.killpg(killed.pid, signal.SIGKILL)
    for route in ROUTES:
        assert ask(route, MODEL, photo) == "answered", route
    assert f"{TENSORS} is served" in swap(tmp_path, "--model", TENSORS)
