"""Run the server: `python3 -m gateways.transport.seldon_grpc`.

LISTEN is its host:port, by default port 50051 of every address.
"""

import asyncio
import logging
import os
import signal

from gateways.transport.seldon_grpc import PORT
from gateways.transport.seldon_grpc.server import running


async def serve() -> None:
    """Serve until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with running(os.environ.get("LISTEN", f"0.0.0.0:{PORT}")):
        await stop.wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    asyncio.run(serve())
