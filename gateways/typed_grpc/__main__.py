"""The server: `python3 -m gateways.typed_grpc`.

MODEL and ARTIFACTS (/artifacts) say what is served, TORCHSERVE_URL and TRITON_ADDRESS where; PORT (50051) is ours.
"""

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from gateways.core.manifest import Manifest, ManifestError
from gateways.typed_grpc.server import running


async def serve(manifest: Manifest) -> None:
    """Serve until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with running(
        manifest,
        os.environ.get("TORCHSERVE_URL", "http://torchserve:8080"),
        os.environ.get("TRITON_ADDRESS", "triton:8001"),
        f"0.0.0.0:{os.environ.get('PORT', '50051')}",
    ):
        await stop.wait()


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    if not (model := os.environ.get("MODEL")):
        sys.exit("MODEL is not set: say which model is served, e.g. MODEL=efficientnet_lite0")
    try:
        manifest = Manifest.load(Path(os.environ.get("ARTIFACTS", "/artifacts")), model)
    except ManifestError as error:
        sys.exit(str(error))
    asyncio.run(serve(manifest))


if __name__ == "__main__":
    main()
