"""The real Envoy binary, with the real config, before small servers of our own: what passes, and how a refusal is said.

No Docker: the hosts of the config are replaced by ports of this machine, and nothing else.
"""

import asyncio
import base64
import gzip
import hashlib
import itertools
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import grpc
import pytest
import yaml
from fiveway.vision.v1 import vision_pb2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from torchserve import inference_pb2

from bench.measure.ports import free_port
from chaos.docker import wait_until
from locustfiles.routes import ROUTES as LOADED
from locustfiles.study_routes import WAYS
from tests.clients import CHANNEL_OPTIONS, ROUTES, WITHOUT_MODEL, channel, raw_call
from tests.otlp import CALLER, Span, receiver
from tests.repository import ROOT, certificate
from tests.unit.http_server import http_server

CONFIG = ROOT / "compose" / "envoy" / "envoy.yaml"
PAGE = CONFIG.parent / "front_page.html"
ETC = [PAGE, *CONFIG.parent.glob("*.lua"), ROOT / "proto" / "gen" / "fiveway_vision_v1.binpb"]
SAMPLES = [*(ROOT / "models" / "photos").glob("*_360x640.jpg")]
MIB = 1024 * 1024
LOCUST_PORT = "18089"
BATCH_32 = 32 * 3 * 224 * 224 * 4  # bytes of 32 images as FP32 tensors


def clusters() -> Iterator[tuple[str, tuple[str, int, bool]]]:
    """Every route's cluster: its name, its server's host and port, whether it speaks HTTP/2."""
    for cluster in yaml.safe_load(CONFIG.read_text())["static_resources"]["clusters"]:
        (endpoint,) = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
        host, port = endpoint["endpoint"]["address"]["socket_address"].values()
        if cluster["name"] != "admin":
            yield cluster["name"], (host, port, "http2_protocol_options" in str(cluster))


CLUSTERS = dict(clusters())
Ports = dict[tuple[str, int], int]
"""A server's host and port in the config: the port of this machine in its place."""
KSERVE = "/inference.GRPCInferenceService/"
TORCHSERVE = "/org.pytorch.serve.grpc.inference.InferenceAPIsService/"
JSON = ("-H", "content-type: application/json")
KEY = "0123456789abcdef"
BINARY = ("-H", "inference-header-content-length: 2")
STUB, BROKEN = b"Stub process 'm' is not healthy", b"out of memory"
DELAYS_S = {"slow": 0.1, "hang": 1}
LIMITS = r"{ max_connections: \d+, max_pending_requests: \d+, max_requests: \d+"


def fake_http(name: str) -> Starlette:
    """Says which server it stands for; `/infer` echoes the body, or fails as Triton does."""

    async def answer(request: Request) -> Response:
        body, query = await request.body(), request.url.query
        if query in DELAYS_S:
            await asyncio.sleep(DELAYS_S[query])
        if body in (STUB, BROKEN):
            return Response(b'{"error":"%s"}' % body, 500)
        if request.method == "POST" and request.url.path.endswith("/infer"):
            return Response(body)
        path = request.scope["raw_path"].decode() + ("?" + query if query else "")
        heard = {"traceparent": parent} if (parent := request.headers.get("traceparent")) else {}
        return JSONResponse({"server": name, "path": path, **heard})

    return Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST"])])


class FakeGrpc(grpc.GenericRpcHandler):
    """Any method: names itself and the method, echoes large messages, or fails as the metadata `x-fail-bin` says."""

    def __init__(self, name: str) -> None:
        self.name = name

    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        method, metadata = details.method, dict[str, Any](details.invocation_metadata)

        def answer(request: bytes, context: grpc.ServicerContext) -> bytes:
            fail = metadata.get("x-fail-bin", b"").decode()
            code, colon, message = fail.partition(":")
            if fail == "deadline?":
                context.abort(grpc.StatusCode.DATA_LOSS, f"deadline in {context.time_remaining():.1f} s")
            elif fail == "hang":
                time.sleep(1)
            elif fail.startswith("{"):
                return inference_pb2.PredictionResponse(prediction=fail.encode()).SerializeToString()
            elif colon:
                context.abort(grpc.StatusCode[code], message)
            return request if len(request) > MIB else f"{self.name} {method}".encode()

        return grpc.unary_unary_rpc_method_handler(predict if method.endswith("VisionService/Predict") else answer)


def predict(request: bytes, context: grpc.ServicerContext) -> bytes:
    """The typed service, without a model."""
    if vision_pb2.PredictRequest.FromString(request).images[0] == b"\1":
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, '128 "batches" are at work already: try again')
    return b""


@dataclass(frozen=True)
class Edge:
    """A running Envoy: its ports, in the order of `PLACES`."""

    port: int
    statistics: int
    published: int
    admin: int

    def curl(self, path: str, *arguments: str, version: str = "--http1.1", data: bytes = b"") -> tuple[int, str, Any]:
        """One request: status, lower-case header text, and the body (parsed where it is JSON)."""
        command = ["curl", "-sSi", "--path-as-is", "-m60", version, *arguments, f"http://127.0.0.1:{self.port}{path}"]
        done = subprocess.run(command, input=data, capture_output=True, check=True)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        while head.startswith(b"HTTP/1.1 100"):
            head, _, body = body.partition(b"\r\n\r\n")
        try:
            parsed, _ = json.JSONDecoder().raw_decode(body.decode())  # over HTTP/2 curl prints trailers after it
        except ValueError:
            parsed = body
        return int(head.split()[1]), head.decode().lower(), parsed

    def post(self, path: str, data: bytes, *arguments: str, version: str = "--http1.1") -> tuple[int, str, Any]:
        return self.curl(path, "--data-binary", "@-", *arguments, version=version, data=data)

    def call(self, path: str, timeout: float = 20, **metadata: str | bytes) -> str:
        """One unary call: the answer's text, or STATUS: message."""
        headers = [(name.replace("_", "-"), value) for name, value in metadata.items()]
        with channel(f"127.0.0.1:{self.port}") as opened:
            try:
                return raw_call(opened, path, b"", headers, timeout).decode()
            except grpc.RpcError as error:
                return f"{error.code().name}: {error.details()}"

    def served(self, route: str) -> int:
        """How many requests went through the route's cluster."""
        status, _, page = replace(self, port=self.statistics).curl("/stats")
        (count,) = re.findall(rf"^cluster\.{route}\.upstream_rq_total: (\d+)$", page.decode(), re.M)
        assert status == 200
        return int(count)


@contextmanager
def serve_grpc(name: str) -> Iterator[int]:
    # Triton's own limit, which is gRPC's largest; without it FakeGrpc would wait for a message of 4 GiB.
    options = (*CHANNEL_OPTIONS, ("grpc.max_receive_message_length", 2**31 - 1))
    server = grpc.server(futures.ThreadPoolExecutor(8), options=options)
    server.add_generic_rpc_handlers((FakeGrpc(name),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port
    server.stop(0)


PLACES = (("0.0.0.0", 8080), ("0.0.0.0", 9901), ("0.0.0.0", 18080), ("127.0.0.1", 9900))


@contextmanager
def envoy(folder: Path, theirs: Ports, config: str = "") -> Iterator[Edge]:
    """A running Envoy before the servers at these ports. `config` in place of the file's own."""
    edge = Edge(*(free_port() for _ in PLACES))
    text = (config or CONFIG.read_text()).replace("/etc/envoy/", f"{folder}/")
    text = text.replace("destination_port: 18080", f"destination_port: {edge.published}")
    for (host, port), here in (theirs | dict(zip(PLACES, astuple(edge), strict=True))).items():
        old, new = f"address: {host}, port_value: {port} ", f"address: 127.0.0.1, port_value: {here} "
        assert old in text, f"the config has no {old}"
        text = text.replace(old, new)
    (folder / "samples").mkdir()
    for file in ETC:
        shutil.copy(file, folder)
    for file in SAMPLES:
        shutil.copy(file, folder / "samples")
    (folder / "envoy.yaml").write_text(text)
    with (folder / "log").open("wb") as log:
        command = shlex.split(f"envoy -c {folder}/envoy.yaml --log-level warn --concurrency 1 --disable-hot-restart")
        environment = os.environ | {"LOCUST_PORT": LOCUST_PORT}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    ready = f"curl -sf --retry 100 --retry-connrefused --retry-max-time 30 http://127.0.0.1:{edge.statistics}/ready"
    try:
        assert subprocess.run(shlex.split(ready), check=False).returncode == 0, (folder / "log").read_text()
        yield edge
    finally:
        process.terminate()
        assert process.wait(10) == 0
    log_text = (folder / "log").read_text()
    assert "[error]" not in log_text
    assert "eprecated" not in log_text, "Envoy is about to remove what the config uses"


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    with ExitStack() as running:
        theirs: Ports = {}
        for host, port, is_grpc in set(CLUSTERS.values()):
            serve = serve_grpc(host) if is_grpc else http_server(fake_http(host))
            theirs[host, port] = running.enter_context(serve)
        yield running.enter_context(envoy(tmp_path_factory.mktemp("envoy"), theirs))


@contextmanager
def before_triton(folder: Path, config: str) -> Iterator[Edge]:
    """An Envoy of its own with another config, before Triton and the JPEG server alone."""
    with http_server(fake_http("triton")) as http, serve_grpc("triton") as rpc:
        theirs = {("triton", 8000): http, ("jpeg-http", 8000): http, ("triton", 8001): rpc}
        with envoy(folder, theirs, config) as edge:
            yield edge


def test_one_name_per_route() -> None:
    """Envoy's route and cluster, Locust's user class and the test client; they lead to its server; no others."""
    assert set(CLUSTERS) - set(WITHOUT_MODEL) == set(ROUTES) == set(LOADED)
    hosts = {host for host, *_ in CLUSTERS.values()}
    # typed-http is made by Envoy itself; frames has no edge.
    behind = [way for way in WAYS.values() if not way.direct or way.direct.partition(":")[0] in hosts]
    assert {way.cluster for way in behind} == set(CLUSTERS)
    for way in behind:
        host, port, _ = CLUSTERS[way.cluster]
        assert way.direct in (None, f"{host}:{port}"), way.name
    text = CONFIG.read_text()
    named = set(re.findall(r"- (?:\{ )?name: ([\w-]+)(?:\n\s+|, )match:", text))
    assert named - {"front-page", "index", "not-exposed", "too-large", "compressed"} == set(CLUSTERS)
    for name, cluster in re.findall(r"- name: ([\w-]+)\n\s+match:.*\n\s+route: \{ cluster: ([\w-]+),", text):
        assert name == cluster


def said(path: str, body: Any) -> str:
    """The message of an error of Envoy's own; its form is the one that the clients of that path can read."""
    assert set(body) == {"error"}, body
    error = body["error"]
    if not path.startswith("/v2"):
        assert set(error) == {"code", "message"}
        assert re.fullmatch("[A-Z_]+", error["code"])
        error = error["message"]
    assert isinstance(error, str)
    return error


VERSIONS = ("--http1.1", "--http2-prior-knowledge")
HTTP_VERSIONS = pytest.mark.parametrize("version", VERSIONS)
HTTP_SERVED = [
    ("jpeg-http", "/classify/base64", "jpeg-http"),
    ("onnx-http", "/v2/models/any_model-1.5", "triton"),
    ("onnx-http", "/v2/models/m/versions/1/config?x=1", "triton"),
    ("trt-http", "/v2/models/m_trt/versions/2/ready", "triton"),
    ("onnx-jpeg-http", "/v2/models/m_jpeg/versions/2/ready", "triton"),
    ("torchserve-http", "/predictions/m/1.0", "torchserve"),
    ("echo-http", "/transport/fast/binary?entries=1", "echo-http"),
    ("seldon-http", "/api/v1.0/predictions", "seldon-http"),
]


@HTTP_VERSIONS
@pytest.mark.parametrize(("route", "path", "server"), HTTP_SERVED)
def test_http_paths_that_pass(edge: Edge, version: str, route: str, path: str, server: str) -> None:
    """Through the cluster of the route's name; tests/stack asks for the others. GET / is answered by Envoy itself."""
    assert "/v2/models/MODEL/infer" in edge.curl("/", version=version)[2]["http"]
    before = edge.served(route)
    status, _, body = edge.curl(path, version=version)
    assert (status, body["server"], body["path"]) == (200, server, path)
    assert edge.served(route) == before + 1


@pytest.mark.parametrize(
    "path",
    [
        "/v2/models//stats", "/v2/models/m/../stats", "/v2/models/x%2f..%2fstats", "/v2/models/st%61ts",
        "/v2/models/m/versions/1/stats", "/v2/models/m/infer/", "/v2/models/m_trt/stats", "/v2/models/m/generate",
        "/v2//repository/index", "/v2/./repository/index", "/v2/models/../repository/index", "/V2/repository/index",
        "/predictions", "/predictions/m/1.0/explain", "/predictions/..%2fmodels", "/predictions/../models",
        "/embedding", "/docs/../metrics", "/docs/..;/metrics", "/stats/prometheus", KSERVE + "ModelInfer",
        "/fiveway.vision.v1.VisionService/Predict",
    ],
)  # fmt: skip
def test_http_paths_that_do_not_pass(edge: Edge, path: str) -> None:
    """However spelled; the answer says where to look. tests/stack asks for each control by its name."""
    for version, method in itertools.product(VERSIONS, ("GET", "POST")):
        status, _, body = edge.curl(path, "-X", method, version=version)
        assert status in (400, 404)
        assert said(path, body).strip("-")
        assert status == 400 or "GET /" in said(path, body)


def hash_of(tag: str, page: str) -> str:
    """As a content security policy names it."""
    (inline,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    return base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()


def test_a_browser_gets_the_front_page(edge: Edge) -> None:
    """One file that may run its own script and style, ask this port, and nothing else; its photos. Others get JSON."""
    status, head, body = edge.curl("/", "-H", "accept: text/html,application/xhtml+xml,*/*;q=0.8")
    page = body.decode()
    assert (status, page) == (200, PAGE.read_text())
    wanted = f"script-src 'sha256-{hash_of('script', page)}'; style-src 'sha256-{hash_of('style', page)}'"
    assert f"policy: default-src 'none'; {wanted}; connect-src 'self';".lower() in head, f"in envoy.yaml: {wanted}"
    assert "content-type: text/html; charset=utf-8" in head
    assert not re.search(r"""(?:src|href)=["'](?:https?:)?//(?!github\.com/kserve/)|innerHTML|eval\(""", page)
    assert f"x-locust-port: {LOCUST_PORT}" in edge.curl("/")[1]
    for name in re.findall(r'"(otter|osprey|lake|colosseum)"', page):
        status, head, body = edge.curl(f"/samples/{name}.jpg")
        assert (status, body[:2]) == (200, b"\xff\xd8")
        assert "content-type: image/jpeg" in head


HEALTH, PING = "/grpc.health.v1.Health/Check", TORCHSERVE + "Ping"
GRPC_WEB = ("-H", "content-type: application/grpc-web+proto")


@pytest.mark.parametrize(
    ("path", "server", "extra"),
    [(HEALTH, "typed-grpc", ()), (HEALTH, "triton", ("-H", "x-backend: triton")), (PING, "torchserve", ())],
)
def test_health_can_be_asked_by_a_browser(edge: Edge, path: str, server: str, extra: tuple[str, ...]) -> None:
    """By gRPC-Web: a message and its status in one body."""
    status, head, body = edge.post(path, bytes(5), *GRPC_WEB, *extra)
    assert (status, "application/grpc-web+proto" in head) == (200, True)
    assert body[5:].startswith(f"{server} {path}".encode())
    assert re.search(rb"grpc-status: ?0", body)


@pytest.mark.parametrize("path", [KSERVE + "ModelInfer", "/fiveway.vision.v1.VisionService/Predict", f"{HEALTH}/x"])
def test_nothing_else_can_be_asked_by_a_browser(edge: Edge, path: str) -> None:
    """A page of another origin cannot send this type without a preflight request, which is not answered."""
    assert edge.post(path, bytes(5), *GRPC_WEB)[0] == 404
    assert edge.curl(HEALTH, "-X", "OPTIONS", "-H", "origin: http://elsewhere")[0] == 404


REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
GRPC_SERVED = [
    ("onnx-grpc", f"{KSERVE}ServerMetadata", {}),
    ("onnx-grpc", f"{KSERVE}ModelStreamInfer", {}),
    ("trt-grpc", f"{KSERVE}ModelStreamInfer", {"x_route": "trt-grpc"}),
    ("onnx-jpeg-grpc", f"{KSERVE}ModelStreamInfer", {"x_route": "onnx-jpeg-grpc"}),
    ("echo-grpc", "/fiveway.transport.v1.BaseService/StructuredStream", {}),
    ("echo-grpc", "/fiveway.transport.v1.BaseService/BinaryStream", {}),
    ("echo-grpc", "/fiveway.transport.v1.DistanceService/StreamVectors", {}),
    ("seldon-grpc", "/seldon.protos.Seldon/Predict", {}),
    ("typed-grpc", "/grpc.health.v1.Health/Watch", {}),
    ("typed-grpc", REFLECTION, {}),
    ("typed-grpc", REFLECTION.replace("v1", "v1alpha"), {}),
]


@pytest.mark.parametrize(("route", "path", "metadata"), GRPC_SERVED)
def test_grpc_methods_that_pass(edge: Edge, route: str, path: str, metadata: dict[str, Any]) -> None:
    """The same; tests/stack calls the others, and counts each route's calls in the cluster of its name."""
    before = edge.served(route)
    assert edge.call(path, **metadata) == f"{CLUSTERS[route][0]} {path}"
    assert edge.served(route) == before + 1


def test_a_batch_of_32_passes_both_ways(edge: Edge) -> None:
    """19.3 MB, up and down: over both HTTP versions, with a content-length and without one, and over gRPC."""
    body = bytes(BATCH_32)
    for version, extra in itertools.product(VERSIONS, ([], ["-H", "transfer-encoding: chunked"])):
        status, _, answer = edge.post("/v2/models/m/infer", body, *BINARY, *extra, version=version)
        assert (status, answer == body) == (200, True), (version, extra)
    with channel(f"127.0.0.1:{edge.port}") as opened:
        assert raw_call(opened, KSERVE + "ModelInfer", body) == body


ANY_PATH = ("/v2/models/m/infer", "/v2/models/m_trt/infer", "/embed", "/predictions/m", "/transport/binary")


@pytest.mark.parametrize("path", [*ANY_PATH, "/grpc.health.v1.Health/Check", f"{TORCHSERVE}Ping"])
@pytest.mark.parametrize("kind", ["application/grpc", "application/grpc-web+proto", "application/octet-stream"])
def test_no_header_lifts_the_limit(edge: Edge, path: str, kind: str) -> None:
    """A body of unannounced length that says it is gRPC, or binary tensors: nothing above 32 MiB gets to a server."""
    headers = ("-H", f"content-type: {kind}", "-H", "transfer-encoding: chunked")
    for extra in ((), BINARY):
        status, head, _ = edge.post(path, bytes(40 * MIB), *headers, *extra)
        assert status in (413, 404) or "grpc-status: 8" in head, head


@pytest.mark.parametrize("path", [*ANY_PATH, "/v1/predict", "/api/v1.0/predictions"])
def test_nothing_compressed_passes(edge: Edge, path: str) -> None:
    """It would be larger, and deeper, than what was checked."""
    body = gzip.compress(b"[" * 200_000)
    for encoding, expected in (("gzip", 415), ("deflate", 415), ("GZIP", 415), ("identity, gzip", 415)):
        status, _, answer = edge.post(path, body, *JSON, "-H", f"content-encoding: {encoding}")
        assert (status, "without content-encoding" in said(path, answer)) == (expected, True)
    assert edge.curl("/v2", "-H", "content-encoding: identity")[0] == 200


def test_no_compressed_message_passes(edge: Edge) -> None:
    """Over gRPC too, where an encoding that is not known is UNIMPLEMENTED."""
    with grpc.insecure_channel(f"127.0.0.1:{edge.port}", compression=grpc.Compression.Gzip) as opened:
        for method in (KSERVE + "ModelInfer", KSERVE + "ModelStreamInfer", "/fiveway.vision.v1.VisionService/Predict"):
            with pytest.raises(grpc.RpcError) as refused:
                raw_call(opened, method, bytes(MIB))
            assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
            assert "send them as they are" in str(refused.value.details())


def framed(*lengths: int) -> bytes:
    """gRPC messages of zeros."""
    return b"".join(b"\0" + length.to_bytes(4, "big") + bytes(length) for length in lengths)


@pytest.mark.parametrize("method", ["ModelInfer", "ModelStreamInfer"])
@pytest.mark.parametrize("route", ["", "trt-grpc", "onnx-jpeg-grpc"])
def test_a_message_to_triton_has_at_most_32_mib(edge: Edge, method: str, route: str) -> None:
    """Its server would take any. The largest passes whole; a larger one is refused before it has been sent."""
    with channel(f"127.0.0.1:{edge.port}") as opened:
        whole = bytes(32 * MIB)
        assert raw_call(opened, KSERVE + method, whole, [("x-route", route)]) == whole
        with pytest.raises(grpc.RpcError) as refused:
            raw_call(opened, KSERVE + method, bytes(32 * MIB + 1), [("x-route", route)])
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "32 MiB per request at most" in str(refused.value.details())


def test_a_later_message_of_a_stream_is_bounded_too(edge: Edge) -> None:
    """Also where its length is split over two frames: the call gets no answer then, and the server nothing more."""
    large = framed(40 * MIB)
    for body in (framed(5) + large, framed(0, 70_000) + large):
        headers = ("-H", "content-type: application/grpc", "-H", "te: trailers", "--max-time", "20")
        _, head, _ = edge.post(KSERVE + "ModelStreamInfer", body, *headers, version="--http2-prior-knowledge")
        assert "grpc-status: 8" in head or "grpc-status: 4" in head or "grpc-status: 13" in head, head
    assert edge.call(KSERVE + "ServerLive") == f"triton {KSERVE}ServerLive"


@HTTP_VERSIONS
def test_json_for_triton_is_scanned_within_bounds(edge: Edge, version: str) -> None:
    """At most 8 MiB, announced or not, and 65,536 brackets: a tensor of 32 images as nested lists has fewer."""
    path = "/v2/models/m/infer"
    for extra in ((), ("-H", "transfer-encoding: chunked")):
        status, _, body = edge.post(path, b"1," * 5 * MIB, *extra, version=version)
        assert (status, "8 MiB of JSON" in body["error"]) == (413, True)
        nested = b"\0" + b"[1]," * (32 * 3 * 224)
        assert edge.post(path, nested, *extra, version=version)[2] == nested
        status, _, body = edge.post(path, b"[]" * 32769, *extra, version=version)
        assert (status, "more than 65536 brackets" in body["error"]) == (400, True)
    status, _, body = edge.post(path, b"{}", "-H", "inference-header-content-length: x", version=version)
    assert (status, "is not a number" in body["error"]) == (400, True)


@pytest.mark.parametrize("path", ["/v2/models/m/infer", "/nothing"])
def test_bodies_over_32_mib_are_refused_over_http2(edge: Edge, path: str) -> None:
    """413 in our form, over HTTP/1.1 see tests/stack; the next request works."""
    status, _, body = edge.post(path, bytes(64 * MIB), *JSON, version=VERSIONS[1])
    assert status == 413
    assert "32 MiB" in said(path, body)
    assert edge.curl("/v2", version=VERSIONS[1])[0] == 200


def test_a_client_cannot_steer_the_proxy(edge: Edge) -> None:
    """x-envoy-* request headers have no effect: 1 ms would be a 504."""
    assert edge.curl("/v2?slow", "-H", "x-envoy-upstream-rq-timeout-ms: 1", "-H", "x-envoy-retry-on: 5xx")[0] == 200


def test_a_fault_of_tritons_stays_one(edge: Edge) -> None:
    """What Triton calls 500 or INTERNAL for bad input is mended (tests/stack); a server that is broken is not. A model
    whose process has died comes back: 503 and UNAVAILABLE."""
    for model, route in (("m", ""), ("m_trt", "trt-grpc"), ("m_jpeg", "onnx-jpeg-grpc")):
        for fault, http, rpc in ((BROKEN, 500, "INTERNAL"), (STUB, 503, "UNAVAILABLE")):
            assert edge.post(f"/v2/models/{model}/infer", fault)[0] == http
            answer = edge.call(KSERVE + "ModelInfer", x_route=route, x_fail_bin=b"INTERNAL:" + fault)
            assert answer == f"{rpc}: {fault.decode()}"


def test_a_form_never_reaches_torchserve(edge: Edge) -> None:
    """What `curl --data-binary` sends unless told: the real server answers 500 and echoes the photo."""
    status, _, body = edge.post("/predictions/m", b"\xff\xd8\xff")
    assert status == 415
    assert "content-type: image/jpeg" in body["error"]["message"]
    assert edge.post("/predictions/m", b"\xff\xd8\xff", "-H", "content-type: image/jpeg")[0] == 200


@HTTP_VERSIONS
def test_deep_json_never_reaches_triton(edge: Edge, version: str) -> None:
    """100,000 levels end the real server: 64 are let through, also in a body larger than the connection's buffer."""
    path = "/v2/models/m/infer"
    large = b"\0" + b"[" * 64 + b"1," * 2 * MIB + b"]" * 64
    assert edge.post(path, large, version=version)[2] == large
    tensor = b"\0" + b"[" * 200_000
    assert edge.post(path, tensor, "-H", "inference-header-content-length: 10", version=version)[2] == tensor
    status, _, body = edge.post(path, tensor, "-H", "inference-header-content-length: 200000", version=version)
    assert status == 400
    assert "longer than 65536 bytes" in body["error"]


NO_MESSAGE = "not a PredictionsRequest: generate the client from TorchServe's inference.proto"
ANSWER = '{"classes": [{"label": "\\"code\\": 400,", "score": 0.5}]}'
ERROR = '{{\n  "code": {},\n  "type": "InvalidInput",\n  "message": "{}"\n}}\n'


@pytest.mark.parametrize(
    ("fail", "expected"),
    [
        (ERROR.format(400, "not a \\\"JPEG\\\": 100 % wrong"), 'INVALID_ARGUMENT: not a "JPEG": 100 % wrong'),
        (ERROR.format(413, "too large"), "RESOURCE_EXHAUSTED: too large"),
        (ERROR.format(415, "médias"), "INVALID_ARGUMENT: médias"),
        (ERROR.format(503, "busy"), "UNAVAILABLE: busy"),
        (ERROR.format(507, "Worker died."), "UNAVAILABLE: Worker died."),
        (ERROR.format(500, "boom"), "INTERNAL: boom"),
        ('{"code": 400, "type": "InvalidInput", "message": "compact"}', "INVALID_ARGUMENT: compact"),
        ("INTERNAL:Model not found: x", "NOT_FOUND: Model not found: x"),
        ("INTERNAL:Version 9 does not exist\norg.ModelVersionNotFoundException", "NOT_FOUND: Version 9 does not exist"),
        ("INTERNAL:model_name is required.\nBadRequestException.()", "INVALID_ARGUMENT: model_name is required."),
        ("INTERNAL:m has no worker\nInternalServerException.()", "UNAVAILABLE: m has no worker"),
        ("UNKNOWN:strange", "INTERNAL: strange"),
        ("UNKNOWN:", f"INVALID_ARGUMENT: {NO_MESSAGE}"),
        ("INVALID_ARGUMENT:missing", "INVALID_ARGUMENT: missing"),
        # An answer that only holds the word: as the server sent it.
        (ANSWER, inference_pb2.PredictionResponse(prediction=ANSWER.encode()).SerializeToString().decode()),
    ],
)  # fmt: skip
def test_torchserve_errors_over_grpc(edge: Edge, fail: str, expected: str) -> None:
    """Errors that TorchServe calls OK, INTERNAL or UNKNOWN get the status of their cause and keep their message."""
    assert edge.call(TORCHSERVE + "Predictions", x_fail_bin=fail.encode()) == expected


def test_the_clients_deadline_is_passed_on_and_kept(edge: Edge) -> None:
    """The server sees the deadline."""
    answer = edge.call(KSERVE + "ModelInfer", timeout=600, x_fail_bin=b"deadline?")
    assert re.fullmatch(r"DATA_LOSS: deadline in [3-8]\d\d\.\d s", answer)  # gRPC rounds up


def test_a_deadline_that_passes_is_said_so(edge: Edge) -> None:
    """DEADLINE_EXCEEDED, whoever ends the call first: Envoy, or the server behind it, by a status or by a reset.

    curl, because a gRPC library has a clock of its own.
    """
    fail = base64.b64encode(b"hang").decode()
    headers = ("content-type: application/grpc", "te: trailers", "grpc-timeout: 300m", f"x-fail-bin: {fail}")
    arguments = [part for header in headers for part in ("-H", header)]
    for _ in range(5):
        _, head, _ = edge.post(KSERVE + "ModelInfer", b"\0\0\0\0\0", *arguments, version="--http2-prior-knowledge")
        assert "grpc-status: 4\r" in head


PREDICT = '{"images": ["/9g="]}'


@pytest.mark.parametrize(
    ("data", "arguments", "status", "code", "message"),
    [
        ('{"images": ["AQ=="]}', JSON, 429, "RESOURCE_EXHAUSTED", '128 "batches" are at work'),
        ('{"top_k": -1}', JSON, 400, "INVALID_ARGUMENT", ""),
        ('{"outputs": ["NONE"]}', JSON, 400, "INVALID_ARGUMENT", ""),
        (PREDICT, (*JSON, "--url-query", "x=1"), 400, "INVALID_ARGUMENT", "x"),
        (PREDICT, (*JSON, "-X", "PUT"), 405, "INVALID_ARGUMENT", "use POST"),
    ],
)  # fmt: skip
def test_bad_input_of_the_typed_service_over_http(
    edge: Edge, data: str, arguments: tuple[str, ...], status: int, code: str, message: str
) -> None:
    """4xx in the form of the other routes. Bodies that are not JSON: tests/stack."""
    found, head, body = edge.post("/v1/predict", data.encode(), *arguments)
    assert (found, body["error"]["code"]) == (status, code), body
    assert message in body["error"]["message"]
    assert body["error"]["message"]
    assert "content-type: application/json" in head


HOPS = re.compile(r"hold=(\d+), send=(\d+), upstream=(\d+)")


@HTTP_VERSIONS
@pytest.mark.parametrize(
    ("path", "data", "arguments"),
    [("/v2?slow", b"", ()), ("/v2/models/m/infer", bytes(3 * MIB), ()), ("/v1/predict", PREDICT.encode(), JSON)],
)
def test_http_answers_say_where_the_time_went(
    edge: Edge, version: str, path: str, data: bytes, arguments: tuple[str, ...]
) -> None:
    """Once: microseconds until the request went on, until all of it had, until the answer began."""
    status, head, _ = edge.post(path, data, *arguments, version=version)
    assert status == 200
    (line,) = re.findall(r"^x-edge-timing: (.*?)\r?$", head, re.M)
    found = HOPS.fullmatch(line)
    assert found, line
    assert sum(map(int, found.groups())) > 0
    assert int(found[3]) >= (90_000 if "slow" in path else 0)  # a clock may be a tick fast


@pytest.mark.parametrize("method", [f"{KSERVE}ModelInfer", f"{TORCHSERVE}Predictions"])
def test_grpc_answers_say_where_the_time_went(edge: Edge, method: str) -> None:
    """The same, once, in the leading metadata."""
    with channel(f"127.0.0.1:{edge.port}") as opened:
        asked: Any = opened.unary_unary(method)
        _, call = asked.with_call(b"", timeout=20)
        (line,) = [value for name, value in call.initial_metadata() if name == "x-edge-timing"]
    assert HOPS.fullmatch(str(line)), line


def test_the_statistics_are_read_only(edge: Edge) -> None:
    """Port 9901 reads counters, as above; what the admin interface can change is not there."""
    admin = replace(edge, port=edge.statistics)
    paths = ("/quitquitquit", "/logging?level=debug", "/config_dump", "/drain_listeners", "/", "/stats/../logging")
    for path, method in itertools.product(paths, ("GET", "POST")):
        assert admin.curl(path, "-X", method)[0] == 404


def test_prometheus_is_told_of_each_route(edge: Edge) -> None:
    """Its own request gets every number of Envoy's that the rules and the dashboard use, per route. A gRPC status
    counts as an error if the server is at fault, and not if the client is."""
    metrics = ROOT / "compose/metrics"
    job = yaml.safe_load((metrics / "prometheus.yaml").read_text())["scrape_configs"][0]
    path = f"{job['metrics_path']}?{urlencode(job['params'], doseq=True)}"

    def errors() -> tuple[set[str], dict[str, int]]:
        page = replace(edge, port=edge.statistics).curl(path)[2].decode()
        found = re.findall(r'^envoy_cluster_endpoint_rq_error\{envoy_cluster_name="([\w-]+)",.*\} (\d+)$', page, re.M)
        return set(re.findall(r"^(\w+)\{", page, re.M)), {route: int(count) for route, count in found}

    _, before = errors()
    assert before.keys() == {*ROUTES, *WITHOUT_MODEL}
    for status, failed in (("INTERNAL", {"onnx-grpc"}), ("UNAVAILABLE", {"onnx-grpc"}), ("INVALID_ARGUMENT", set())):
        edge.call(KSERVE + "ModelInfer", x_fail_bin=f"{status}:x".encode())
        names, after = errors()
        assert {route for route in after if after[route] != before[route]} == failed, status
        before = after
    asked = "".join((metrics / name).read_text() for name in ("rules.yaml", "dashboard.json"))
    assert set(re.findall(r"envoy_\w+", asked)) <= names


def as_started(folder: Path, **settings: str) -> "subprocess.CompletedProcess[str]":
    """What compose/envoy/run does with these settings: Envoy, which is not here, prints the config that it gets."""
    for name, text in {
        "run": (CONFIG.parent / "run")
        .read_text()
        .replace("/etc/envoy/", f"{CONFIG.parent}/")
        .replace("/run/secrets/", f"{folder}/"),
        "envoy": '#!/bin/sh\ncat "$2"\n',
    }.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "TMPDIR": str(folder)} | settings
    command = ["bash", str(folder / "run")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("settings", "file", "says"),
    [
        *(({"BIND_ADDRESS": address}, "", "set API_KEY, or OPEN_TO_ANYONE=yes") for address in ("0.0.0.0", "::")),
        ({"BIND_ADDRESS": "10.0.0.5", "OPEN_TO_ANYONE": "no"}, "", "set API_KEY, or OPEN_TO_ANYONE=yes"),
        *(({"API_KEY": key}, "", "16 to 128 letters") for key in ("short", "sixteen/or/more/of/them", "x" * 129)),
        ({"API_KEY": 'quoted"quoted"quoted'}, "", "16 to 128 letters"),
        *(({}, half, "go together") for half in ("tls_cert", "tls_key")),
        *(({"OTLP_ENDPOINT": f"{url}:4318"}, "", "http://HOST:PORT") for url in ("a", "https://a", "http://a/b")),
    ],
)
def test_an_edge_that_may_not_start(settings: dict[str, str], file: str, says: str, tmp_path: Path) -> None:
    """Open to others without a key or a word for it, with a key that cannot be one (its length, or characters that mean
    something in a header or the config), or with half a certificate: it says what to set."""
    if file:
        (tmp_path / file).write_text("PEM")
    done = as_started(tmp_path, **settings)
    assert (done.returncode, done.stdout, says in done.stderr) == (1, "", True)


@pytest.mark.parametrize("more", [{"API_KEY": KEY}, {"OPEN_TO_ANYONE": "yes"}, {"BIND_ADDRESS": "127.0.0.1"}])
def test_an_edge_that_may_start(more: dict[str, str], tmp_path: Path) -> None:
    """With a key, with the word, or for this machine alone; without a key it gets the config as it is."""
    got = as_started(tmp_path, **{"BIND_ADDRESS": "0.0.0.0"} | more).stdout
    assert "listeners:" in got
    assert (got == CONFIG.read_text()) is ("API_KEY" not in more)


def test_nothing_passes_without_the_key(tmp_path: Path) -> None:
    """Every route of the table, what is answered by Envoy itself, and what is not there: 401 or UNAUTHENTICATED in the
    route's own form. With it they pass, and the servers do not see it."""
    (tmp_path / "made").mkdir()
    config = as_started(tmp_path / "made", API_KEY=KEY).stdout
    wrong = ("x-api-key: no", f"authorization: Basic {KEY}", f"cookie: api_key={KEY}", "accept: */*")
    right = (("-H", f"x-api-key: {KEY}"), ("-H", f"authorization: Bearer {KEY}"), ("--url-query", f"api_key={KEY}"))
    with before_triton(tmp_path, config) as locked:
        for path in ("/", "/samples/otter.jpg", "/docs", "/health", "/v2", "/v1/predict", "/nothing", *ANY_PATH):
            for header in wrong:
                status, _, body = locked.curl(path, "-H", header)
                assert (status, "the key is missing or wrong" in said(path, body)) == (401, True), (path, header)
        for method in (f"{KSERVE}ModelInfer", f"{KSERVE}ServerLive", f"{KSERVE}ModelStreamInfer", REFLECTION):
            assert locked.call(method).startswith("UNAUTHENTICATED: the key is missing")
        assert locked.call(KSERVE + "ServerLive", authorization=f"Bearer {KEY}").startswith("triton ")
        for key in right:
            assert locked.curl("/v2", *key)[::2] == (200, {"server": "triton", "path": "/v2"})


def test_a_span_is_sent_and_passed_on(edge: Edge, tmp_path: Path) -> None:
    """With OTLP_ENDPOINT it has the route's name and continues the caller's trace, and the key is not in it. Without it
    the server hears what the caller said."""
    caller = ("-H", f"traceparent: {CALLER.traceparent}")
    assert edge.curl("/v2", *caller)[2]["traceparent"] == CALLER.traceparent
    seen: list[Span] = []
    (tmp_path / "made").mkdir()
    with http_server(receiver(seen.append)) as port:
        config = as_started(tmp_path / "made", API_KEY=KEY, OTLP_ENDPOINT=f"http://127.0.0.1:{port}").stdout
        with before_triton(tmp_path, config) as traced:
            heard = traced.curl(f"/v2?api_key={KEY}", *caller)[2]["traceparent"]
            (span,) = wait_until(lambda: seen, "its span", seconds=30)
    assert (span.service, span.name, span.parent) == ("edge", "onnx-http", CALLER.id)
    assert heard == span.traceparent
    assert KEY not in span.attributes


EVERY_CLIENT = """
import sys, locust
from functools import partial
from locustfiles.clients import CallError, Endpoint, Payload
from locustfiles.clients.grpc import GrpcClient
from locustfiles.clients.grpcio import GrpcioClient
from locustfiles.clients.http import HttpClient
from locustfiles.clients.python_http import FastHttpClient, HttpxClient, RequestsClient
from locustfiles.serving import get_json
body = b"x" * 3_000_000
def send(client, path, address):
    return client(Endpoint(address, path)).send(Payload(body, 1)).body == body
HTTP, GRPC = (HttpClient, HttpxClient, RequestsClient, FastHttpClient), (GrpcClient, GrpcioClient)
calls = {client: partial(send, client, "/v2/models/m/infer") for client in HTTP}
calls |= {client: partial(send, client, "/inference.GRPCInferenceService/ModelInfer") for client in GRPC}
calls[get_json] = lambda address: get_json(address, "/v2")["server"] == "triton"
for address in sys.argv[1:]:
    for client, call in calls.items():
        try:
            print(client.__name__, call(address))
        except CallError as error:
            print(client.__name__, error)
"""


def test_with_a_certificate_the_published_port_speaks_tls_alone(tmp_path: Path) -> None:
    """By HTTP/1.1 and HTTP/2; without TLS its answer is what to do. Port 8080, of the stack's own network, has both.
    This project's clients refuse a certificate of somebody else, and one for another name."""
    made = certificate(tmp_path / "made", "example.org")
    (tmp_path / "started").mkdir()
    for name in ("cert", "key"):
        shutil.copy(made / f"{name}.pem", tmp_path / "started" / f"tls_{name}")
    config = as_started(tmp_path / "started").stdout
    config = config.replace("/run/secrets/", f"{tmp_path}/started/")
    trust = ("--cacert", str(made / "cert.pem"))
    with before_triton(tmp_path, config) as inside:
        published = replace(inside, port=(port := inside.published))
        assert published.curl("/v2")[::2] == (400, b"this port speaks TLS: ask https://\n")
        assert inside.curl("/v2")[0] == 200
        for edge, version in itertools.product((inside, published), ("--http1.1", "--http2")):
            url = ("--connect-to", f"::127.0.0.1:{edge.port}", "https://example.org/v2")
            done = subprocess.run(["curl", "-sS", version, *trust, *url], capture_output=True, text=True, check=True)
            assert json.loads(done.stdout)["server"] == "triton"

        def every_client(trust: Path, *addresses: str) -> list[str]:
            command, environment = [sys.executable, "-c", EVERY_CLIENT, *addresses], os.environ | {"TLS_CA": str(trust)}
            return subprocess.check_output(command, env=environment, text=True).splitlines()

        trusted = every_client(made / "cert.pem", f"https://localhost:{port}", f"127.0.0.1:{inside.port}")
        assert [line.split()[1] for line in trusted] == ["True"] * 14, trusted
        other = certificate(tmp_path / "other", "example.org")
        for folder, host in ((other, "localhost"), (made, "127.1")):
            lines = every_client(folder / "cert.pem", f"https://{host}:{port}")
            assert [line for line in lines if re.search("connection:|UNAVAILABLE:", line)] == lines


def test_what_is_too_much_at_once_is_refused_here(tmp_path: Path) -> None:
    """429 or RESOURCE_EXHAUSTED with a hint when to try again, and the server is not asked. A photo that arrives slowly
    takes no place, nor does what may hold one for long."""
    config, found = re.subn(
        LIMITS, "{ max_connections: 1, max_pending_requests: 1, max_requests: 1", CONFIG.read_text()
    )
    assert found == 2
    with futures.ThreadPoolExecutor(8) as pool, before_triton(tmp_path, config) as edge:
        for path in ("/v2/models/m/infer", "/classify"):
            several = list(pool.map(edge.post, [f"{path}?hang"] * 4, [b"{}"] * 4))
            assert {status for status, _, _ in several} == {200, 429}
            for _, head, body in (one for one in several if one[0] == 429):
                assert "send this again" in said(path, body)
                assert "retry-after: 1\r\n" in head
        slow = [socket.create_connection(("127.0.0.1", edge.port)) for _ in range(4)]
        for one in slow:
            one.sendall(b"POST /classify HTTP/1.1\r\nhost: edge\r\ncontent-length: 999999\r\n\r\nx")
        pages = [pool.submit(edge.curl, "/docs?hang") for _ in range(2)]
        assert edge.post("/classify", b"photo")[0] == 200
        assert [one.result()[0] for one in pages] == [200, 200]
        for one in slow:
            one.close()
        hung = pool.submit(edge.call, KSERVE + "ModelInfer", x_fail_bin=b"hang")
        wait_until(lambda: edge.served("onnx-grpc") == 1, "the call at the server", seconds=10, every=0.05)
        with channel(f"127.0.0.1:{edge.port}") as opened, pytest.raises(grpc.RpcError) as refused:
            raw_call(opened, KSERVE + "ModelInfer", b"", [], 20)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        hints = {one.key: one.value for one in refused.value.trailing_metadata()}
        assert str(hints["grpc-retry-pushback-ms"]) == "1000"
        assert edge.call("/grpc.health.v1.Health/Check", x_backend="triton").startswith("triton ")
        assert hung.result().startswith("triton ")


def test_a_server_that_speaks_broken_http(tmp_path: Path) -> None:
    """503 and "try again", as from one that is starting: Envoy's own answer would be 502."""
    with serve_grpc("typed-grpc") as port, envoy(tmp_path, {("triton", 8000): port, ("jpeg-http", 8000): port}) as edge:
        for path in ("/v2/models/m/infer", "/classify"):
            status, head, body = edge.post(path, b"{}", *JSON)
            assert (status, "try again" in said(path, body)) == (503, True)
            assert "retry-after: 1\r\n" in head


def test_servers_that_are_not_there(tmp_path: Path) -> None:
    """503 and UNAVAILABLE: "try again" if the server is down, and for a profile that is off the command that starts
    it."""
    echo, vectors = "/fiveway.transport.v1.BaseService/", "/fiveway.transport.v1.DistanceService/StreamVectors"
    transport = ("/transport/structured", "/transport/vectors/json?count=1", "/api/v1.0/predictions")
    methods = (f"{echo}Structured", f"{echo}BinaryStream", vectors, "/seldon.protos.Seldon/Predict")
    # The host names of the others are those of no container here.
    with envoy(tmp_path, {("typed-grpc", 50051): free_port()}) as edge:
        for path in ("/v1/predict", *transport):
            status, _, body = edge.post(path, b"{}", *JSON)
            assert (status, body["error"]["code"]) == (503, "UNAVAILABLE")
            assert ("scripts/up --profile transport" if path in transport else "try again") in body["error"]["message"]
        # Too large to be kept for a second try: Envoy's own answer would be 507.
        for path, kind in (("/v2/models/m/infer", BINARY), ("/embed", ("-H", "content-type: image/jpeg"))):
            status, _, body = edge.post(path, bytes(4 * MIB), *kind)
            assert (status, "try again" in said(path, body)) == (503, True)
        for path in ("/fiveway.vision.v1.VisionService/Predict", *methods):
            says = "scripts/up --profile transport" if path in methods else "try again"
            assert re.match(f"UNAVAILABLE: .*{says}", edge.call(path))
