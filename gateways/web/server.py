"""How every HTTP server starts."""

from typing import Any

import uvicorn
from starlette.types import ASGIApp

from gateways.core.start import listen, log_to_stderr

SETTINGS: dict[str, Any] = {
    "loop": "uvloop",
    "http": "httptools",
    "access_log": False,
    "log_config": None,
    "server_header": False,
    # Longer than any client of the stack keeps an idle connection, so the server never closes one that is about to be
    # used.
    "timeout_keep_alive": 75,
    "timeout_graceful_shutdown": 5,
}
"""uvicorn's event loop: all servers use the same one."""


def serve(app: ASGIApp, port: int) -> None:
    """Serve on LISTEN, by default on `port`, until SIGTERM or SIGINT."""
    log_to_stderr()
    host, port = listen(port)
    uvicorn.run(app, host=host, port=port, **SETTINGS)
