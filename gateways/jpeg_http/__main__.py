"""Run the server: `python3 -m gateways.jpeg_http`. What it serves is read from ARTIFACTS (/artifacts), and followed.

LISTEN is its host:port, by default port 8000 of every address.
"""

import logging
import os
import sys
from pathlib import Path

import uvicorn

from gateways.core.manifest import ManifestError
from gateways.core.serving import Serving, ServingError
from gateways.jpeg_http import PORT
from gateways.jpeg_http.app import create_app
from gateways.jpeg_http.served import Served
from gateways.upstreams.torch import DeviceError

ARTIFACTS = Path(os.environ.get("ARTIFACTS", "/artifacts"))


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    logging.getLogger("python_multipart").setLevel(logging.ERROR)  # it warns about what the client is told anyway
    try:
        served = Served(ARTIFACTS, Serving.load(ARTIFACTS))
    except (DeviceError, ManifestError, ServingError) as error:
        sys.exit(f"jpeg-http: {error}")
    host, _, port = os.environ.get("LISTEN", f"0.0.0.0:{PORT}").rpartition(":")
    uvicorn.run(
        create_app(served),
        host=host,
        port=int(port),
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_config=None,
        server_header=False,
        # Longer than any client of the stack keeps an idle connection: none is closed that is about to be used.
        timeout_keep_alive=75,
        timeout_graceful_shutdown=5,
    )


if __name__ == "__main__":
    main()
