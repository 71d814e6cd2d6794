"""The server: `python3 -m gateways.transport.echo_grpc`."""

import asyncio
import logging
import signal

from gateways.transport.echo_grpc import PORT
from gateways.transport.echo_grpc.service import create_server

STOP_GRACE_S = 5.0


async def serve() -> None:
    """Serve until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    server = create_server()
    server.add_insecure_port(f"0.0.0.0:{PORT}")
    await server.start()
    await stop.wait()
    await server.stop(STOP_GRACE_S)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    asyncio.run(serve())
