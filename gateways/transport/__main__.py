"""Run a server without a model: `python3 -m gateways.transport NAME`. LISTEN is its host:port.

Imports are where they are needed: each process has its own libraries only.
"""

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module

from gateways.transport import GRPC_PORT, PORT


def http(package: str) -> None:
    from gateways.web.server import serve

    serve(import_module(f"gateways.transport.{package}.http").create_app(), PORT)


def grpc(package: str) -> None:
    from gateways.rpc.server import serve

    serve(import_module(f"gateways.transport.{package}.grpc").running, GRPC_PORT)


def frames() -> None:
    from gateways.transport.frames.server import serve

    serve()


SERVERS: dict[str, Callable[[], None]] = {
    "echo-http": partial(http, "echo"),
    "echo-grpc": partial(grpc, "echo"),
    "frames": frames,
    "seldon-http": partial(http, "seldon"),
    "seldon-grpc": partial(grpc, "seldon"),
}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in SERVERS:
        sys.exit(f"usage: python3 -m gateways.transport {'|'.join(SERVERS)}")
    SERVERS[sys.argv[1]]()
