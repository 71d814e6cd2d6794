"""Docker's healthcheck: `python3 -m gateways.torchserve.health`.

TorchServe's own ping stays green over a dead worker. The handler touches a file whenever the model has answered: while
that moves, the worker lives and no probe is sent.
"""

import os
import sys
from pathlib import Path

from gateways.core.health import PHOTO, request, watch

TIMEOUT_S = 8.0
ANSWERED = Path("/tmp/answered")  # written by handler.py, which this short-lived script cannot afford to import


def main() -> int:
    path = f"/predictions/{os.environ.get('MODEL', 'efficientnet_lite0')}"
    return watch(
        lambda: request("POST", 8080, path, PHOTO, {"content-type": "image/jpeg"}, timeout=TIMEOUT_S),
        "torchserve",
        progress=lambda: ANSWERED.stat().st_mtime,
    )


if __name__ == "__main__":
    sys.exit(main())
