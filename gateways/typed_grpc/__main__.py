"""The server: `python3 -m gateways.typed_grpc`.

What is served is read from ARTIFACTS (/artifacts), and followed; TORCHSERVE_URL and TRITON_ADDRESS say where it runs;
PORT (50051) is ours.
"""

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from gateways.core.manifest import ManifestError
from gateways.core.serving import ServingError
from gateways.typed_grpc.server import running


async def serve() -> None:
    """Serve until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with running(
        Path(os.environ.get("ARTIFACTS", "/artifacts")),
        os.environ.get("TORCHSERVE_URL", "http://torchserve:8080"),
        os.environ.get("TRITON_ADDRESS", "triton:8001"),
        f"0.0.0.0:{os.environ.get('PORT', '50051')}",
    ):
        await stop.wait()


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    try:
        asyncio.run(serve())
    except (ServingError, ManifestError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
