"""Docker's healthcheck: `python3 -m servers.torchserve.health`.

TorchServe's own ping stays green over a dead worker. The handler touches a file whenever the model has answered: while
that moves, the worker lives and no probe is sent. While the served model takes no photos there is no worker: then
TorchServe's ping must do.
"""

import sys
from pathlib import Path

from gateways.core.health import PHOTO, request, watch
from gateways.core.serving import Serving

TIMEOUT_S = 8.0
ANSWERED = Path("/tmp/answered")  # written by handler.py, which this short-lived script cannot afford to import


def main() -> int:
    serving = Serving.load(Path("/artifacts"))
    if not serving.images:
        return watch(lambda: request("GET", 8080, "/ping", timeout=TIMEOUT_S), "torchserve")
    path = f"/predictions/{serving.model}"
    return watch(
        lambda: request("POST", 8080, path, PHOTO, {"content-type": "image/jpeg"}, timeout=TIMEOUT_S),
        "torchserve",
        progress=lambda: ANSWERED.stat().st_mtime,
    )


if __name__ == "__main__":
    sys.exit(main())
