"""The container's health check: `python3 -m gateways.typed_grpc.health`.

Healthy means that a photo is answered through the default backend. The gateway knows that from its clients' calls, or
from a probe of its own while there are none, and says it over grpc.health.v1.
"""

import os
import sys

import grpc

from gateways.core.health import end_server, watch

TIMEOUT_S = 10.0
_SERVING = b"\x08\x01"  # HealthCheckResponse { status: SERVING }, without the 0.2 s that protobuf's import takes


class NotServing(RuntimeError):
    """The gateway answers, but its backend does not: a restart of the gateway would not help."""


def probe(port: int) -> None:
    """Raises NotServing, or grpc.RpcError where the gateway itself does not answer."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        check: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/grpc.health.v1.Health/Check")
        answer = check(b"", timeout=TIMEOUT_S)
    if answer != _SERVING:
        raise NotServing("the gateway answers, its backend torchserve does not")


def heal(port: int) -> None:
    """End the gateway, unless it is its backend that needs healing (which that container's own check does)."""
    try:
        probe(port)
    except NotServing:
        print("typed-grpc: left running")
    except grpc.RpcError:
        end_server()


if __name__ == "__main__":
    port = int(os.environ.get("PORT", "50051"))
    sys.exit(watch(lambda: probe(port), "typed-grpc", heal=lambda: heal(port)))
