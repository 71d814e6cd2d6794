"""Run a server without a model: `python3 -m gateways.transport NAME`. LISTEN is its host:port.

Imports are where they are needed: each process has its own libraries only.
"""

import sys

from gateways.transport import GRPC_PORT, PORT


def echo_http() -> None:
    from gateways.transport.echo.http import create_app
    from gateways.web.server import serve

    serve(create_app(), PORT)


def echo_grpc() -> None:
    from gateways.rpc.server import serve
    from gateways.transport.echo.grpc import running

    serve(running, GRPC_PORT)


def frames() -> None:
    from gateways.transport.frames.server import serve

    serve()


def seldon_http() -> None:
    from gateways.transport.seldon.http import create_app
    from gateways.web.server import serve

    serve(create_app(), PORT)


def seldon_grpc() -> None:
    from gateways.rpc.server import serve
    from gateways.transport.seldon.grpc import running

    serve(running, GRPC_PORT)


SERVERS = {run.__name__.replace("_", "-"): run for run in (echo_http, echo_grpc, frames, seldon_http, seldon_grpc)}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in SERVERS:
        sys.exit(f"usage: python3 -m gateways.transport {'|'.join(SERVERS)}")
    SERVERS[sys.argv[1]]()
