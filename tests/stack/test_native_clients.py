"""Unmodified native clients against the one port: what each server offers by itself, and nothing of its controls."""

import itertools
import json
import re
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from fiveway.transport.v1 import base_pb2, distance_pb2
from fiveway.vision.v1 import vision_pb2 as typed
from fiveway.vision.v1 import vision_pb2_grpc as typed_grpc
from google.protobuf import empty_pb2
from seldon import prediction_pb2
from torchserve import inference_pb2 as torchserve_inference
from torchserve import inference_pb2_grpc as torchserve_grpc
from tritonclient.grpc import service_pb2 as kserve

from chaos.docker import address_of, container, docker, page_faults
from tests.clients import CLIENTS, EDGE, MODEL, TIMEOUT_S, b64, channel, error_text, post_json, raw_call, request

TIMING = re.compile(r"([a-z_]+;dur=\d+\.\d{3})(, [a-z_]+;dur=\d+\.\d{3})*")


def run(*command: str, data: bytes = b"") -> str:
    """stdout of a command that must succeed."""
    done = subprocess.run(command, input=data, capture_output=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.decode()}{done.stdout.decode()}"
    return done.stdout.decode()


def grpcurl(*arguments: str) -> str:
    return run("grpcurl", "-plaintext", "-max-time", "30", *arguments)


# ---------------------------------------------------------------- curl


@pytest.mark.parametrize("version", ["--http1.1", "--http2-prior-knowledge"])
def test_curl(version: str, photo: bytes) -> None:
    """HTTP/1.1 and prior-knowledge h2c on the same port: a photo, TorchServe's own health, KServe v2."""

    def curl(path: str, *arguments: str, data: bytes = b"") -> Any:
        command = ("curl", "--fail", "--silent", version, *arguments, "--write-out", "\n%{http_version}")
        body, _, spoken = run(*command, f"http://{EDGE}{path}", data=data).rpartition("\n")
        assert spoken == ("2" if "http2" in version else "1.1")
        return json.loads(body or "null")

    jpeg = ("--data-binary", "@-", "--header", "content-type: image/jpeg")
    assert curl("/classify", *jpeg, data=photo)["model"] == MODEL
    assert curl("/ping") == {"status": "Healthy"}
    curl("/v2/health/ready")
    assert curl("/v2")["name"] == "triton"
    assert curl("/health")["status"] == "ok"
    assert curl(f"/v2/models/{MODEL}")["inputs"][0]["name"] == "image"


def test_the_openapi_page_works_offline() -> None:
    """The page names no other host, and what it names on this one is there."""
    page = request("GET", "/docs")
    assert page.status == 200
    assets = re.findall(r"(?:src|href)=\"([^\"]+)\"", page.body.decode())
    assert assets
    for asset in assets:
        assert asset.startswith("/docs/"), asset
        assert request("GET", asset).status == 200, asset
    assert "/embed/base64" in request("GET", "/openapi.json").json()["paths"]


# ---------------------------------------------------------------- grpcurl


def test_grpcurl_explores_and_predicts(photo: bytes) -> None:
    """Reflection: the typed service can be explored, and asked, without its proto; with `x-backend: triton`, Triton's
    own health answers."""
    services = grpcurl(EDGE, "list").split()
    assert {"fiveway.vision.v1.VisionService", "grpc.health.v1.Health"} <= set(services)
    assert "rpc Predict " in grpcurl(EDGE, "describe", "fiveway.vision.v1.VisionService")
    assert "repeated bytes images" in grpcurl(EDGE, "describe", "fiveway.vision.v1.PredictRequest")
    message = json.dumps({"images": [b64(photo)], "outputs": ["OUTPUT_CLASSES"], "top_k": 3})
    answer = json.loads(grpcurl("-d", message, EDGE, "fiveway.vision.v1.VisionService/Predict"))
    assert (answer["model"], len(answer["predictions"])) == (MODEL, 1)
    for header in ((), ("-H", "x-backend: triton")):
        assert json.loads(grpcurl(*header, EDGE, "grpc.health.v1.Health/Check")) == {"status": "SERVING"}


# ---------------------------------------------------------------- tritonclient


@pytest.mark.parametrize("model", [MODEL, f"{MODEL}_trt"])
@pytest.mark.parametrize("library", [tritonclient.http, tritonclient.grpc], ids=["http", "grpc"])
def test_tritonclient_asks_about_a_model(library: Any, model: str) -> None:
    """Health, metadata and configuration."""
    form = {"as_json": True} if library is tritonclient.grpc else {}
    with library.InferenceServerClient(EDGE) as client:
        assert client.is_server_live()
        assert client.is_server_ready()
        assert client.is_model_ready(model)
        assert client.get_server_metadata(**form)["name"] == "triton"
        metadata, config = client.get_model_metadata(model, **form), client.get_model_config(model, **form)
    assert [int(length) for length in metadata["inputs"][0]["shape"]] == [-1, 3, 224, 224]
    assert metadata["outputs"][0]["name"] == "embedding"
    config = config.get("config", config)
    assert (config["max_batch_size"], config["backend"]) == (32, "onnxruntime")
    assert config["parameters"]["weights"]["string_value"] in ("real", "random")


def test_tritonclient_grpc_streams() -> None:
    """ModelStreamInfer, as tritonclient's start_stream does it."""
    answers: list[object] = []
    image = tritonclient.grpc.InferInput("image", [1, 3, 224, 224], "FP32")
    image.set_data_from_numpy(np.zeros((1, 3, 224, 224), np.float32))
    with tritonclient.grpc.InferenceServerClient(EDGE) as client:
        client.start_stream(lambda result, error: answers.append(error or result))
        for _ in range(3):
            client.async_stream_infer(MODEL, [image])
        client.stop_stream()
    assert [type(answer) for answer in answers] == [tritonclient.grpc.InferResult] * 3, answers


def test_a_burst_does_not_wait_for_later_calls() -> None:
    """Eight calls at once take no longer than one after the other. With a queue policy in the model's config the last
    ones of every second burst waited half a second, beside a model that was free."""
    image = tritonclient.http.InferInput("image", [1, 3, 224, 224], "FP32")
    image.set_data_from_numpy(np.zeros((1, 3, 224, 224), np.float32))

    def timed(work: Callable[[], object]) -> float:
        begun = time.monotonic()
        work()
        return time.monotonic() - begun

    with tritonclient.http.InferenceServerClient(EDGE, concurrency=8) as client:

        def serial() -> None:
            for _ in range(8):
                client.infer(MODEL, [image])

        def burst() -> None:
            for call in [client.async_infer(MODEL, [image]) for _ in range(8)]:
                call.get_result()

        serial()
        slower = [timed(burst) > 2 * timed(serial) for _ in range(20)]
    assert sum(slower) <= 5, slower


@pytest.mark.parametrize(
    "client",
    [
        *("onnx-http", "onnx-grpc", "trt-http", "trt-grpc"),
        *("jpeg-http/base64", "jpeg-http/multipart", "typed-grpc/unary", "typed-http"),
    ],
)
def test_a_batch_of_32_passes(client: str, photos: dict[str, bytes]) -> None:
    """19.3 MB of tensors, or the largest photos (18 MB as base64), in one request, and an answer for each image."""
    large = [jpeg for name, jpeg in photos.items() if name.endswith("1080x1920")]
    answers = CLIENTS[client]((large * 32)[:31] + large[:1])
    assert len(answers) == 32
    assert np.allclose(answers[0].embedding, answers[31].embedding, atol=1e-3)


def test_json_up_to_the_limit_is_answered(photo: bytes) -> None:
    """Four images, 6.6 MB. Triton copies JSON onto a stack: with the usual 8 MiB of it, 5 MB ended the process."""
    numbers = [0.12345678] * (4 * 3 * 224 * 224)
    image = {"name": "image", "shape": [4, 3, 224, 224], "datatype": "FP32", "data": numbers}
    body = json.dumps({"inputs": [image]}, separators=(",", ":")).encode()
    started = container("triton")["State"]["StartedAt"]
    reply = request("POST", f"/v2/models/{MODEL}/infer", body)
    assert (reply.status, 6 < len(body) / 1e6 < 8) == (200, True), reply.body[:200]
    assert container("triton")["State"]["StartedAt"] == started


@pytest.mark.parametrize(
    ("client", "service"),
    [("jpeg-http/base64", "jpeg-http"), ("onnx-http", "triton"), ("torchserve-http/raw", "torchserve")],
)
def test_a_large_batch_computes_in_memory_that_is_there(client: str, service: str, photo: bytes) -> None:
    """A server that gives its activations back faults 3,500 times per image at batch 32, in every call.

    A tensor that is received takes 147 pages of 4 KiB, and the look itself takes some. One call alone may be the
    first that needs more memory than those before it, which a server keeps from then on: the least of four is asked.
    """
    taken = []
    for _ in range(5):
        before = page_faults(service)
        CLIENTS[client]([photo] * 32)
        taken.append(page_faults(service) - before)
    assert min(taken[1:]) < 32 * 500, taken


# ---------------------------------------------------------------- TorchServe


def test_torchserve_ping_over_grpc() -> None:
    """Its own stubs, its own health call."""
    with channel() as open_channel:
        reply = torchserve_grpc.InferenceAPIsServiceStub(open_channel).Ping(empty_pb2.Empty(), timeout=TIMEOUT_S)
    assert json.loads(reply.health) == {"status": "Healthy"}


# ---------------------------------------------------------------- timing


def test_every_gateway_says_where_the_time_went(photo: bytes) -> None:
    """On answers and on refusals: a Server-Timing header, and trailing metadata of the typed gateway."""
    jpeg = {"content_type": "image/jpeg"}
    replies = (
        request("POST", "/embed", photo, **jpeg),
        request("POST", "/embed", b"x", **jpeg),
        post_json("/v1/predict", {"images": [b64(photo)]}),
        post_json("/v1/predict", {"images": []}),
        request("POST", f"/predictions/{MODEL}", photo, **jpeg),
    )
    said = [reply.headers["server-timing"] for reply in replies]
    with channel() as open_channel:
        predict = typed_grpc.VisionServiceStub(open_channel).Predict
        for backend, images in itertools.product(("torchserve", "triton"), ([photo], [])):
            message, metadata = typed.PredictRequest(images=images), (("x-backend", backend),)
            call = predict.future(message, timeout=TIMEOUT_S, metadata=metadata)
            said.append(str(dict(call.trailing_metadata())["server-timing"]))
            assert "total;dur=" in said[-1]
    assert [timing for timing in said if not TIMING.fullmatch(timing)] == []


# ---------------------------------------------------------------- deadline and cancellation


def photos_taken(backend: str) -> float:
    """Photos that reached the server behind the typed gateway since its start, by its own count."""
    if backend == "triton":
        with urllib.request.urlopen(f"http://{address_of('triton')}:8000/v2/models/{MODEL}/stats") as answer:
            return float(json.load(answer)["model_stats"][0]["inference_count"])
    ask = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8082/metrics').read().decode())"
    page = docker("exec", container("torchserve")["Id"], "python3", "-c", ask)
    return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith("ts_inference_requests_total"))


@pytest.mark.parametrize("backend", ["torchserve", "triton"])
@pytest.mark.parametrize("end", ["deadline", "cancel"])
def test_a_call_that_ends_takes_its_work_away(end: str, backend: str, photos: dict[str, bytes]) -> None:
    """Of ten batches of 32 that met their deadline, or were cancelled, most photos never reach the server.

    What TorchServe has taken it finishes: the gateway gives it 64 at once. The line refuses those that it could not
    answer in time, which may be all but the first; tests/unit/test_typed_grpc.py has more at work.
    """
    message = typed.PredictRequest(images=[photos["otter_1080x1920"]] * 32)
    metadata = (("x-backend", backend),)
    with channel() as open_channel:
        predict = typed_grpc.VisionServiceStub(open_channel).Predict
        start = time.monotonic()
        predict(message, timeout=TIMEOUT_S, metadata=metadata)
        early_s = (time.monotonic() - start) / 4
        before = photos_taken(backend)
        limit_s = early_s if end == "deadline" else TIMEOUT_S
        calls = [predict.future(message, timeout=limit_s, metadata=metadata) for _ in range(10)]
        if end == "cancel":
            time.sleep(early_s)
            for call in calls:
                call.cancel()
        wanted = grpc.StatusCode.DEADLINE_EXCEEDED if end == "deadline" else grpc.StatusCode.CANCELLED
        codes = [call.code() for call in calls]
        assert set(codes) <= {wanted, grpc.StatusCode.RESOURCE_EXHAUSTED}
        assert wanted in codes
        # Behind all that is left of them.
        predict(typed.PredictRequest(images=[photos["otter_224x224"]]), timeout=TIMEOUT_S, metadata=metadata)
        assert photos_taken(backend) - before < 100  # health checks, and what it computed until the end, are in it


def test_a_stream_goes_on_after_a_bad_message(photo: bytes) -> None:
    """Each message is answered in its place, the bad one with its error."""

    def messages() -> Iterator[typed.PredictStreamRequest]:
        for jpeg in (photo, b"no photo", photo):
            yield typed.PredictStreamRequest(request=typed.PredictRequest(images=[jpeg]))

    with channel() as open_channel:
        call = typed_grpc.VisionServiceStub(open_channel).PredictStream(messages(), timeout=TIMEOUT_S)
        answers = list(call)
    assert [answer.WhichOneof("result") for answer in answers] == ["response", "error", "response"]
    assert answers[1].error.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert "images[0] is not a JPEG" in answers[1].error.message
    assert all(TIMING.fullmatch(answer.server_timing) for answer in answers)


# ---------------------------------------------------------------- what must not pass

FORBIDDEN_PATHS = (
    # Triton: model control, statistics, trace, logging, shared memory, metrics
    "/v2/repository/index", f"/v2/repository/models/{MODEL}/load", f"/v2/repository/models/{MODEL}/unload",
    "/v2/models/stats", f"/v2/models/{MODEL}/stats", "/v2/trace/setting", f"/v2/models/{MODEL}/trace/setting",
    "/v2/logging", "/v2/systemsharedmemory/status", "/v2/systemsharedmemory/region/x/register",
    "/v2/cudasharedmemory/status", "/metrics",
    # TorchServe: management, metrics, workflows, explanations
    "/models", f"/models/{MODEL}", "/api-description", f"/explanations/{MODEL}", "/workflows", "/wfpredict/x",
    # Envoy's admin
    "/config_dump", "/clusters", "/stats", "/server_info", "/quitquitquit", "/logging", "/ready",
)  # fmt: skip
KSERVE = "inference.GRPCInferenceService"
TORCHSERVE = "org.pytorch.serve.grpc"
LET_IN = {
    *(f"/{KSERVE}/{name}" for name in (
        "ServerLive", "ServerReady", "ServerMetadata", "ModelReady", "ModelMetadata", "ModelConfig", "ModelInfer",
        "ModelStreamInfer",
    )),
    f"/{TORCHSERVE}.inference.InferenceAPIsService/Ping",
    f"/{TORCHSERVE}.inference.InferenceAPIsService/Predictions",
    "/fiveway.vision.v1.VisionService/Predict", "/fiveway.vision.v1.VisionService/PredictStream",
    *(f"/fiveway.transport.v1.BaseService/{name}" for name in (
        "Structured", "Base64", "Binary", "StructuredStream", "BinaryStream",
    )),
    "/fiveway.transport.v1.DistanceService/ListVectors", "/fiveway.transport.v1.DistanceService/StreamVectors",
    "/seldon.protos.Seldon/Predict",
    "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
}  # fmt: skip
# The index; and KServe's path, which TorchServe has too: at the edge it is Triton's.
LET_IN_PATHS = {
    "/", "/v2/models/m/infer", "/embed", "/embed/base64", "/classify", "/classify/base64", "/served", "/ping",
    "/predictions/m", "/predictions/m/1",
}  # fmt: skip
REFUSED = "not served at this port"


def methods() -> set[str]:
    """Of every gRPC server: those of its contract, and those that it lists by reflection."""
    contracts = (kserve, torchserve_inference, base_pb2, distance_pb2, prediction_pb2)
    services = [service for file in contracts for service in file.DESCRIPTOR.services_by_name.values()]
    found = {f"/{service.full_name}/{method.name}" for service in services for method in service.methods}
    address = f"{address_of('typed-grpc')}:50051"
    for service in grpcurl(address, "list").split():
        if service.startswith("grpc.reflection."):  # it does not describe itself
            found.add(f"/{service}/ServerReflectionInfo")
        else:
            found |= {f"/{service}/{one.rpartition('.')[2]}" for one in grpcurl(address, "list", service).split()}
    management = ("DescribeModel", "ListModels", "RegisterModel", "ScaleWorker", "SetDefault", "UnregisterModel")
    found |= {f"/{TORCHSERVE}.management.ManagementAPIsService/{name}" for name in management}
    others = (f"/{TORCHSERVE}.openinference.GRPCInferenceService/ModelInfer", "/no.such.Service/Method")
    return found.union(others, ["/v2/repository/index"])


def paths() -> set[str]:
    """Of the HTTP servers that describe themselves."""
    described = json.loads(run("curl", "-sf", f"http://{address_of('jpeg-http')}:8000/openapi.json"))
    torchserve = json.loads(run("curl", "-sf", "-X", "OPTIONS", f"http://{address_of('torchserve')}:8080"))
    names = {"model_name": "m", "model_version": "1", "workflow_name": "w"}
    return {path.format(**names) for path in (*described["paths"], *torchserve["paths"])}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", FORBIDDEN_PATHS)
def test_controls_are_not_reachable_over_http(path: str, method: str) -> None:
    """404 from Envoy, whatever the server behind could do."""
    reply = request(method, path, b"{}" if method == "POST" else b"")
    assert reply.status == 404
    assert REFUSED in error_text(reply.body)


def test_no_path_of_a_server_is_let_in_that_is_not_named_here() -> None:
    """Each path that a server describes is asked for at the edge."""
    refused = {path for path in paths() if REFUSED in request("POST", path, b"{}").body.decode()}
    assert paths() - refused == LET_IN_PATHS


def test_no_method_of_a_server_is_let_in_that_is_not_named_here() -> None:
    """Each is called at the edge, with and without the header of a route; what is not let in is UNIMPLEMENTED."""
    found = methods()
    assert found >= LET_IN
    headers = ((), [("x-route", "trt-grpc")], [("x-route", "onnx-jpeg-grpc")], [("x-backend", "triton")])
    with channel() as open_channel:
        for method, header in itertools.product(found - LET_IN, headers):
            with pytest.raises(grpc.RpcError, match=REFUSED) as raised:
                raw_call(open_channel, method, b"", header)
            assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED, method
