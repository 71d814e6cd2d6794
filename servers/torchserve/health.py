"""Docker's healthcheck: `python3 -m servers.torchserve.health`.

TorchServe's own ping stays green when a worker is dead. The handler touches a file whenever the model has answered:
while its time changes, the worker is alive and no probe is sent. While the served model takes no photos there is no
worker, and TorchServe's ping is the check.
"""

import sys
from functools import partial

from gateways.core.health import PHOTO, request, watch
from gateways.core.serving import Serving
from servers.torchserve import ANSWERED

INFERENCE = 8080
TIMEOUT_S = 8.0


def main() -> int:
    serving = Serving.load()
    if not serving.images:
        return watch(partial(request, "GET", INFERENCE, "/ping", timeout=TIMEOUT_S), "torchserve")
    probe = partial(predict, serving.model, TIMEOUT_S)
    return watch(probe, "torchserve", progress=lambda: ANSWERED.stat().st_mtime)


def predict(model: str, timeout: float) -> None:
    """One inference on a photo. Raises if it fails."""
    request("POST", INFERENCE, f"/predictions/{model}", PHOTO, {"content-type": "image/jpeg"}, timeout=timeout)


if __name__ == "__main__":
    sys.exit(main())
