"""The servers without a model as their containers start, ask and stop them."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.docker import wait_until
from gateways.transport import NAMES
from tests.repository import ROOT


@pytest.mark.parametrize("name", NAMES)
def test_a_server_starts_is_healthy_and_stops(name: str, tmp_path: Path) -> None:
    """SIGTERM ends it at once, because no request is in progress."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = os.environ | {"LISTEN": f"127.0.0.1:{port}", "FRAMES": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-m", "gateways.transport", name], cwd=ROOT, env=environment) as server:
        # Without what the health check does about a failure: it would end this container.
        code = "import sys; from gateways.transport.health import PROBES; PROBES[sys.argv[1]]()"
        check = [sys.executable, "-c", code, name]
        wait_until(
            lambda: subprocess.run(check, cwd=ROOT, env=environment, check=False, capture_output=True).returncode == 0,
            "it is healthy", seconds=60, every=0,
        )  # fmt: skip
        server.send_signal(signal.SIGTERM)
        assert server.wait(20) in (0, -signal.SIGTERM)
