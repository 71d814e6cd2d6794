"""Docker's healthcheck of every peer: `python3 -m servers.peers.health`, with `kserve` behind it for MLServer."""

import base64
import json
import sys

from gateways.core.health import PHOTO, request, watch
from servers.peers import KSERVE_PATH, PATH, PORT

TIMEOUT_S = 8.0
PHOTOS = [base64.b64encode(PHOTO).decode()]
TENSOR = {"name": "images", "datatype": "BYTES", "shape": [1, 1], "data": PHOTOS}

if __name__ == "__main__":
    path, message = (KSERVE_PATH, {"inputs": [TENSOR]}) if sys.argv[1:] == ["kserve"] else (PATH, {"images": PHOTOS})
    body, headers = json.dumps(message).encode(), {"content-type": "application/json"}
    sys.exit(watch(lambda: request("POST", PORT, path, body, headers, timeout=TIMEOUT_S), "peer"))
