"""TorchServe's part of scripts/swap, run in its container: python3 -m servers.torchserve.swap load|tidy

model    print what must be loaded at the start, nothing while the served model takes no photos; exit 1 without DEVICE
load     register what serving.next.json names and wait until it answers; exit 1 with the reason where it does not
tidy     retire all that serving.json does not name (handler.py says why it is not unregistered)
"""

import json
import os
import sys
import time
from functools import partial
from urllib.parse import urlencode

from gateways.core.health import request
from gateways.core.serving import NEXT, Serving, followed
from servers import swap
from servers.torchserve import RETIRED
from servers.torchserve.health import predict

MANAGEMENT = 8081
LOAD_S = 180.0
CALL_S = 20.0
# A retired model that got no request for this long can be unregistered: none of its requests waits.
QUIET_S = 30.0


def print_model() -> None:
    if os.environ.get("DEVICE", "cpu") not in ("", "cpu"):
        from gateways.upstreams.torchscript import pick_device  # it takes PyTorch's import

        pick_device()  # here it is one line and ends the container: a worker that fails is started again for good
    serving = Serving.load()
    RETIRED.mkdir(exist_ok=True)
    print(serving.model if serving.images else "")
    followed(serving)


def load_next() -> None:
    serving = Serving.load(name=NEXT)
    if not serving.images:
        return
    _forget_the_quiet(serving.model)
    (RETIRED / serving.model).unlink(missing_ok=True)
    if serving.model not in _registered():
        # As in config.properties.
        options = {"batch_size": 8, "max_batch_delay": 1, "response_timeout": 20, "startup_timeout": 120}
        query = {"url": f"{serving.model}.mar", "initial_workers": 1, "synchronous": "true", **options}
        request("POST", MANAGEMENT, f"/models?{urlencode(query)}", timeout=LOAD_S)
    swap.answers(serving.model, partial(predict, serving.model, CALL_S), LOAD_S)


def tidy() -> None:
    serving = Serving.load()
    for model in _registered() - ({serving.model} if serving.images else set()):
        (RETIRED / model).touch()
    followed(serving)


def _forget_the_quiet(wanted: str) -> None:
    """Unregister models that were retired long ago: their workers still hold memory."""
    for model in _registered() - {wanted}:
        marker = RETIRED / model
        if marker.exists() and time.time() - marker.stat().st_mtime > QUIET_S:
            request("DELETE", MANAGEMENT, f"/models/{model}", timeout=CALL_S)
            marker.unlink()


def _registered() -> set[str]:
    found = json.loads(request("GET", MANAGEMENT, "/models?limit=1000", timeout=CALL_S))
    return {one["modelName"] for one in found["models"]}


if __name__ == "__main__":
    sys.exit(swap.main("torchserve", __doc__, {"model": print_model, "load": load_next, "tidy": tidy}))
