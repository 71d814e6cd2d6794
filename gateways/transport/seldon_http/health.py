"""Docker's healthcheck: `python3 -m gateways.transport.seldon_http.health`."""

import sys

from gateways.core.health import request, watch
from gateways.transport.seldon_http import PORT

TIMEOUT_S = 10.0


def main() -> int:
    return watch(lambda: request("GET", PORT, "/health", timeout=TIMEOUT_S), "seldon-http")


if __name__ == "__main__":
    sys.exit(main())
