"""Docker's healthcheck of every peer: `python3 -m servers.peers.health`."""

import base64
import json
import sys

from gateways.core.health import PHOTO, request, watch
from servers.peers import PATH, PORT

TIMEOUT_S = 8.0
BODY = json.dumps({"images": [base64.b64encode(PHOTO).decode()]}).encode()

if __name__ == "__main__":
    headers = {"content-type": "application/json"}
    sys.exit(watch(lambda: request("POST", PORT, PATH, BODY, headers, timeout=TIMEOUT_S), "peer"))
