"""A minimal server has one fault at a time: explain names that fault, and none where the server has none."""

import json
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import pytest
from tritonclient.grpc.service_pb2 import ModelInferResponse

from bench import explain
from bench.explain import MANY, Grpc, Http, Look, Subject, causes, look
from locustfiles import serving, tensors
from locustfiles.clients import Endpoint
from locustfiles.clients.channels import channel

SHORT_S = 0.3
METHOD = "/inference.GRPCInferenceService/ModelInfer"


@dataclass
class Fault:
    """How a minimal server answers."""

    compute_s: float = 0.004
    queue_s: float = 0.0
    shape: tuple[int, ...] = (4,)
    outputs: int = 1
    closes: bool = False
    extensions: tuple[str, ...] = ("binary_tensor_data",)
    config: dict[str, Any] = field(default_factory=dict)
    one_at_a_time: bool = False
    statistics: bool = True


@contextmanager
def server(fault: Fault) -> Iterator[str]:
    """host:port of one that computes for compute_s, and counts as Triton does."""
    turn, sums = threading.Lock(), dict.fromkeys(("calls", "queue", "compute"), 0.0)

    class Handler(BaseHTTPRequestHandler):
        disable_nagle_algorithm = True
        protocol_version = "HTTP/1.0" if fault.closes else "HTTP/1.1"

        def do_GET(self) -> None:
            calls = int(sums["calls"])
            stats = {name: {"ns": int(sums[name] * 1e9), "count": calls} for name in ("queue",)}
            stats |= {f"compute_{part}": {"ns": 0, "count": calls} for part in ("input", "output")}
            stats |= {name: {"ns": int(sums["compute"] * 1e9), "count": calls} for name in ("compute_infer", "success")}
            model = {"inference_count": calls, "execution_count": calls, "inference_stats": stats}
            about = [{"name": "x", "datatype": "FP32", "shape": [-1, *fault.shape]}]
            pages = {
                "/v2": {"extensions": fault.extensions},
                "/v2/models/m": {"inputs": about, "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 1]}]},
                "/v2/models/m/config": {"max_batch_size": 8, **fault.config},
            }
            if fault.statistics:
                pages["/v2/models/m/stats"] = {"model_stats": [model]}
            found = pages.get(self.path)
            self._say(404 if found is None else 200, json.dumps(found).encode())

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            arrived = time.monotonic()
            if fault.one_at_a_time:
                turn.acquire()
            time.sleep(fault.queue_s)
            begun = time.monotonic()
            time.sleep(fault.compute_s)
            ended = time.monotonic()
            if fault.one_at_a_time:
                turn.release()
            for name, more in (("calls", 1), ("queue", begun - arrived), ("compute", ended - begun)):
                sums[name] += more
            output: dict[str, Any] = {"name": "y", "datatype": "FP32", "shape": [1, fault.outputs]}
            if fault.extensions:
                output["parameters"] = {"binary_data_size": 4 * fault.outputs}
                head = json.dumps({"outputs": [output]}).encode()
                self._say(200, head + bytes(4 * fault.outputs), len(head))
            else:
                self._say(200, json.dumps({"outputs": [output | {"data": [0.5] * fault.outputs}]}).encode())

        def _say(self, status: int, body: bytes, head: int = 0) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            if head:
                self.send_header("inference-header-content-length", str(head))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        try:
            yield f"127.0.0.1:{found.server_address[1]}"
        finally:
            found.shutdown()


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    tensors.described.cache_clear()
    yield
    tensors.described.cache_clear()


def looks(fault: Fault) -> tuple[Subject, Look, Look]:
    """One caller's and many callers' look at such a server over HTTP."""
    with server(fault) as address:
        served = serving.Serving("m", ("m",), False)
        config = {"max_batch_size": 8, **fault.config}
        subject = Subject(tensors.described(address, "m", served), config, address)
        make = partial(Http, Endpoint(address, "/v2/models/m/infer"))
        return subject, look(subject, "HTTP", make, 1, SHORT_S), look(subject, "HTTP", make, MANY, SHORT_S)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(), ""),
        (Fault(statistics=False), ""),
        (Fault(closes=True), "ends the connection after each answer"),
        (Fault(extensions=(), shape=(20_000,), outputs=2_000), "Numbers go as JSON"),
        (Fault(shape=(3, 1000, 1000), compute_s=0.0), "where a JPEG may do"),
        (
            Fault(queue_s=0.02, config={"dynamic_batching": {"max_queue_delay_microseconds": "20000"}}),
            "the batcher's delay is 20.0 ms",
        ),
        (Fault(one_at_a_time=True, config={"instance_group": [{"count": 1}]}), "the one instance"),
    ],
    ids=["none", "silent", "closes", "json", "tensor", "delay", "instance"],
)
def test_the_cause_is_named(fault: Fault, words: str) -> None:
    """It alone, and by its numbers; the client's own limit is another question."""
    subject, one, many = looks(fault)
    found = [text for text in causes(subject, one, many, None) if "its own limit" not in text]
    assert len(found) == bool(words), found
    assert all(words in text for text in found)


def test_the_parts_are_those_that_somebody_measured() -> None:
    """They add up to a call; what nobody reports is unknown, not guessed."""
    _, one, many = looks(Fault(queue_s=0.004))
    assert 4 < one.ms["queue"] < 8
    assert 4 < one.ms["compute"] < 8
    assert one.total_ms < 30
    assert (one.users, many.users, one.batch) == (1, MANY, 1)
    _, silent, _ = looks(Fault(statistics=False))
    assert {"queue", "compute", "edge"}.isdisjoint(silent.ms)
    assert silent.ms["unknown"] > 4
    assert explain.answer(silent, "HTTP").endswith("nobody reports it: network, server or both.")


def test_a_channel_that_is_too_few_is_named() -> None:
    """A server that takes one call at a time on each connection: eight connections carry eight times as many."""

    def infer(_: bytes, __: grpc.ServicerContext) -> bytes:
        time.sleep(0.02)
        output = ModelInferResponse.InferOutputTensor(name="y", datatype="FP32", shape=[1, 1])
        return ModelInferResponse(outputs=[output], raw_output_contents=[bytes(4)]).SerializeToString()

    class Service(grpc.GenericRpcHandler):
        def service(self, _: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
            return grpc.unary_unary_rpc_method_handler(infer)

    narrow = grpc.server(futures.ThreadPoolExecutor(16), options=[("grpc.max_concurrent_streams", 1)])
    narrow.add_generic_rpc_handlers((Service(),))
    port = narrow.add_insecure_port("127.0.0.1:0")
    narrow.start()
    x = tensors.Tensor("x", "FP32", (4,))
    subject = Subject(tensors.Model("m", (x,), (tensors.Tensor("y", "FP32", (1,)),), 8), {}, f"127.0.0.1:{port}")
    to = Endpoint(f"127.0.0.1:{port}", METHOD)
    shared = channel(to, explain.OPTIONS)
    one, apart = (look(subject, "gRPC", make, MANY, SHORT_S) for make in (partial(Grpc, to, shared), partial(Grpc, to)))
    narrow.stop(0)
    assert apart.per_second > 3 * one.per_second
    calm = Look(1, 1, 1.0, {"unknown": 1.0}, None, 0.1, 0.0)
    (said,) = causes(subject, calm, calm, (one.per_second, apart.per_second))
    assert said.startswith("One gRPC channel carries")
