"""ONNX Runtime alone: the model as Triton's backend runs it, in a process that serves nothing. For the study `shm`.

`python3 -m servers.triton.alone`, or with `health` Docker's health check of it.

A request is 8 bytes, the length of what follows, and a batch: float32 [N, ...]. With length 0 it is the batch before,
at first one of zeros. The answer is 8 bytes, its length, and the embeddings: float32 [N, D].
"""

import json
import socket
import sys
from socketserver import StreamRequestHandler, ThreadingTCPServer
from struct import Struct

import numpy as np

from gateways.core.serving import ARTIFACTS, Serving
from gateways.core.threads import compute_threads
from servers import ENGINE
from servers.triton.backends.onnxruntime.engine import Engine

PORT = 8000
LENGTH = Struct("<q")
HEALTH_S = 4.0


class Server(ThreadingTCPServer):
    """A thread for each connection."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, engine: Engine, port: int = PORT) -> None:
        super().__init__(("0.0.0.0", port), Calls)
        self.engine = engine


class Calls(StreamRequestHandler):
    """A connection: requests and answers in turn."""

    disable_nagle_algorithm = True
    server: Server

    def handle(self) -> None:
        (taken,) = self.server.engine.signature.inputs
        shape = taken.dims[1:]
        batch = np.zeros((1, *shape), np.float32)
        while head := self.rfile.read(LENGTH.size):
            (length,) = LENGTH.unpack(head)
            if length:
                batch = np.frombuffer(self.rfile.read(length), np.float32).reshape(-1, *shape)
            (embeddings,) = self.server.engine.run(["embedding"], {taken.name: batch})
            self.wfile.write(LENGTH.pack(embeddings.nbytes))
            self.wfile.write(embeddings.tobytes())


def healthy() -> None:
    """Raises OSError unless it computes."""
    with socket.create_connection(("127.0.0.1", PORT), HEALTH_S) as asked:
        asked.sendall(LENGTH.pack(0))
        if len(asked.recv(LENGTH.size)) < LENGTH.size:
            raise ConnectionError("it closed the connection: see its log")


def main() -> None:
    model = Serving.load().model
    engine = Engine(ARTIFACTS / "repository" / model / "1" / "model.onnx", {"input": [], "max_batch_size": 1})
    about = {"library": "ONNX Runtime", "device": "cpu", "precision": "FP32", "threads": compute_threads()}
    ENGINE.write_text(json.dumps(about | {"instances": 1}))
    Server(engine).serve_forever()


if __name__ == "__main__":
    healthy() if sys.argv[1:] == ["health"] else main()
