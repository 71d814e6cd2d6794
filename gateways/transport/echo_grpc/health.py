"""Docker's healthcheck: `python3 -m gateways.transport.echo_grpc.health`."""

import sys

import grpc

from gateways.core.health import watch
from gateways.transport.echo_grpc import PORT

TIMEOUT_S = 10.0
# StructuredRequest { entries: 1 }, without the 0.2 s that protobuf's import takes
_ONE_ENTRY = b"\x18\x01"


def probe() -> None:
    """One real call. Raises grpc.RpcError where it fails."""
    with grpc.insecure_channel(f"127.0.0.1:{PORT}") as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
            "/fiveway.transport.v1.BaseService/Structured"
        )
        call(_ONE_ENTRY, timeout=TIMEOUT_S)


if __name__ == "__main__":
    sys.exit(watch(probe, "echo-grpc"))
