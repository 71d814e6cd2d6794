"""The server: `python3 -m gateways.typed_grpc`.

What is served is read from ARTIFACTS (/artifacts), and followed; TORCHSERVE_URL and TRITON_ADDRESS say where it runs;
LISTEN is its own host:port, by default port 50051 of every address; METRICS_PORT is where Prometheus asks,
OTLP_ENDPOINT where traces go.
"""

import os
import sys
from functools import partial

from gateways.core import traces
from gateways.core.serving import ARTIFACTS, ServingError
from gateways.rpc.server import serve
from gateways.typed_grpc import PORT
from gateways.typed_grpc.server import running


def main() -> None:
    traces.export("typed-grpc")
    torchserve_url = os.environ.get("TORCHSERVE_URL", "http://torchserve:8080")
    triton_address = os.environ.get("TRITON_ADDRESS", "triton:8001")
    try:
        serve(partial(running, ARTIFACTS, torchserve_url, triton_address), PORT)
    except ServingError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
