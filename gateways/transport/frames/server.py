"""All of its servers in one process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateways.transport import GRPC_PORT, PORT
from gateways.transport.frames import FOLDER
from gateways.transport.frames.frame import Usage
from gateways.transport.frames.grpc import create_server
from gateways.transport.frames.http import create_app
from gateways.transport.frames.zeromq import ZmqServer
from gateways.web import server as web

STOP_GRACE_S = 5.0


@contextmanager
def beside_http(folder: Path, usage: Usage, grpc_address: str) -> Iterator[int]:
    """ZeroMQ and gRPC at work. Yields gRPC's port."""
    zeromq = ZmqServer(folder, usage)
    zeromq.start()
    server = create_server(usage)
    port = server.add_insecure_port(grpc_address)
    server.start()
    try:
        yield port
    finally:
        server.stop(STOP_GRACE_S).wait()
        zeromq.stop()


def serve() -> None:
    """Until SIGTERM or SIGINT."""
    usage = Usage()
    with beside_http(FOLDER, usage, f"0.0.0.0:{GRPC_PORT}"):
        web.serve(create_app(usage), PORT)
