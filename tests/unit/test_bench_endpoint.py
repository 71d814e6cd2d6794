"""`bench endpoint`: what stands in for the stack's Triton, and one clear line where nothing can."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bench import commands, endpoint
from locustfiles import calls, serving, settings, tensors
from locustfiles.clients import Answer, CallError, key
from locustfiles.settings import BadSetting, Settings
from locustfiles.study_routes.endpoint import GRPC, HTTP, ROWS
from tests.unit.http_server import http_server

ABOUT: dict[str, Any] = {
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}],
    "outputs": [{"name": "y", "datatype": "INT64", "shape": [-1]}],
}


def server(about: Any, extensions: list[str]) -> Starlette:
    """The protocol without extensions of Triton's: no /config."""

    async def answer(request: Request) -> Response:
        pages = {"/v2": {"name": "s", "version": "1", "extensions": extensions}, "/v2/models/m": about}
        found = pages.get(request.url.path)
        return JSONResponse({"error": "no such model"}, 404) if found is None else JSONResponse(found)

    return Starlette(routes=[Route("/{path:path}", answer)])


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the command sets ends with the test."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "environ", {**os.environ})
        tensors.described.cache_clear()
        yield
    tensors.described.cache_clear()


def stand_in(about: Any, *options: str, extensions: tuple[str, ...] = ()) -> tuple[list[str], Any]:
    with http_server(server(about, [*extensions])) as port:
        chosen = commands.parse(["endpoint", f"http://127.0.0.1:{port}", "--model", "m", *options])
        return endpoint.stand_in(chosen), tensors.described(f"127.0.0.1:{port}", "m", serving.now())


def test_it_is_asked_where_the_stack_s_triton_would_be() -> None:
    """Both protocols at their own addresses, with the headers; their values are not kept with the result."""
    rows, model = stand_in(ABOUT, "--grpc", "127.0.0.1:9", "--header", "Authorization: Bearer s3cret")
    assert rows == [HTTP, GRPC]
    assert key() == {"authorization": "Bearer s3cret"}
    chosen = Settings("edge:8080", batch=4, target=settings.DIRECT)
    assert chosen.address(ROWS[GRPC]) == "127.0.0.1:9"
    assert (model.max_batch, model.binary, model.inputs[0].shape) == (32, False, (3,))


def test_without_an_extension_tensors_are_json() -> None:
    """Both ways: a request's numbers, and an answer's."""
    _, model = stand_in(ABOUT)
    sent = tensors.encode("HTTP", model, tensors.inputs(model), 0, 2)
    (said,) = json.loads(sent.body)["inputs"]
    assert (said["shape"], len(said["data"]), sent.headers) == ([2, 3], 6, {"content-type": "application/json"})
    answer = Answer(
        json.dumps({"outputs": [{"name": "y", "datatype": "INT64", "shape": [2], "data": [1, -7]}]}).encode()
    )
    tensors.check("HTTP", model, answer, 2)
    assert tensors.flat("HTTP", answer).tolist() == [1, 1, -7]


def test_inputs_of_a_file_are_sent_in_turn(tmp_path: Path) -> None:
    """Each item of the arrays; a file that does not fit is refused with what would."""
    np.savez(tmp_path / "good.npz", x=np.arange(6.0).reshape(2, 3))
    _, model = stand_in(ABOUT, "--input", str(tmp_path / "good.npz"), extensions=("binary_tensor_data",))
    items = tensors.inputs(model)
    assert [item["x"].tolist() for item in items] == [[0, 1, 2], [3, 4, 5]]
    assert items[0]["x"].dtype == np.float32
    for arrays, wrong in (
        ({"z": np.zeros((2, 3))}, r"has \['z'\]: m takes \['x'\]"),
        ({"x": np.zeros((2, 4))}, r"items of shape \[4\], where \[3\] is declared"),
        ({"x": np.float32(1)}, "counts the items"),
        ({"x": np.array([{}], object)}, "not an .npz of numbers and texts"),
    ):
        np.savez(tmp_path / "bad.npz", **arrays)
        os.environ["INPUT"] = str(tmp_path / "bad.npz")
        with pytest.raises(CallError, match=wrong):
            tensors.inputs(model)


@pytest.mark.parametrize(
    ("about", "wrong"),
    [
        (None, "HTTP 404: .*no such model"),
        ([], "does not describe m as the protocol has it"),
        ({"inputs": [{"name": "x"}], "outputs": []}, "does not describe m"),
        ({"inputs": [{"name": "x", "datatype": "FP32", "shape": "wide"}], "outputs": []}, "does not describe m"),
    ],
    ids=["no model", "a list", "no shape", "a shape of text"],
)
def test_a_server_that_breaks_the_rules_is_said_to(about: Any, wrong: str) -> None:
    """One line, before anything is measured."""
    with pytest.raises(CallError, match=wrong):
        stand_in(about)


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (["http://here:0x", "--model", "m"], "write it like http://"),
        (["ftp://here", "--model", "m"], "write it like http://"),
        (["http://here", "--model", "m", "--header", "x"], "write NAME:VALUE"),
        (["http://here", "--model", "m", "--input", "nothing.npz"], "there is no file"),
    ],
)
def test_what_cannot_be_asked_is_refused(options: list[str], wrong: str) -> None:
    with pytest.raises(BadSetting, match=wrong):
        endpoint.stand_in(commands.parse(["endpoint", *options]))


def test_the_rows_are_asked_by_the_stack_s_own_clients() -> None:
    """The requests are those of the model's metadata."""
    stand_in(ABOUT, extensions=("binary_tensor_data",))
    assert calls.endpoint_of(ROWS[HTTP], Settings("edge:8080", target=settings.DIRECT)).path == "/v2/models/m/infer"
