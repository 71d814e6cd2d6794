"""Where the time goes: servers with known delays, seen through real HTTP and gRPC, and arithmetic.

`python test_bench_split.py` is the servers' process. It tells what its delays really took, in the body of each answer:
what the split must find again, on however busy a machine.
"""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import pytest

from bench.measure.measured import Visit
from bench.measure.split import PARTS, split, stages_of
from gateways.core.timing import Stages
from tests.repository import ROOT

CALLS = 5
METHOD = "/known.Delays/Call"
# ms that differ in every stage, so that none can be taken for another.
BEFORE, DECODE, QUEUE, COMPUTE, RESPONSE, UNNAMED, AFTER = 60, 10, 25, 35, 15, 20, 40

Parts = dict[str, float]


class Server:
    """One call: what it does is timed by the stages as by our gateways, and by `took` for the test."""

    def __init__(self) -> None:
        self.took: Parts = {}
        self.stages = Stages()

    @contextmanager
    def taking(self, part: str, ms: float) -> Iterator[None]:
        begin = time.perf_counter()
        time.sleep(ms / 1e3)
        yield
        self.took[part] = self.took.get(part, 0.0) + (time.perf_counter() - begin) * 1e3

    def wait(self, part: str, ms: float) -> None:
        with self.taking(part, ms):
            pass

    def own_clock(self, names: Mapping[str, tuple[str, float]], unnamed: float) -> str:
        """The server's clock begins, its stages pass, and the header is made."""
        self.stages = Stages()
        for name, (part, ms) in names.items():
            with self.stages.stage(name):
                self.wait(part, ms)
        self.wait("residue", unnamed)
        return self.stages.header()

    def body(self) -> bytes:
        return json.dumps(self.took).encode()


JPEG_SERVER = {
    "preprocess": ("decode and preprocess", DECODE),
    "queue": ("queue", QUEUE),
    "compute": ("compute", COMPUTE),
    "encode": ("response", RESPONSE),
}
TORCHSERVE = {name: stage for name, stage in JPEG_SERVER.items() if name != "queue"}
GATEWAY = {"preprocess": ("decode and preprocess", DECODE), "backend": ("compute", COMPUTE)}


class Http(BaseHTTPRequestHandler):
    """/direct, and /torchserve and /upload, which play the edge too: they say when they had the request, as it does."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        server = Server()
        headers: dict[str, str] = {}
        begin = time.perf_counter()
        if self.path == "/upload":
            stages = Stages()  # the server's clock runs from the head on
            self.rfile.read(int(self.headers["content-length"]))
            sent = time.perf_counter()
            for name, (part, ms) in JPEG_SERVER.items():
                with stages.stage(name):
                    server.wait(part, ms)
            headers["server-timing"] = stages.header()
            headers["x-edge-timing"] = edge_timing(0, sent - begin, time.perf_counter() - sent)
        else:
            self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/direct":
            server.wait("network and edge", BEFORE)
            headers["server-timing"] = server.own_clock(JPEG_SERVER, UNNAMED)
        if self.path == "/torchserve":
            server.wait("network and edge", BEFORE)  # inside the edge
            sent = time.perf_counter()
            server.wait("queue", QUEUE)
            headers["server-timing"] = server.own_clock(TORCHSERVE, UNNAMED)
            server.wait("queue", AFTER)  # the way out through the front end
            headers["x-edge-timing"] = edge_timing(sent - begin, 0, time.perf_counter() - sent)
        body = server.body()
        self.send_response(200)
        for name, value in (headers | {"content-length": str(len(body))}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def edge_timing(hold: float, send: float, upstream: float) -> str:
    return f"hold={hold * 1e6:.0f}, send={send * 1e6:.0f}, upstream={upstream * 1e6:.0f}"


def gateway(body: bytes, context: grpc.ServicerContext) -> bytes:
    server = Server()
    server.wait("network and edge", BEFORE)
    context.set_trailing_metadata((("server-timing", server.own_clock(GATEWAY, UNNAMED)),))
    return server.body()


def main() -> None:
    http_server = ThreadingHTTPServer(("127.0.0.1", 0), Http)
    http_server.daemon_threads = True
    threading.Thread(target=http_server.serve_forever, daemon=True).start()
    grpc_server = grpc.server(ThreadPoolExecutor(2))
    service, method = METHOD[1:].split("/")
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(gateway)
    grpc_server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    port = grpc_server.add_insecure_port("127.0.0.1:0")
    grpc_server.start()
    print(http_server.server_port, port, flush=True)
    sys.stdin.read()  # until the test closes it


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[int, int]]:
    path = os.pathsep.join((str(ROOT), str(ROOT / "proto" / "gen")))
    with subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        assert process.stdout
        http_port, grpc_port = map(int, process.stdout.readline().split())
        yield http_port, grpc_port
        process.terminate()


def measured(call: Callable[[], tuple[dict[str, Any], bytes]]) -> tuple[Visit, Parts]:
    """CALLS calls, timed from here: the visit as the load makes it, and the means of what the server says it did."""
    elapsed = 0.0
    stages: Parts = {}
    took: Parts = {}
    for _ in range(CALLS):
        begin = time.perf_counter()
        headers, body = call()
        elapsed += (time.perf_counter() - begin) * 1e3
        for total, found in ((stages, stages_of(headers)), (took, json.loads(body))):
            for name, ms in found.items():
                total[name] = total.get(name, 0.0) + ms / CALLS
    return Visit(1, 1, "", mean_ms=elapsed / CALLS, encode_ms=3.5, stages_ms=stages), took


def over_http(port: int, path: str, pause_ms: float = 0.0) -> tuple[Visit, Parts]:
    """Calls on one connection; the second half of each body is sent after a pause."""
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def call() -> tuple[dict[str, Any], bytes]:
        connection.putrequest("POST", path)
        connection.putheader("content-length", "4")
        connection.endheaders(b"ab")
        time.sleep(pause_ms / 1e3)
        connection.send(b"cd")
        response = connection.getresponse()
        return {name.lower(): value for name, value in response.getheaders()}, response.read()

    try:
        return measured(call)
    finally:
        connection.close()


def assert_found(visit: Visit, took: Parts, *, server: tuple[str, ...]) -> Parts:
    """The server's parts are what it did in them, and the rest of the call is the network's."""
    found = split(visit)
    assert found is not None
    assert visit.mean_ms is not None
    assert tuple(found) == PARTS
    assert sum(found.values()) == pytest.approx(visit.encode_ms + visit.mean_ms)
    assert found["client encode"] == 3.5
    for part in server:
        # What the servers do between their own clock readings is theirs as well: a scheduler's pause, not a delay.
        assert found[part] == pytest.approx(took[part], abs=8), part
    assert all(found[part] == 0 for part in set(PARTS) - {*server, "client encode", "network and edge", "residue"})
    return found


def test_delays_of_a_server_over_http(ports: tuple[int, int]) -> None:
    """Every delay lands in its part; the one before the server's clock is the network's."""
    visit, took = over_http(ports[0], "/direct")
    stages = ("decode and preprocess", "queue", "compute", "response")
    found = assert_found(visit, took, server=(*stages, "residue"))
    assert found["network and edge"] >= took["network and edge"] >= BEFORE


def test_delays_of_a_server_over_grpc(ports: tuple[int, int]) -> None:
    """The same from trailing metadata; a gateway's call to the server behind it is compute."""
    with grpc.insecure_channel(f"127.0.0.1:{ports[1]}") as channel:
        method: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)

        def call() -> tuple[dict[str, Any], bytes]:
            body, done = method.with_call(b"", timeout=20)
            return dict(done.trailing_metadata()), body

        visit, took = measured(call)
    found = assert_found(visit, took, server=("decode and preprocess", "compute", "residue"))
    assert found["network and edge"] >= took["network and edge"] >= BEFORE


def test_torchserves_queue_is_what_its_handler_does_not_see(ports: tuple[int, int]) -> None:
    """Between the edge and the handler's clock, both ways: queue. In the edge, before it: network."""
    visit, took = over_http(ports[0], "/torchserve")
    found = assert_found(visit, took, server=("decode and preprocess", "queue", "compute", "response", "residue"))
    assert took["queue"] >= QUEUE + AFTER
    assert found["network and edge"] >= BEFORE


def test_receiving_a_body_is_no_work_of_the_server(ports: tuple[int, int]) -> None:
    """The clock of a server that starts it with the request's head runs while the body comes in: that is network."""
    visit, took = over_http(ports[0], "/upload", pause_ms=BEFORE)
    found = assert_found(visit, took, server=("decode and preprocess", "queue", "compute", "response"))
    assert visit.stages_ms["server.total"] >= BEFORE + DECODE + QUEUE + COMPUTE + RESPONSE
    assert found["network and edge"] >= BEFORE
    assert found["residue"] < visit.stages_ms["server.total"] - sum(took.values()) - BEFORE / 2, "it is in the residue"


TRITON = {
    "triton.queue": 2.0,
    "triton.compute_input": 0.5,
    "triton.compute_infer": 30.0,
    "triton.compute_output": 1.5,
    "triton.total": 34.75,
}
EDGE = {"edge.hold": 0.25, "edge.send": 1.0, "edge.upstream": 36.0}


def visit_of(stages: Parts, mean_ms: float | None = 40.0) -> Visit:
    return Visit(1, 1, "", mean_ms=mean_ms, encode_ms=2.0, stages_ms=stages)


def test_triton() -> None:
    """Bringing the inputs to the model is compute; what Triton's stages do not name is the residue."""
    wanted = {
        "client encode": 2.0,
        "network and edge": 5.25,
        "decode and preprocess": 0.0,
        "queue": 2.0,
        "compute": 30.5,
        "response": 1.5,
        "residue": 0.75,
    }
    assert split(visit_of(TRITON)) == pytest.approx(wanted)
    assert split(visit_of(TRITON | EDGE)) == pytest.approx(wanted)


def test_triton_decodes() -> None:
    """What the first of two models in a row computes is decoding, and no part of the compute."""
    found = split(visit_of(TRITON | {"triton.decode": 4.0}))
    assert found is not None
    assert (found["decode and preprocess"], found["compute"], found["residue"]) == pytest.approx((4.0, 26.5, 0.75))


def test_stages_that_overlap_leave_less_than_nothing() -> None:
    """The parts add up all the same: the residue is below 0."""
    found = split(visit_of(TRITON | {"triton.total": 30.0}))
    assert found is not None
    assert found["residue"] == pytest.approx(-4.0)
    assert sum(found.values()) == pytest.approx(42.0)


def test_a_handler_without_an_edge() -> None:
    """TorchServe asked directly: its queue and the network are one number, which is nobody's."""
    stages = {"server.preprocess": 3.0, "server.compute": 20.0, "server.encode": 1.0, "server.total": 25.0}
    found = split(visit_of(stages))
    assert found is not None
    assert (found["network and edge"], found["queue"], found["residue"]) == (0.0, 0.0, 16.0)


def test_a_server_that_says_nothing() -> None:
    """Through the edge (TorchServe over gRPC) its time is known and its parts are not; else nothing can be split."""
    found = split(visit_of(EDGE))
    assert found is not None
    assert (found["network and edge"], found["residue"]) == (4.0, 36.0)
    assert split(visit_of({})) is None
    assert split(visit_of({"edge.hold": 1.0})) is None
    assert split(visit_of(TRITON, mean_ms=None)) is None


def test_stages_of_headers() -> None:
    """All stages of both headers in ms; a stage that came twice is summed."""
    timing = "preprocess;dur=0.812, queue;dur=0, compute ; dur=15"
    found = stages_of({"server-timing": timing, "x-edge-timing": "hold=263, send=20, upstream=58840"})
    assert found == {
        "server.preprocess": 0.812,
        "server.queue": 0.0,
        "server.compute": 15.0,
        "edge.hold": 0.263,
        "edge.send": 0.02,
        "edge.upstream": 58.84,
    }
    twice = ["compute;dur=1.5, total;dur=4", "compute;dur=2"]
    assert stages_of({"server-timing": twice}) == {"server.compute": 3.5, "server.total": 4.0}


GARBAGE = ["", ",;=", "dur=3", "total", "total;dur=", "total;dur=x", "total;dur=-1", "total;dur=1e3", "total;dur=nan"]


@pytest.mark.parametrize("garbage", [*GARBAGE, "total;dur=99999999999999", "a;b;c" * 10_000, "\x00\xff"])
def test_garbage_is_no_time(garbage: str) -> None:
    """What cannot be read is left out."""
    assert stages_of({"server-timing": garbage, "x-edge-timing": "hold=, send=-, upstream=1x"}) == {}


if __name__ == "__main__":
    main()
