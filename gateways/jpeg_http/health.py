"""Docker's healthcheck: `python3 -m gateways.jpeg_http.health`."""

import sys

from gateways.core.health import request, watch
from gateways.jpeg_http import PORT

TIMEOUT_S = 5.0


def main() -> int:
    # /health itself costs no inference while others are being answered.
    return watch(lambda: request("GET", PORT, "/health", timeout=TIMEOUT_S), "jpeg-http")


if __name__ == "__main__":
    sys.exit(main())
