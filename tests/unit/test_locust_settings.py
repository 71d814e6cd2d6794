"""What a run can choose, and how a choice that cannot be run is refused."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import pytest

from locustfiles import settings
from locustfiles.routes import ROUTES
from locustfiles.settings import BadSetting
from tests.unit.tiny_artifacts import declare


@pytest.fixture(autouse=True)
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that says that `tiny`, which takes photos, is served."""
    declare(tmp_path)
    monkeypatch.setenv("ARTIFACTS", str(tmp_path))
    return tmp_path


def form(**changes: Any) -> dict[str, Any]:
    """What Locust's page posts, which is text."""
    chosen = {"batch": "1", "photo": "224x224", "target": "edge", "policy": "pooled", "host": "http://edge:8080"}
    return chosen | changes


def test_defaults_run_every_route_through_the_edge() -> None:
    """With nothing chosen every route can run, and all of them connect to the host's address."""
    parser = ArgumentParser()
    settings.add_arguments(parser)
    chosen = settings.parse(vars(parser.parse_args([])) | {"host": "http://edge:8080"}, ROUTES)
    assert {chosen.address(route) for route in ROUTES.values()} == {"edge:8080"}
    assert chosen.batch == 1


@pytest.mark.parametrize(
    ("changes", "routes", "says"),
    [
        ({}, ["jpeg-htp"], "unknown user class jpeg-htp: choose from jpeg-http, onnx-http,"),
        ({"batch": "0"}, ["jpeg-http"], "choose 1 to 32"),
        ({"batch": "33"}, ["jpeg-http"], "choose 1 to 32"),
        ({"batch": "many"}, ["jpeg-http"], "choose 1 to 32"),
        ({"batch": "2"}, ["jpeg-http", "torchserve-grpc"], "only 1 image per request on torchserve-grpc"),
        ({"photo": "1x1"}, ["jpeg-http"], "no photos of size 1x1"),
        ({"target": "moon"}, ["jpeg-http"], "choose edge, direct, or write an edge like http://edge:8080"),
        ({"policy": "none"}, ["jpeg-http"], "unknown policy none: choose pooled, shared, cold"),
        ({"target": "direct"}, ["jpeg-http", "typed-http"], "only at the edge: typed-http"),
        ({"host": "edge:8080"}, ["jpeg-http"], "write it like http://edge:8080"),
        ({"host": "https://edge"}, ["jpeg-http"], "write it like http://edge:8080"),
        ({"host": "http://edge:port"}, ["jpeg-http"], "write it like http://edge:8080"),
        ({"host": "http://edge/v2"}, ["jpeg-http"], "write it like http://edge:8080"),
        ({"host": ""}, ["jpeg-http"], "write it like http://edge:8080"),
    ],
)
def test_refusals_say_what_to_choose(changes: dict[str, str], routes: list[str], says: str) -> None:
    """A choice that cannot be run is refused before anything starts."""
    with pytest.raises(BadSetting, match=says):
        settings.parse(form(**changes), routes)


@pytest.mark.parametrize(
    ("host", "address"),
    [("http://edge:8080", "edge:8080"), ("http://edge:8080/", "edge:8080"), ("http://edge", "edge:80")],
)
def test_host_becomes_an_address(host: str, address: str) -> None:
    """HTTP and gRPC clients connect to one host:port, taken from the URL."""
    assert settings.parse(form(host=host), ["jpeg-http"]).address(ROUTES["jpeg-http"]) == address


def test_direct_goes_to_each_server() -> None:
    """Without the edge every route has its own server's address."""
    chosen = settings.parse(form(target="direct"), [name for name in ROUTES if name != "typed-http"])
    assert chosen.address(ROUTES["trt-grpc"]) == "triton:8001"
    assert chosen.address(ROUTES["jpeg-http"]) == "jpeg-http:8000"


def test_an_edge_elsewhere_is_a_target() -> None:
    """A URL as the target sends every route there, whatever the host says."""
    chosen = settings.parse(form(target="http://10.0.0.7:8080"), ROUTES)
    assert {chosen.address(route) for route in ROUTES.values()} == {"10.0.0.7:8080"}


def test_photos_are_not_for_a_model_of_tensors(served: Path) -> None:
    """Routes that make no sense for what is served are refused, each with its reason, and the others are named."""
    declare(served, "magika", None, images=False)
    with pytest.raises(BadSetting) as refused:
        settings.parse(form(), ["jpeg-http", "onnx-grpc", "trt-http"])
    assert str(refused.value) == (
        "jpeg-http: it takes photos, and magika takes tensors; trt-http: there is no magika_trt. "
        "Choose from onnx-http, onnx-grpc"
    )
    chosen = settings.parse(form(), ["onnx-http", "onnx-grpc"])
    assert chosen.served(ROUTES["onnx-http"]) == "magika"


def test_a_model_without_its_jpeg_model(served: Path) -> None:
    """What an older build left behind has none: the routes say so."""
    said = json.loads((served / "serving.json").read_text())
    (served / "serving.json").write_text(json.dumps(said | {"models": ["tiny"]}))
    with pytest.raises(BadSetting, match="onnx-jpeg-http: there is no tiny_jpeg"):
        settings.parse(form(), ["onnx-jpeg-http"])


def test_nothing_served_says_what_to_do(served: Path) -> None:
    """Without the models service's word, or with one that is broken, nothing can run."""
    for text in ("{}", "[", '{"schema": 2}'):
        (served / "serving.json").write_text(text)
        with pytest.raises(BadSetting, match="start the stack first"):
            settings.parse(form(), ["onnx-http"])
    (served / "serving.json").unlink()
    with pytest.raises(BadSetting, match="No such file"):
        settings.parse(form(), ["onnx-http"])


def test_direct_addresses_lead_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Docker each server is where DIRECT_ADDRESSES says; the others, and all without it, keep their names."""
    chosen = settings.parse(form(target="direct"), ["jpeg-http", "onnx-http"])
    assert chosen.address(ROUTES["onnx-http"]) == "triton:8000"
    assert not settings.native()
    monkeypatch.setenv("DIRECT_ADDRESSES", "triton:8000=127.0.0.1:18000 triton:8001=127.0.0.1:18001")
    assert settings.native()
    assert chosen.address(ROUTES["onnx-http"]) == "127.0.0.1:18000"
    assert chosen.address(ROUTES["trt-grpc"]) == "127.0.0.1:18001"
    assert chosen.address(ROUTES["jpeg-http"]) == "jpeg-http:8000"
    assert settings.parse(form(), ["onnx-http"]).address(ROUTES["onnx-http"]) == "edge:8080"


@pytest.mark.parametrize("pairs", ["triton:8000", "triton=127.0.0.1:1", "triton:8000=127.0.0.1:1,triton:8001=x:2"])
def test_direct_addresses_are_pairs(pairs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no pair is named, with an example."""
    monkeypatch.setenv("DIRECT_ADDRESSES", pairs)
    with pytest.raises(BadSetting, match=r"write pairs like triton:8000=127\.0\.0\.1:18000"):
        settings.direct_address("triton:8000")
