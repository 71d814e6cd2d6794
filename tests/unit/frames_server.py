"""The server of frames in a process of its own: `python -m tests.unit.frames_server FOLDER` ends with its stdin."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateways.transport.frames.frame import Usage
from gateways.transport.frames.http import create_app
from gateways.transport.frames.server import beside_http
from tests.repository import ROOT
from tests.unit.http_server import http_server


@contextmanager
def frames_server(folder: Path) -> Iterator[tuple[int, int]]:
    """Its HTTP and its gRPC port; the shared memory and the ZeroMQ socket are in `folder`."""
    command = [sys.executable, "-m", "tests.unit.frames_server", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        http_port, grpc_port = map(int, process.stdout.readline().split())
        yield http_port, grpc_port
        process.stdin.close()
        assert process.wait(10) == 0, "it ends when it is told to"


if __name__ == "__main__":
    usage = Usage()
    with beside_http(Path(sys.argv[1]), usage, "127.0.0.1:0") as grpc_port, http_server(create_app(usage)) as http_port:
        print(http_port, grpc_port, flush=True)
        sys.stdin.read()
