"""Run all servers in one process: `python3 -m gateways.transport.frames`."""

import logging

import uvicorn

from gateways.transport.frames import FOLDER, GRPC_PORT, PORT
from gateways.transport.frames.app import create_app
from gateways.transport.frames.frame import Usage
from gateways.transport.frames.service import create_server
from gateways.transport.frames.zeromq import ZmqServer

STOP_GRACE_S = 5.0


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    usage = Usage()
    zeromq = ZmqServer(FOLDER, usage)
    zeromq.start()
    grpc_server = create_server(usage)
    grpc_server.add_insecure_port(f"0.0.0.0:{GRPC_PORT}")
    grpc_server.start()
    try:
        # As echo-http's: the same server, with another application. It returns when it is told to stop.
        uvicorn.run(
            create_app(usage),
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
    finally:
        grpc_server.stop(STOP_GRACE_S).wait()
        zeromq.stop()


if __name__ == "__main__":
    main()
