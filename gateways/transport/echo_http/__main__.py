"""Run the server: `python3 -m gateways.transport.echo_http`."""

import logging

import uvicorn

from gateways.transport.echo_http import PORT
from gateways.transport.echo_http.app import create_app


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    # As jpeg-http's: the same server, with another application.
    uvicorn.run(
        create_app(),
        host="0.0.0.0",
        port=PORT,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=5,
    )


if __name__ == "__main__":
    main()
