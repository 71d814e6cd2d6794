"""Docker's healthcheck: `python3 -m gateways.jpeg_http.health`."""

import sys

from gateways.core.health import request, watch
from gateways.core.start import listen
from gateways.jpeg_http import PORT

TIMEOUT_S = 5.0

if __name__ == "__main__":
    _, port = listen(PORT)
    # /health itself costs no inference while others are being answered.
    sys.exit(watch(lambda: request("GET", port, "/health", timeout=TIMEOUT_S), "jpeg-http"))
