"""A minimal server has one fault at a time: explain names that fault, and none where the server has none."""

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from tritonclient.grpc.service_pb2 import ModelInferResponse

from bench import explain
from bench.explain import MANY, Grpc, Http, Look, Subject, causes, look
from bench.figures import digits
from locustfiles import serving, tensors
from locustfiles.clients import Endpoint, tls
from locustfiles.clients.channels import channel
from tests.repository import certificate
from tests.unit.locust_servers import Reply, answering, kserve

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
    accept: Callable[[socket.socket], socket.socket] | None = None
    """What makes TLS of a connection."""
    extensions: tuple[str, ...] = ("binary_tensor_data",)
    config: dict[str, Any] = field(default_factory=dict)
    one_at_a_time: bool = False
    statistics: bool = True


@contextmanager
def server(fault: Fault) -> Iterator[str]:
    """host:port of one that computes for compute_s, and counts as Triton does."""
    sums = dict.fromkeys(("calls", "queue", "compute"), 0.0)
    turn = threading.Lock() if fault.one_at_a_time else contextlib.nullcontext()

    def about(path: str) -> Reply:
        calls = int(sums["calls"])
        times = {"queue": sums["queue"], "compute_infer": sums["compute"], "success": sums["compute"]}
        stats = {name: {"ns": int(s * 1e9), "count": calls} for name, s in times.items()}
        x = {"name": "x", "datatype": "FP32", "shape": [-1, *fault.shape]}
        counts = {"inference_count": calls, "execution_count": calls, "inference_stats": stats}
        pages = {
            "/v2": {"extensions": fault.extensions},
            "/v2/models/m": {"inputs": [x], "outputs": [x | {"name": "y", "shape": [-1, 1]}]},
            "/v2/models/m/stats": {"model_stats": [counts]},
        }
        if path not in pages or (path.endswith("stats") and not fault.statistics):
            return 404, b"{}", {}
        return 200, json.dumps(pages[path]).encode(), {}

    def answer(method: str, path: str, *_: object) -> Reply:
        if method == "GET":
            return about(path)
        arrived = time.monotonic()
        with turn:
            time.sleep(fault.queue_s)
            begun = time.monotonic()
            time.sleep(fault.compute_s)
            ended = time.monotonic()
        for name, more in (("calls", 1), ("queue", begun - arrived), ("compute", ended - begun)):
            sums[name] += more
        closes = {"connection": "close"} if fault.closes else {}
        if fault.extensions:
            body, headers = kserve("HTTP", y=("FP32", [1, fault.outputs], bytes(4 * fault.outputs)))
            return 200, body, headers | closes
        output = {"name": "y", "datatype": "FP32", "shape": [1, fault.outputs], "data": [0.5] * fault.outputs}
        return 200, json.dumps({"outputs": [output]}).encode(), closes

    with answering(answer, fault.accept or (lambda it: it)) as port:
        yield f"https://localhost:{port}" if fault.accept else f"127.0.0.1:{port}"


def looks(fault: Fault) -> tuple[Subject, Look, Look]:
    """One caller's and many callers' look at such a server over HTTP."""
    with server(fault) as address:
        tensors.described.cache_clear()
        served = serving.Serving("m", ("m",), False)
        subject = Subject(tensors.described(address, "m", served), {"max_batch_size": 8, **fault.config}, address)
        make = partial(Http, Endpoint(address, "/v2/models/m/infer"))
        return subject, look(subject, "HTTP", make, 1, SHORT_S), look(subject, "HTTP", make, MANY, SHORT_S)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(), ""),
        (Fault(closes=True), "ends the connection after each answer"),
        (Fault(extensions=(), shape=(20_000,), outputs=2_000), "Numbers go as JSON"),
        (Fault(shape=(3, 1000, 1000), compute_s=0.0), "where a JPEG may do"),
        (
            Fault(queue_s=0.02, config={"dynamic_batching": {"max_queue_delay_microseconds": "20000"}}),
            "the batcher's delay is 20.0 ms",
        ),
        (Fault(one_at_a_time=True, config={"instance_group": [{"count": 1}]}), "the one instance"),
    ],
    ids=["none", "closes", "json", "tensor", "delay", "instance"],
)
def test_the_cause_is_named(fault: Fault, words: str) -> None:
    """It alone, and by its numbers; the client's own limit is another question."""
    subject, one, many = looks(fault)
    found = [text for text in causes(subject, one, many, None) if "its own limit" not in text]
    assert len(found) == bool(words), found
    assert all(words in text for text in found)


def test_what_connecting_costs_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handshake of TLS with a server that is 20 ms away, for every call: it is the largest part, and the cause."""
    made = certificate(tmp_path / "made", "localhost")
    monkeypatch.setattr(tls, "bundle", lambda: str(made / "cert.pem"))
    monkeypatch.setattr(tls, "context", tls.context.__wrapped__)
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.load_cert_chain(made / "cert.pem", made / "key.pem")

    def far(connection: socket.socket) -> socket.socket:
        time.sleep(0.02)
        return ours.wrap_socket(connection, server_side=True)

    subject, one, many = looks(Fault(closes=True, accept=far))
    assert one.ms["connect"] >= 20
    (said,) = (text for text in causes(subject, one, many, None) if "its own limit" not in text)
    assert f"connecting takes {digits(one.ms['connect'])} ms" in said
    assert explain.answer(one, "HTTP").endswith("is the client's: connect.")


def test_the_parts_are_those_that_somebody_measured() -> None:
    """They add up to a call; what nobody reports is unknown, not guessed."""
    _, one, many = looks(Fault(queue_s=0.004))
    assert min(one.ms["queue"], one.ms["compute"]) >= 4
    assert 0.5 < one.total_ms * one.per_second / 1e3 < 1.2
    assert (one.users, many.users, one.batch) == (1, MANY, 1)
    subject, silent, busy = looks(Fault(statistics=False))
    assert not [text for text in causes(subject, silent, busy, None) if "its own limit" not in text]
    assert {"queue", "compute", "edge"}.isdisjoint(silent.ms)
    assert silent.ms["unknown"] > 4
    assert explain.answer(silent, "HTTP").endswith("nobody reports it: network, server or both.")


def test_a_client_that_is_the_limit_is_named() -> None:
    """By the processor time that it used, which is no more than this process had. How much that is of a core depends
    on what else runs here, so the cause is looked for in a look with a share that is given."""
    before = time.process_time()
    subject, one, many = looks(Fault())
    used_s = time.process_time() - before
    assert 0 < sum(it.cores * it.calls / it.per_second for it in (one, many)) < used_s
    for cores, limited in ((0.89, False), (0.91, True)):
        found = causes(subject, one, replace(many, cores=cores), None)
        assert [text for text in found if f"used {digits(cores)} cores" in text] == found, found
        assert bool(found) == limited


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
