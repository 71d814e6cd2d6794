"""Run a server without a model: `python3 -m gateways.transport NAME`. LISTEN is its host:port.

Imports are where they are needed: each process has its own libraries only.
"""

import sys
from importlib import import_module

from gateways.transport import GRPC_PORT, NAMES, PORT


def main(name: str) -> None:
    package, _, protocol = name.partition("-")
    module = import_module(f"gateways.transport.{package}.{protocol or 'server'}")
    if protocol == "http":
        from gateways.web import server as web

        web.serve(module.create_app(), PORT)
    elif protocol == "grpc":
        from gateways.rpc import server as rpc

        rpc.serve(module.running, GRPC_PORT)
    else:
        module.serve()


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in NAMES:
        sys.exit(f"usage: python3 -m gateways.transport {'|'.join(NAMES)}")
    main(sys.argv[1])
