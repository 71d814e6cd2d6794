"""Video frames without a model (rows `frames-*`): what it costs to have a frame changed in another process.

The one server with several protocols: the study asks what each adds to the same work of the same process.
"""

import os
from pathlib import Path

FOLDER = Path(os.environ.get("FRAMES", "/frames"))
"""Shared with the clients: the ZeroMQ socket, and the files that are shared memory."""
SOCKET = "zmq"
