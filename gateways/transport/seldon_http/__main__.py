"""Run the server: `python3 -m gateways.transport.seldon_http`. LISTEN is its host:port, by default 0.0.0.0:8000."""

import logging
import os

import uvicorn

from gateways.transport.seldon_http import PORT
from gateways.transport.seldon_http.app import create_app


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    host, _, port = os.environ.get("LISTEN", f"0.0.0.0:{PORT}").rpartition(":")
    uvicorn.run(
        create_app(),
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
