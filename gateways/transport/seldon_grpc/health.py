"""Docker's healthcheck: `python3 -m gateways.transport.seldon_grpc.health`."""

import sys

import grpc

from gateways.core.health import watch
from gateways.transport.seldon_grpc import PORT

TIMEOUT_S = 10.0
# SeldonMessage { data { ndarray { values { number_value: 0 } } } }, without the time that protobuf's import takes.
MESSAGE = bytes.fromhex("1a0d1a0b0a09110000000000000000")


def probe() -> None:
    """Raises grpc.RpcError where no prediction is answered."""
    with grpc.insecure_channel(f"127.0.0.1:{PORT}") as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/seldon.protos.Seldon/Predict")
        call(MESSAGE, timeout=TIMEOUT_S)


if __name__ == "__main__":
    sys.exit(watch(probe, "seldon-grpc"))
