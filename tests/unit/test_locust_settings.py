"""What a run can choose, and how a choice that cannot be run is refused."""

from pathlib import Path
from typing import Any

import pytest

from locustfiles import serving, settings
from locustfiles.routes import ROUTES
from locustfiles.serving import NothingServed
from locustfiles.settings import BadSetting
from tests.unit.locust_servers import standing_in
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


@pytest.mark.parametrize(
    ("changes", "routes", "word"),
    [
        ({}, ["jpeg-htp"], "unknown user class"),
        *[({"batch": batch}, ["jpeg-http"], "1 to 32") for batch in ("0", "33", "many")],
        ({"distance": "far"}, ["jpeg-http"], "150ms-100mbit"),
        ({"distance": "2ms-1mbit", "target": "direct"}, ["jpeg-http"], "target edge"),
        ({"batch": "2"}, ["jpeg-http", "torchserve-grpc"], "on torchserve-grpc"),
        ({"photo": "1x1"}, ["jpeg-http"], "size 1x1"),
        ({"target": "moon"}, ["jpeg-http"], "moon"),
        ({"policy": "none"}, ["jpeg-http"], "policy none"),
        ({"target": "direct"}, ["jpeg-http", "typed-http"], "typed-http"),
        ({"target": "edge"}, ["jpeg-http", "litserve"], "litserve. Choose target direct"),
        *[
            ({"host": host}, ["jpeg-http"], "http://edge:8080")
            for host in ("edge:8080", "ftp://edge", "http://edge:port", "http://edge/v2", "")
        ],
    ],
)
def test_a_choice_that_cannot_be_run_is_refused(changes: dict[str, str], routes: list[str], word: str) -> None:
    """Before anything starts, and the text says what is wrong."""
    with pytest.raises(BadSetting, match=word):
        settings.parse(form(**changes), routes)


@pytest.mark.parametrize(
    ("changes", "route", "address"),
    [
        ({"host": "http://edge:8080/"}, "jpeg-http", "edge:8080"),
        ({"host": "http://edge"}, "jpeg-http", "edge:80"),
        ({"host": "http://[::1]:8080"}, "jpeg-http", "[::1]:8080"),
        ({"target": "direct"}, "trt-grpc", "triton:8001"),
        ({"target": "http://10.0.0.7:8080"}, "typed-http", "10.0.0.7:8080"),
    ],
)
def test_where_a_route_goes(changes: dict[str, str], route: str, address: str) -> None:
    """To the edge at the host's address, straight to its own server, or to an edge elsewhere whatever the host says."""
    assert settings.parse(form(**changes), [route]).address(ROUTES[route]) == address


def test_photos_are_not_for_a_model_of_tensors(served: Path) -> None:
    """Routes that make no sense for what is served are refused, each with its reason, and the others are named."""
    declare(served, "magika", None, images=False)
    with pytest.raises(BadSetting, match=r"jpeg-http: .*photos.*trt-http: .*magika_trt.*onnx-http, onnx-grpc"):
        settings.parse(form(), ["jpeg-http", "onnx-grpc", "trt-http"])
    assert settings.parse(form(), ["onnx-http", "onnx-grpc"]).served(ROUTES["onnx-http"]) == "magika"


def test_nothing_served_says_what_to_do(served: Path) -> None:
    """If serving.json is broken, or absent without a Triton to ask, nothing can run."""
    for text in ("{}", "[", '{"schema": 2}'):
        (served / "serving.json").write_text(text)
        with pytest.raises(BadSetting, match="start the stack"):
            settings.parse(form(), ["onnx-http"])
    (served / "serving.json").unlink()
    with pytest.raises(NothingServed, match="No such file"):
        serving.now()
    with pytest.raises(BadSetting, match="start the stack"):
        settings.parse(form(host="http://127.0.0.1:1"), ["onnx-http"])


@pytest.mark.parametrize(
    ("model", "models", "images"),
    [("tiny", ("tiny", "tiny_trt", "tiny_jpeg"), True), ("tiny_trt", ("tiny_trt",), False)],
)
def test_a_stack_is_asked_what_it_serves(
    model: str, models: tuple[str, ...], images: bool, served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without serving.json, Triton says which variants it holds of the model that MODEL names."""
    (served / "serving.json").unlink()
    monkeypatch.setenv("MODEL", model)
    with standing_in() as servers:
        assert settings.serving_at(servers.host) == serving.Serving(model, models, images)
        monkeypatch.setenv("MODEL", "other")
        with pytest.raises(BadSetting, match=r"does not serve other.*MODEL"):
            settings.parse(form(host=servers.host), ["jpeg-http"])


def test_direct_addresses_lead_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Docker each server is where DIRECT_ADDRESSES says; the others, and all without it, keep their names."""
    assert not settings.native()
    monkeypatch.setenv("DIRECT_ADDRESSES", "triton:8000=127.0.0.1:18000 triton:8001=127.0.0.1:18001")
    assert settings.native()
    chosen = settings.parse(form(target="direct"), ["jpeg-http", "onnx-http"])
    found = [chosen.address(ROUTES[name]) for name in ("onnx-http", "trt-grpc", "jpeg-http")]
    assert found == ["127.0.0.1:18000", "127.0.0.1:18001", "jpeg-http:8000"]
    for pairs in ("triton:8000", "triton=127.0.0.1:1", "triton:8000=127.0.0.1:1,triton:8001=x:2"):
        monkeypatch.setenv("DIRECT_ADDRESSES", pairs)
        with pytest.raises(BadSetting, match=r"write pairs like triton:8000=127\.0\.0\.1:18000"):
            settings.direct_address("triton:8000")
