"""The gateway of frames over real sockets: every protocol inverts the frame, refuses the same, and goes on."""

import base64
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import simplejpeg
import zmq
from fiveway.transport.v1 import frames_pb2 as pb
from fiveway.transport.v1 import frames_pb2_grpc

from gateways.core.errors import ServeError
from gateways.transport.frames.frame import Usage
from gateways.transport.frames.zeromq import MAX_SLOTS, Slots
from tests.unit.frames_server import frames_server
from tests.unit.http_server import JSON, Answer, ask

FRAME = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
HEIGHT, WIDTH, _ = FRAME.shape
RAW, CHANGED = FRAME.tobytes(), (255 - FRAME).tobytes()
SHAPE: dict[str, Any] = {"width": WIDTH, "height": HEIGHT}
JPEG = base64.b64encode(simplejpeg.encode_jpeg(FRAME)).decode()


@dataclass(frozen=True)
class Server:
    """Where it listens."""

    http: int
    grpc: int
    folder: Path

    def post(self, path: str, body: bytes, kind: str = JSON) -> Answer:
        return ask(self.http, "POST", f"/frames/{path}", body, kind)

    def text(self, path: str, **message: object) -> Answer:
        return self.post(path, json.dumps(message).encode())

    def zmq(self, *parts: bytes, timeout_ms: int = 10_000) -> list[bytes]:
        with zmq.Context() as context, context.socket(zmq.REQ) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.RCVTIMEO, timeout_ms)
            socket.connect(f"ipc://{self.folder / 'zmq'}")
            socket.send_multipart(parts)
            return socket.recv_multipart()

    def slot(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(data)
        return path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("f")
    with frames_server(folder) as (http_port, grpc_port):
        yield Server(http_port, grpc_port, folder)


@pytest.fixture
def stub(server: Server) -> Iterator[frames_pb2_grpc.FrameServiceStub]:
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc}") as channel:
        yield frames_pb2_grpc.FrameServiceStub(channel)


def form(fields: dict[str, object], file: bytes | None = RAW, end: str = "--") -> bytes:
    parts = [
        f'--b\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields.items()
    ]
    body = "".join(parts).encode()
    if file is not None:
        body += b'--b\r\ncontent-disposition: form-data; name="frame"; filename="f"\r\n\r\n' + file + b"\r\n"
    return body + f"--b{end}\r\n".encode()


FORM = "multipart/form-data; boundary=b"


def test_each_answer_says_what_cpu_time_it_took(server: Server, stub: frames_pb2_grpc.FrameServiceStub) -> None:
    """In a header, a field, the head; and how many frames were changed. That each frame comes back inverted:
    tests/unit/test_study_frames.py."""
    before = ask(server.http, "GET", "/frames/usage").json
    name, _, duration = server.text("hex", **SHAPE, frame=RAW.hex()).headers["server-timing"].partition(";dur=")
    assert name == "cpu"
    assert float(duration) > 0
    assert stub.Change(pb.ChangeRequest(pixels=RAW, **SHAPE)).cpu_ms > 0
    assert json.loads(server.zmq(json.dumps(SHAPE).encode(), RAW)[0])["cpu_ms"] > 0
    server.text("hex", **SHAPE, frame="x")
    after = ask(server.http, "GET", "/frames/usage").json
    assert after["frames"] - before["frames"] == 3
    assert after["cpu_s"] > before["cpu_s"]


BAD_TEXT: list[tuple[str, bytes, str, int, str]] = [
    ("base64", b'{"frame": ""}', JSON, 400, "a frame of None x None: send whole numbers"),
    ("base64", b'{"width": 1, "height": true, "frame": ""}', JSON, 400, "1 x True"),
    ("hex", '{"width": 1, "height": 1, "frame": "é"}'.encode(), JSON, 400, "frame cannot be decoded"),
    ("jpeg", b'{"width": 1, "height": 1, "frame": "AAAA"}', JSON, 400, "frame cannot be decoded"),
    ("jpeg", json.dumps({"width": 64, "height": 47, "frame": JPEG}).encode(), JSON, 400, "64 x 48"),
    ("multipart", form(SHAPE | {"frame": "x"}, None), FORM, 400, "the form cannot be read"),
    ("multipart", form({"width": "x", "height": 1}), FORM, 400, "a frame of 'x' x 1"),
    ("multipart", form(SHAPE, RAW[:-1]), FORM, 400, f"{len(RAW) - 1} bytes for a frame of 64 x 48"),
    ("multipart", form(SHAPE, end=""), FORM, 400, "the form is truncated"),
]


@pytest.mark.parametrize(("path", "body", "kind", "status", "says"), BAD_TEXT)
def test_http_says_what_is_wrong(server: Server, path: str, body: bytes, kind: str, status: int, says: str) -> None:
    """The status, and one line for the client; the next request is answered. More: tests/stack/bad_input.py."""
    server.post(path, body, kind).refuses(status, says)
    assert server.text("hex", **SHAPE, frame=RAW.hex()).status == 200


def test_a_bad_message_ends_its_stream(stub: frames_pb2_grpc.FrameServiceStub) -> None:
    """After the answers to those before it."""
    asked = [pb.ChangeStreamRequest(pixels=RAW, **SHAPE), pb.ChangeStreamRequest(pixels=b"")]
    answers = stub.ChangeStream(iter(asked))
    assert next(answers).pixels == CHANGED
    with pytest.raises(grpc.RpcError) as failed:
        next(answers)
    assert failed.value.code() is grpc.StatusCode.INVALID_ARGUMENT


BAD_PARTS: list[tuple[list[bytes], str, str]] = [
    ([b" " * 2000 + b"{}"], "INVALID_ARGUMENT", "at most 1024 bytes"),
    ([json.dumps(SHAPE | {"slot": 5}).encode()], "INVALID_ARGUMENT", "slot is not a valid name"),
    ([json.dumps(SHAPE | {"slot": "shortfile"}).encode()], "INVALID_ARGUMENT", "needs 18432, for both"),
    ([json.dumps(SHAPE | {"slot": "emptyfile"}).encode()], "INVALID_ARGUMENT", "has no memory"),
    ([json.dumps(SHAPE | {"slot": "linkedfile"}).encode()], "NOT_FOUND", "cannot be opened"),
    ([json.dumps(SHAPE | {"slot": "pipepipe"}).encode()], "INVALID_ARGUMENT", "has no memory"),
]


@pytest.mark.parametrize(("parts", "code", "says"), BAD_PARTS)
def test_zeromq_says_what_is_wrong(server: Server, parts: list[bytes], code: str, says: str) -> None:
    """An error where the head would be; the next request is answered."""
    server.slot("shortfile", RAW)
    server.slot("emptyfile", b"")
    if not (server.folder / "linkedfile").is_symlink():
        (server.folder / "linkedfile").symlink_to(server.slot("target123", RAW * 2))
        os.mkfifo(server.folder / "pipepipe")
    (answer,) = server.zmq(*parts)
    error = json.loads(answer)["error"]
    assert error["code"] == code
    assert says in error["message"]
    assert server.zmq(json.dumps(SHAPE).encode(), RAW)[1] == CHANGED


def test_a_message_above_the_limit_ends_its_connection_and_nothing_else(server: Server) -> None:
    """ZeroMQ drops it; others are answered."""
    with pytest.raises(zmq.Again):
        server.zmq(json.dumps(SHAPE).encode(), bytes(17 * 1024**2), timeout_ms=500)
    assert server.zmq(json.dumps(SHAPE).encode(), RAW)[1] == CHANGED


def test_a_slot_that_was_cut_is_refused(tmp_path: Path) -> None:
    """Between two frames: the server does not touch memory that is gone."""
    slots, path = Slots(tmp_path), tmp_path / "slot1234"
    path.write_bytes(RAW * 2)
    slots.change("slot1234", WIDTH, HEIGHT)
    os.truncate(path, 100)
    with pytest.raises(ServeError, match="has 100 bytes"):
        slots.change("slot1234", WIDTH, HEIGHT)


def test_few_slots_stay_mapped(tmp_path: Path) -> None:
    """The one that was unused for longest makes room; a client whose slot is gone is told."""
    slots = Slots(tmp_path)
    for number in range(MAX_SLOTS + 1):
        path = tmp_path / f"slot{number:04}"
        path.write_bytes(RAW * 2)
        slots.change(path.name, WIDTH, HEIGHT)
        path.unlink()
    slots.change("slot0001", WIDTH, HEIGHT)
    with pytest.raises(ServeError, match="slot0000 cannot be opened"):
        slots.change("slot0000", WIDTH, HEIGHT)


def test_cpu_time_is_told_once() -> None:
    """Each answer has what the process used since the answer before it, whoever used it."""
    usage = Usage()
    end = time.process_time() + 0.02
    while time.process_time() < end:
        pass
    assert usage.spent_ms() >= 20
    assert usage.spent_ms() < 20
    assert usage.frames == 2
