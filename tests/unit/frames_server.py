"""The server of frames with the shared folder of its argument: prints its HTTP and gRPC port, ends with its stdin."""

import sys
from pathlib import Path

from gateways.transport.frames.frame import Usage
from gateways.transport.frames.http import create_app
from gateways.transport.frames.server import beside_http
from tests.unit.http_server import http_server

if __name__ == "__main__":
    usage = Usage()
    with beside_http(Path(sys.argv[1]), usage, "127.0.0.1:0") as grpc_port, http_server(create_app(usage)) as http_port:
        print(http_port, grpc_port, flush=True)
        sys.stdin.read()
