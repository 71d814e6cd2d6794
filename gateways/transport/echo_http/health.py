"""Docker's healthcheck: `python3 -m gateways.transport.echo_http.health`."""

import sys

from gateways.core.health import request, watch
from gateways.transport.echo_http import PORT

TIMEOUT_S = 10.0
JSON = {"content-type": "application/json"}


def probe() -> None:
    request("POST", PORT, "/transport/structured", b'{"name": "health", "text": ""}', JSON, timeout=TIMEOUT_S)


if __name__ == "__main__":
    sys.exit(watch(probe, "echo-http"))
