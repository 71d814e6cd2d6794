"""Docker's healthcheck, -m gateways.transport.frames.health: a pixel is changed over HTTP, ZeroMQ and gRPC."""

import json
import sys

from gateways.core.health import request, watch
from gateways.transport.frames import FOLDER, GRPC_PORT, PORT, SOCKET

TIMEOUT_S = 5.0


def probe() -> None:
    """One real call of each. Raises where one fails."""
    import grpc
    import zmq

    pixel = json.dumps({"width": 1, "height": 1, "frame": "AAAA"}).encode()
    request("POST", PORT, "/frames/base64", pixel, {"content-type": "application/json"}, timeout=TIMEOUT_S)
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVTIMEO, int(TIMEOUT_S * 1e3))
        socket.connect(f"ipc://{FOLDER / SOCKET}")
        socket.send_multipart([b'{"width": 1, "height": 1}', b"\0\0\0"])
        if (found := socket.recv_multipart())[1:] != [b"\xff\xff\xff"]:
            raise RuntimeError(f"ZeroMQ answered {found[0][:200]!r}")
    with grpc.insecure_channel(f"127.0.0.1:{GRPC_PORT}") as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/fiveway.transport.v1.FrameService/Change"
        )
        # ChangeRequest { width: 1, height: 1, pixels: "\0\0\0" }, without the 0.2 s that protobuf's import takes
        call(b"\x08\x01\x10\x01\x1a\x03\0\0\0", timeout=TIMEOUT_S)


def progress() -> float:
    """How many frames were changed: while that grows no probe is in anybody's measurement."""
    return float(json.loads(request("GET", PORT, "/frames/usage", timeout=TIMEOUT_S))["frames"])


if __name__ == "__main__":
    sys.exit(watch(probe, "frames", progress=progress))
