"""The container's health check: `python3 -m gateways.typed_grpc.health`.

Healthy means that a photo is answered through the default upstream. The gateway knows this from its clients' calls or,
while there are none, from its own probe. It reports it over grpc.health.v1.
"""

import sys

from gateways.core.health import ElsewhereError, watch
from gateways.core.start import listen
from gateways.rpc.health import call
from gateways.typed_grpc import PORT

TIMEOUT_S = 10.0
_SERVING = b"\x08\x01"  # HealthCheckResponse { status: SERVING }


def probe(port: int) -> None:
    """Raises ElsewhereError where the upstream needs healing, which that container's own check does, or grpc.RpcError
    where the gateway itself does not answer."""
    if call(port, "/grpc.health.v1.Health/Check", timeout=TIMEOUT_S) != _SERVING:
        raise ElsewhereError("the gateway answers, its upstream torchserve does not: left running")


if __name__ == "__main__":
    _, port = listen(PORT)
    sys.exit(watch(lambda: probe(port), "typed-grpc"))
