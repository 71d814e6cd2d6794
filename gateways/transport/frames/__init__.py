"""Video frames without a model (rows `frames-*`): the cost of changing a frame in another process. It is the only
server with several protocols, because the study compares what each adds to the same work.
"""

import os
from pathlib import Path

FOLDER = Path(os.environ.get("FRAMES", "/frames"))
"""Shared with the clients: the ZeroMQ socket, and the files that are shared memory."""
SOCKET = "zmq"
