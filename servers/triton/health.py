"""Docker's health check of Triton: every model that is served must answer.

Triton's readiness endpoints stay green when a model process is dead or hung. So each model is asked one real inference,
unless its success counter has moved since the last check. At the third failure in a row, or the first if its process is
dead, its processes are ended and the model is unloaded and loaded again; where that does not help, or the server does
not answer, the container restarts.

A model that could not be loaded makes the container unhealthy, but loading it again would fail again: nothing is done.
A model that is not in /artifacts/serving.json comes or goes with a swap: left alone. Without that file, all count.
"""

import fcntl
import json
import math
import os
import re
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from gateways.core.health import DeadError, Refused, end_server, request, watch
from gateways.core.serving import Serving, ServingError

PORT = 8000
PROBE_S = 5.0
LOAD_S = 60.0
# How our backend opens the text of its errors (backends/onnxruntime/model.py).
ANSWERED = "onnxruntime: "
# What Triton's Python backend says of a model whose process has ended.
DEAD = re.compile("Stub process .*is not healthy")

Json = Any


def main() -> int:
    """One check; the exit code for Docker, and on stdout why.

    Somebody's own check waits for Docker's: two that heal one model would end each other's processes.
    """
    with open("/tmp/health.lock", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        return check()


def check() -> int:
    found: list[Json] = []
    if watch(lambda: found.extend(index()), "triton"):
        return 1
    # An entry without a state appeared after the start and was never asked for.
    known = [entry for entry in found if entry.get("state")]
    served = _served() or {entry["name"] for entry in known}
    codes = [_check(entry) for entry in known if entry["name"] in served]
    for missing in sorted(served - {entry["name"] for entry in known}):
        print(f"{missing}: not loaded: is it in the model repository?")
        codes.append(1)
    if not codes:
        print("no model: is the model repository empty?")
    return max(codes, default=1)


def _served() -> set[str]:
    """The models that must answer now: a swap may change them while a check runs. Empty: serving.json is absent."""
    try:
        return set(Serving.load().models)
    except ServingError:
        return set()


def _check(entry: Json) -> int:
    """One version of one model. A failure here does not keep the next model from being checked and healed."""
    model, version, state, reason = entry["name"], entry["version"], entry["state"], entry.get("reason", "")
    if state == "READY":
        path = f"/v2/models/{model}/versions/{version}"
        with suppress(Exception):  # if metadata cannot be read, the probe reports why
            if ok("GET", path)["platform"] == "ensemble":  # each of its steps is checked and healed separately
                return 0
        return watch(
            partial(probe, path),
            f"{model}.{version}",
            progress=partial(_successes, path),
            heal=partial(_heal, model, path),
        )
    print(f"{model}.{version}: {state} {reason.partition(chr(10))[0]}")  # without the traceback that follows
    if reason == "unloaded" and model in (_served() or {model}):  # a check was cut off between unload and load
        load(model)
    return 1


def probe(path: str) -> None:
    """One inference on zeros of the smallest shape. Any answer of the model counts, also a refusal of zeros."""
    about, before = ok("GET", path), _successes(path)
    inputs = [_zeros(tensor) for tensor in about["inputs"]]
    try:
        request("POST", PORT, f"{path}/infer", json.dumps({"inputs": inputs}).encode(), timeout=PROBE_S)
    except TimeoutError:
        if _successes(path) <= before:  # hung, not busy
            raise
    except Refused as error:
        if DEAD.search(str(error)):
            raise DeadError(str(error)) from None
        if error.status >= 500 and ANSWERED not in str(error):
            raise


def _zeros(tensor: Json) -> Json:
    """An input for `tensor` of the model's metadata: every variable dimension 1."""
    shape = [max(1, int(dim)) for dim in tensor["shape"]]
    zero = {"BYTES": "", "BOOL": False}.get(tensor["datatype"], 0)
    return {"name": tensor["name"], "datatype": tensor["datatype"], "shape": shape, "data": [zero] * math.prod(shape)}


def _successes(path: str) -> float:
    return float(ok("GET", f"{path}/stats")["model_stats"][0]["inference_stats"]["success"]["count"])


def _heal(model: str, path: str) -> None:
    """Bring a dead or hung model back; where a fresh process does not help either, restart the whole server.

    (A killed process leaves its shared memory behind: the server holds it until its own end.)
    """
    print(f"{model}: ending its processes, unloading and loading it again", flush=True)
    try:
        end_processes(model)  # a hung process would never answer its requests
        ok("POST", f"/v2/repository/models/{model}/unload", {})
        load(model)
        probe(path)
    except Exception as error:
        print(f"{model}: still fails ({error}): ending the server so that the container restarts", flush=True)
        end_server()


def index() -> list[Json]:
    """Triton's index: the state of each version of each model in its repository."""
    return list(ok("POST", "/v2/repository/index", {}))


def load(model: str, timeout: float = LOAD_S) -> None:
    ok("POST", f"/v2/repository/models/{model}/load", {}, timeout=timeout)


def end_processes(model: str) -> None:
    """Kill the stub processes of a model: their first argument is <repository>/<model>/<version>/<file>."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ended while we looked
            arguments = path.read_text().split("\0")
            if arguments[0].endswith("triton_python_backend_stub") and Path(arguments[1]).parent.parent.name == model:
                os.kill(int(path.parent.name), signal.SIGKILL)


def ok(method: str, path: str, body: Json = None, *, timeout: float = PROBE_S) -> Json:
    """The JSON of a 200 (None where it is empty). Raises Refused on any other status."""
    sent = None if body is None else json.dumps(body).encode()
    return json.loads(request(method, PORT, path, sent, timeout=timeout) or b"null")


if __name__ == "__main__":
    sys.exit(main())
