"""Container health, with the standard library alone, so that checks cost the load little. `python3 -I -S health.py
master`: the page answers. `python3 -I -S health.py worker`: the page answers and the master knows this worker.
"""

import http.client
import json
import os
import socket
import sys

PORT = 8089
TIMEOUT_S = 5


def workers(host: str, port: int = PORT) -> list[str]:
    """Ids of the workers that answer the master. Each id begins with its container's host name."""
    page = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        page.request("GET", "/stats/requests", headers={"authorization": f"Bearer {os.environ.get('API_KEY')}"})
        listed = json.loads(page.getresponse().read())["workers"]
    finally:
        page.close()
    return [worker["id"] for worker in listed if worker["state"] != "missing"]


def problem(role: str) -> str | None:
    """Why this container is not healthy, or None."""
    try:
        here = workers("127.0.0.1" if role == "master" else "locust-master")
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        return f"the page does not answer: {error}"
    name = socket.gethostname()
    if role == "worker" and not any(worker.startswith(f"{name}_") for worker in here):
        return f"the master does not know this worker, {name}"
    return None


if __name__ == "__main__":
    sys.exit(problem(sys.argv[1]))
