"""Docker's healthcheck of a server without a model, `python3 -m gateways.transport.health NAME`: one real call.

Messages over gRPC are written as bytes: protobuf's import would take 0.2 s.
"""

import json
import sys
from collections.abc import Callable
from functools import partial

from gateways.core.health import request, watch
from gateways.core.start import listen
from gateways.rpc.health import call
from gateways.transport import GRPC_PORT, PORT

TIMEOUT_S = 10.0
FRAMES_TIMEOUT_S = 5.0  # of each of its three calls

HTTP, GRPC = listen(PORT)[1], listen(GRPC_PORT)[1]
JSON = {"content-type": "application/json"}
# StructuredRequest { entries: 1 }
ONE_ENTRY = b"\x18\x01"
# SeldonMessage { data { ndarray { values { number_value: 0 } } } }
ONE_NUMBER = bytes.fromhex("1a0d1a0b0a09110000000000000000")
# ChangeRequest { width: 1, height: 1, pixels: "\0\0\0" }
ONE_PIXEL = b"\x08\x01\x10\x01\x1a\x03\0\0\0"


def frames() -> None:
    """A pixel is changed over HTTP, ZeroMQ and gRPC. Raises where one fails."""
    import zmq

    from gateways.transport.frames import FOLDER, SOCKET

    pixel = b'{"width": 1, "height": 1, "frame": "AAAA"}'
    request("POST", HTTP, "/frames/base64", pixel, JSON, timeout=FRAMES_TIMEOUT_S)
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RCVTIMEO, int(FRAMES_TIMEOUT_S * 1e3))
        socket.connect(f"ipc://{FOLDER / SOCKET}")
        socket.send_multipart([b'{"width": 1, "height": 1}', b"\0\0\0"])
        if (found := socket.recv_multipart())[1:] != [b"\xff\xff\xff"]:
            raise RuntimeError(f"ZeroMQ answered {found[0][:200]!r}")
    call(GRPC_PORT, "/fiveway.transport.v1.FrameService/Change", ONE_PIXEL, timeout=FRAMES_TIMEOUT_S)


def frames_changed() -> float:
    """The number of answers so far. While it grows no probe is sent, so probes disturb no measurement."""
    return float(json.loads(request("GET", HTTP, "/frames/usage", timeout=FRAMES_TIMEOUT_S))["frames"])


PROBES: dict[str, Callable[[], object]] = {
    "echo-http": partial(
        request, "POST", HTTP, "/transport/structured", b'{"name": "health", "text": ""}', JSON, timeout=TIMEOUT_S
    ),
    "echo-grpc": partial(call, GRPC, "/fiveway.transport.v1.BaseService/Structured", ONE_ENTRY, timeout=TIMEOUT_S),
    "frames": frames,
    "seldon-http": partial(
        request, "POST", HTTP, "/api/v1.0/predictions", b'{"data": {"ndarray": [1]}}', JSON, timeout=TIMEOUT_S
    ),
    "seldon-grpc": partial(call, GRPC, "/seldon.protos.Seldon/Predict", ONE_NUMBER, timeout=TIMEOUT_S),
}


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in PROBES:
        sys.exit(f"usage: python3 -m gateways.transport.health {'|'.join(PROBES)}")
    name = sys.argv[1]
    sys.exit(watch(PROBES[name], name, progress=frames_changed if name == "frames" else None))
